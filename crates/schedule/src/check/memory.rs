//! A rank's buffers in a check: their aliasing, symbolic values and accesses.

use super::value::SymbolicValue;
use crate::layout::BufferMap;
use crate::op::{BlockRange, Buf};
use crate::schedule::{BlockRun, BufferBlocks, Operation, Schedule, buffer_blocks};

/// A range of elements of one of the rank's memory areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementRange {
    area: u32,
    start: u32,
    end: u32,
}

impl ElementRange {
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Access {
    Read,
    /// Combines: several updates in one round are serialized.
    Update,
    Write,
}

/// A lane's access to an element in a phase with several lanes: a node of a linked list.
#[derive(Clone, Copy)]
struct LaneAccess {
    lane: u32,
    access: Access,
    next: u32,
}

const NO_ACCESS: u32 = u32::MAX;

/// A memory area of a rank: its values and their accesses.
struct Area {
    values: Vec<SymbolicValue>,
    /// The last round that accessed each element, and how: round << 2 | access.
    last_accesses: Vec<u32>,
    /// The last access by a lane of this phase, an index into `lane_accesses`. Empty until a phase has several lanes.
    lane_heads: Vec<u32>,
}

/// `In`, `Out` and scratch memory of a rank.
pub(crate) struct Memory {
    areas: Vec<Area>,
    /// For each buffer, its area and its offset in that.
    buffers: Vec<(usize, usize)>,
    lane_accesses: Vec<LaneAccess>,
    /// Rounds so far.
    round: u32,
}

fn buffer_index(buf: Buf) -> usize {
    match buf {
        Buf::In => 0,
        Buf::Out => 1,
        Buf::Tmp(tmp) => 2 + tmp as usize,
    }
}

impl Memory {
    pub(crate) fn new(buffer_map: BufferMap<'_>, in_place: bool) -> Self {
        let bufs = [Buf::In, Buf::Out].into_iter().chain((0..buffer_map.schedule.scratch_buffers()).map(Buf::Tmp));
        let sizes: Vec<usize> = bufs.map(|buf| buffer_map.buffer_len(buf)).collect();
        let mut at: Vec<(usize, usize)> = (0..sizes.len()).map(|i| (i, 0)).collect();
        if in_place {
            alias(buffer_map, &mut at);
        }
        let area = |size| Area {
            values: vec![SymbolicValue::UNDEFINED; size],
            last_accesses: vec![0; size],
            lane_heads: Vec::new(),
        };
        Self { areas: sizes.into_iter().map(area).collect(), buffers: at, lane_accesses: Vec::new(), round: 0 }
    }

    /// Appends the element ranges of a block range, in the order of its positions.
    pub(crate) fn locate(&self, buffer_map: BufferMap<'_>, part: BlockRange, into: &mut Vec<ElementRange>) {
        let (area, base) = self.buffers[buffer_index(part.buf)];
        buffer_map.ranges(part, |range| {
            let (start, end) = ((base + range.start) as u32, (base + range.end) as u32);
            into.push(ElementRange { area: area as u32, start, end });
        });
    }

    pub(crate) fn get(&self, buf: Buf, element: usize) -> SymbolicValue {
        let (area, base) = self.buffers[buffer_index(buf)];
        self.areas[area].values[base + element]
    }

    pub(crate) fn set(&mut self, buf: Buf, element: usize, value: SymbolicValue) {
        let (area, base) = self.buffers[buffer_index(buf)];
        self.areas[area].values[base + element] = value;
    }

    pub(crate) fn read(&self, elements: &[ElementRange], into: &mut Vec<SymbolicValue>) {
        for elements in elements {
            into.extend_from_slice(
                &self.areas[elements.area as usize].values[elements.start as usize..elements.end as usize],
            );
        }
    }

    /// Calls `change` with the index and value of each element.
    pub(crate) fn for_each_mut(
        &mut self,
        elements: &[ElementRange],
        mut change: impl FnMut(usize, &mut SymbolicValue),
    ) {
        let mut n = 0;
        for elements in elements {
            for value in &mut self.areas[elements.area as usize].values[elements.start as usize..elements.end as usize]
            {
                change(n, value);
                n += 1;
            }
        }
    }

    /// A round begins.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// A phase with several lanes begins: earlier accesses are complete.
    pub(crate) fn next_phase(&mut self) {
        self.lane_accesses.clear();
        for area in &mut self.areas {
            area.lane_heads.clear();
            area.lane_heads.resize(area.values.len(), NO_ACCESS);
        }
    }

    /// Records an access in this round. An error is the index of an element to which another operation of the round has
    /// a conflicting access.
    pub(crate) fn record_round_access(&mut self, elements: &[ElementRange], access: Access) -> Result<(), usize> {
        let mut n = 0;
        for elements in elements {
            for last in
                &mut self.areas[elements.area as usize].last_accesses[elements.start as usize..elements.end as usize]
            {
                // Two reads, or two serialized updates, do not conflict.
                if *last >> 2 == self.round && (*last & 3 != access as u32 || access == Access::Write) {
                    return Err(n);
                }
                *last = self.round << 2 | access as u32;
                n += 1;
            }
        }
        Ok(())
    }

    /// Records an access by a lane. An error is the index of an element to which another lane that may be open
    /// concurrently has a conflicting access.
    pub(crate) fn record_lane_access(
        &mut self,
        elements: &[ElementRange],
        access: Access,
        lane: u32,
        window: u32,
    ) -> Result<(), usize> {
        let mut n = 0;
        for elements in elements {
            for head in
                &mut self.areas[elements.area as usize].lane_heads[elements.start as usize..elements.end as usize]
            {
                let mut at = *head;
                let mut recorded = false;
                while at != NO_ACCESS {
                    let previous = self.lane_accesses[at as usize];
                    if previous.lane == lane {
                        recorded |= previous.access == access;
                    } else if previous.lane.abs_diff(lane) < window
                        && (access != Access::Read || previous.access != Access::Read)
                    {
                        return Err(n);
                    }
                    at = previous.next;
                }
                if !recorded {
                    self.lane_accesses.push(LaneAccess { lane, access, next: *head });
                    *head = self.lane_accesses.len() as u32 - 1;
                }
                n += 1;
            }
        }
        Ok(())
    }
}

/// Makes buffers alias as the in-place form of the operation does.
fn alias(buffer_map: BufferMap<'_>, at: &mut [(usize, usize)]) {
    let BufferMap { schedule, layouts, rank } = buffer_map;
    let (input, output) = (buffer_index(Buf::In), buffer_index(Buf::Out));
    match schedule.operation() {
        Operation::Allreduce | Operation::Scan | Operation::Exscan => at[input] = (output, 0),
        Operation::Reduce { root } if rank == root => at[input] = (output, 0),
        Operation::Allgather => at[input] = (output, layouts.output.offset(rank)),
        Operation::Gather { root } if rank == root => at[input] = (output, layouts.output.offset(rank)),
        Operation::Scatter { root } if rank == root => at[output] = (input, layouts.input.offset(rank)),
        Operation::ReduceScatter if scratch_aliases_input(schedule, rank) => at[buffer_index(Buf::Tmp(0))] = (input, 0),
        _ => {}
    }
}

/// Whether the first scratch buffer has the size and order of the input. In place the input may be overwritten, so it
/// serves as that buffer.
fn scratch_aliases_input(schedule: &dyn Schedule, rank: u32) -> bool {
    schedule.scratch_buffers() > 0 && buffer_blocks(schedule, rank, Buf::Tmp(0)) == BufferBlocks::all(schedule.blocks())
}

/// A block of a block range that is not in the rank's buffer, if there is one.
pub(crate) fn out_of_bounds_block(buffer_map: BufferMap<'_>, part: BlockRange) -> Option<u32> {
    if part.len == 0 {
        return None;
    }
    if part.segments == 0 || part.segment >= part.segments {
        return Some(part.lo);
    }
    let (lo, len) = match buffer_blocks(buffer_map.schedule, buffer_map.rank, part.buf) {
        BufferBlocks::Empty => return Some(part.lo),
        BufferBlocks::OwnBlock => (buffer_map.rank, 1),
        BufferBlocks::Uniform { blocks } => (0, blocks),
        BufferBlocks::ViewRange { view: 0, lo, len } => (lo, len),
        BufferBlocks::ViewRange { view, lo, len } => {
            let inside = part.view == view && part.lo >= lo && part.lo + part.len <= lo + len;
            return (!inside).then_some(part.lo);
        }
    };
    let mut found = None;
    let mut check = |first: u32, blocks: u32| {
        if first < lo {
            found.get_or_insert(first);
        } else if first + blocks > lo + len {
            found.get_or_insert(first.max(lo + len));
        }
    };
    if part.view == 0 {
        check(part.lo, part.len);
    } else {
        let mut check = |run: BlockRun| check(run.block, run.blocks);
        buffer_map.schedule.resolve_view_on(buffer_map.rank, part.view, part.lo, part.len, &mut check);
    }
    found
}
