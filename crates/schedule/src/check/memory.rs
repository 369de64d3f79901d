//! A rank's buffers in a proof, which of them are the same memory, and who has touched them.

use super::value::Value;
use crate::layout::Places;
use crate::op::{Buf, Part};
use crate::schedule::{Held, Operation, Schedule, held};

/// A range of elements of one of the rank's memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    memory: u32,
    start: u32,
    end: u32,
}

impl Cells {
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// What an operation does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Access {
    Read,
    /// Combines: several in one round take turns.
    Update,
    Write,
}

/// A lane's access to an element in a phase with several lanes, and the one before that.
#[derive(Clone, Copy)]
struct Touch {
    lane: u32,
    access: Access,
    next: u32,
}

const NEVER: u32 = u32::MAX;

/// One of a rank's memories: elements, and for each what has touched it.
struct Area {
    values: Vec<Value>,
    /// The last round that touched it, and how: round << 2 | access.
    rounds: Vec<u32>,
    /// The last touch by a lane of this phase, a place in `touches`. Empty until a phase has several lanes.
    lanes: Vec<u32>,
}

/// `In`, `Out` and scratch memory of a rank.
pub(crate) struct Memory {
    areas: Vec<Area>,
    /// For each buffer, the memory it lies in and where it begins there.
    places: Vec<(usize, usize)>,
    touches: Vec<Touch>,
    /// Rounds so far.
    round: u32,
}

fn index(buf: Buf) -> usize {
    match buf {
        Buf::In => 0,
        Buf::Out => 1,
        Buf::Tmp(tmp) => 2 + tmp as usize,
    }
}

impl Memory {
    pub(crate) fn new(places: Places<'_>, in_place: bool) -> Self {
        let bufs = [Buf::In, Buf::Out].into_iter().chain((0..places.schedule.temporaries()).map(Buf::Tmp));
        let sizes: Vec<usize> = bufs.map(|buf| places.size(buf)).collect();
        let mut at: Vec<(usize, usize)> = (0..sizes.len()).map(|i| (i, 0)).collect();
        if in_place {
            alias(places, &mut at);
        }
        let area = |size| Area { values: vec![Value::NOTHING; size], rounds: vec![0; size], lanes: Vec::new() };
        Self { areas: sizes.into_iter().map(area).collect(), places: at, touches: Vec::new(), round: 0 }
    }

    /// Adds where a part lies, in the order of its positions.
    pub(crate) fn locate(&self, places: Places<'_>, part: Part, into: &mut Vec<Cells>) {
        let (memory, base) = self.places[index(part.buf)];
        places.ranges(part, |range| {
            let (start, end) = ((base + range.start) as u32, (base + range.end) as u32);
            into.push(Cells { memory: memory as u32, start, end });
        });
    }

    pub(crate) fn get(&self, buf: Buf, element: usize) -> Value {
        let (memory, base) = self.places[index(buf)];
        self.areas[memory].values[base + element]
    }

    pub(crate) fn set(&mut self, buf: Buf, element: usize, value: Value) {
        let (memory, base) = self.places[index(buf)];
        self.areas[memory].values[base + element] = value;
    }

    pub(crate) fn read(&self, cells: &[Cells], into: &mut Vec<Value>) {
        for cells in cells {
            into.extend_from_slice(&self.areas[cells.memory as usize].values[cells.start as usize..cells.end as usize]);
        }
    }

    /// The elements of these cells, to be changed.
    pub(crate) fn each(&mut self, cells: &[Cells], mut change: impl FnMut(usize, &mut Value)) {
        let mut n = 0;
        for cells in cells {
            for value in &mut self.areas[cells.memory as usize].values[cells.start as usize..cells.end as usize] {
                change(n, value);
                n += 1;
            }
        }
    }

    /// A round begins.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// A phase with several lanes begins: what was before is over.
    pub(crate) fn next_phase(&mut self) {
        self.touches.clear();
        for area in &mut self.areas {
            area.lanes.clear();
            area.lanes.resize(area.values.len(), NEVER);
        }
    }

    /// Notes an access in this round. Finds the element that another operation of the round touches too, where not both
    /// may.
    pub(crate) fn touch_in_round(&mut self, cells: &[Cells], access: Access) -> Result<(), usize> {
        let mut n = 0;
        for cells in cells {
            for last in &mut self.areas[cells.memory as usize].rounds[cells.start as usize..cells.end as usize] {
                // Two may read, and two may combine, one after the other.
                if *last >> 2 == self.round && (*last & 3 != access as u32 || access == Access::Write) {
                    return Err(n);
                }
                *last = self.round << 2 | access as u32;
                n += 1;
            }
        }
        Ok(())
    }

    /// Notes an access by a lane. Finds the element that another lane touches which may be open at the same time.
    pub(crate) fn touch_in_lane(
        &mut self,
        cells: &[Cells],
        access: Access,
        lane: u32,
        window: u32,
    ) -> Result<(), usize> {
        let mut n = 0;
        for cells in cells {
            for head in &mut self.areas[cells.memory as usize].lanes[cells.start as usize..cells.end as usize] {
                let mut at = *head;
                let mut known = false;
                while at != NEVER {
                    let touch = self.touches[at as usize];
                    if touch.lane == lane {
                        known |= touch.access == access;
                    } else if touch.lane.abs_diff(lane) < window
                        && (access != Access::Read || touch.access != Access::Read)
                    {
                        return Err(n);
                    }
                    at = touch.next;
                }
                if !known {
                    self.touches.push(Touch { lane, access, next: *head });
                    *head = self.touches.len() as u32 - 1;
                }
                n += 1;
            }
        }
        Ok(())
    }
}

/// Lets buffers be the same memory where callers may have them so.
fn alias(places: Places<'_>, at: &mut [(usize, usize)]) {
    let Places { schedule, layouts, rank } = places;
    let (input, output) = (index(Buf::In), index(Buf::Out));
    match schedule.operation() {
        Operation::Allreduce | Operation::Scan | Operation::Exscan => at[input] = (output, 0),
        Operation::Reduce { root } if rank == root => at[input] = (output, 0),
        Operation::Allgather => at[input] = (output, layouts.output.offset(rank)),
        Operation::Gather { root } if rank == root => at[input] = (output, layouts.output.offset(rank)),
        Operation::Scatter { root } if rank == root => at[output] = (input, layouts.input.offset(rank)),
        Operation::ReduceScatter if works_in_input(schedule, rank) => at[index(Buf::Tmp(0))] = (input, 0),
        _ => {}
    }
}

/// Whether the first scratch buffer is as large as the input and in its order. The input may be overwritten when the
/// result takes its place, and serves as that buffer then.
fn works_in_input(schedule: &dyn Schedule, rank: u32) -> bool {
    schedule.temporaries() > 0 && held(schedule, rank, Buf::Tmp(0)) == Held::all(schedule.blocks())
}

/// A block of a part that the rank's buffer has no room for, if there is one.
pub(crate) fn outside(places: Places<'_>, part: Part) -> Option<u32> {
    if part.len == 0 {
        return None;
    }
    if part.of == 0 || part.seg >= part.of {
        return Some(part.lo);
    }
    let (lo, len) = match held(places.schedule, places.rank, part.buf) {
        Held::Nothing => return Some(part.lo),
        Held::Own => (places.rank, 1),
        Held::Positions { view: 0, lo, len } => (lo, len),
        Held::Positions { view, lo, len } => {
            let inside = part.view == view && part.lo >= lo && part.lo + part.len <= lo + len;
            return (!inside).then_some(part.lo);
        }
    };
    let mut found = None;
    let mut look = |first: u32, blocks: u32| {
        if first < lo {
            found.get_or_insert(first);
        } else if first + blocks > lo + len {
            found.get_or_insert(first.max(lo + len));
        }
    };
    if part.view == 0 {
        look(part.lo, part.len);
    } else {
        places.schedule.runs(part.view, part.lo, part.len, &mut |run| look(run.block, run.blocks));
    }
    found
}
