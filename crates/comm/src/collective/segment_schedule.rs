//! Schedules over the shared segment: the data that a round sends is exchanged through slots, or read directly from the
//! sender's memory, and slot rounds replace messages.
//!
//! *Copy-in copy-out*: each rank copies what it sends into its slot, once for all readers, and continues; readers copy
//! or reduce from there. *Single copy*: each rank publishes the addresses of what it sends, and readers read its memory
//! (CMA). All ranks wait for all in each round and in one more at the end, so that nothing is modified while others
//! read it.

use treepie_fabric::{EXPOSED_ADDRESS_BYTES, SlotClass};
use treepie_schedule::{BlockRange, BufferMap, OperandSide, Operation, RoundList, ScheduleOp};

use super::compiled_schedule::{ChunkedSteps, CompiledSchedule, MAX_STEPS};
use super::dead_copies::eliminate_dead_copies;
use super::job::CollectiveJob;
use super::steps::{BufferRange, MAX_ALIGN, RangeResolver, Step, contiguous_range};
use crate::choice::{SharedTransport, SlotCapacities};

/// One chunk, of any length.
const WHOLE: (usize, usize) = (1, usize::MAX);

/// Alignment of data in a line slot.
const LINE_ALIGN: usize = align_of::<u64>();

impl CompiledSchedule {
    /// Compiles a schedule over the shared segment, if each phase has one lane, each part is contiguous, and messages
    /// are received in the round in which they are sent. All ranks must decide alike, so the conditions are checked for
    /// all ranks.
    pub(crate) fn over_shared_segment(
        job: &CollectiveJob,
        in_place: bool,
        slots: &SlotCapacities,
        transport: SharedTransport,
    ) -> Option<Self> {
        let resolver = RangeResolver::new(job, in_place)?;
        let members: Vec<u32> = (0..job.schedule.ranks()).collect();
        let (mut lists, mut max_steps) = (StepLists::default(), 0);
        for phase in 0..job.schedule.phases() {
            let of_phase = segment_phase(job, phase, &members, slots, transport, &resolver)?;
            max_steps += of_phase.max_steps;
            if max_steps > MAX_STEPS {
                return None;
            }
            lists.append(of_phase.lists);
        }
        if transport == SharedTransport::SingleCopy {
            lists.push(vec![Step::Publish { slot: SlotClass::Line, all: true }], WHOLE);
        }
        eliminate_dead_copies(&mut lists.steps);
        let compiled = Self::from_lists(job, &resolver, lists);
        // If it did, it would do so on other ranks too, but not on all.
        assert!(
            !overwrites_exposed_data(compiled.steps()),
            "single copy requires an algorithm whose ranks do not modify what they send"
        );
        Some(compiled)
    }
}

/// Lists of steps, and for each list the number and length of its chunks.
#[derive(Default)]
pub(super) struct StepLists {
    pub(super) steps: Vec<Vec<Step>>,
    chunks: Vec<(usize, usize)>,
}

impl StepLists {
    fn push(&mut self, steps: Vec<Step>, chunks: (usize, usize)) {
        self.steps.push(steps);
        self.chunks.push(chunks);
    }

    /// A list of steps that run once.
    pub(super) fn once(steps: Vec<Step>) -> Self {
        Self { steps: vec![steps], chunks: vec![WHOLE] }
    }

    /// Appends other lists.
    pub(super) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.chunks.extend(other.chunks);
    }

    /// Appends the steps to `all`, and returns their ranges.
    pub(super) fn concat_to(self, all: &mut Vec<Step>) -> Vec<ChunkedSteps> {
        let mut chunked_steps = Vec::new();
        for (list, (num_chunks, chunk_len)) in self.steps.into_iter().zip(self.chunks) {
            let begin = all.len();
            all.extend(list);
            if all.len() > begin {
                chunked_steps.push(ChunkedSteps { steps: begin..all.len(), num_chunks, chunk_len });
            }
        }
        chunked_steps
    }
}

/// The steps of this rank in a phase.
pub(super) struct SegmentPhase {
    pub(super) lists: StepLists,
    /// An upper bound of the steps of each member.
    pub(super) max_steps: usize,
}

/// The steps of a phase whose messages are all between `members`, the ranks that share the segment, ascending. All of them
/// decide alike.
pub(super) fn segment_phase(
    job: &CollectiveJob,
    phase: u32,
    members: &[u32],
    slots: &SlotCapacities,
    transport: SharedTransport,
    resolver: &RangeResolver<'_>,
) -> Option<SegmentPhase> {
    let schedule = &*job.schedule;
    if schedule.phase(phase).lanes != 1 {
        return None;
    }
    let of_members = members.iter().map(|rank| {
        let mut rounds = RoundList::new();
        schedule.emit(*rank, phase, 0, 0..schedule.rounds(*rank, phase, 0), &mut rounds);
        rounds
    });
    let of_members: Vec<RoundList> = of_members.collect();
    let num_rounds = of_members.iter().map(RoundList::len).max().unwrap_or(0);
    let mut compiled = SegmentPhase { lists: StepLists::default(), max_steps: 0 };
    for k in 0..num_rounds {
        let round: Vec<&[ScheduleOp]> = of_members.iter().map(|rounds| rounds.round_or_empty(k)).collect();
        // Each operation of a rank is at most two steps, and the round is published. The bound of the longest rank
        // holds for all.
        compiled.max_steps += 1 + 2 * round.iter().map(|ops| ops.len()).max().unwrap_or(0);
        if compiled.max_steps > MAX_STEPS {
            return None;
        }
        let round = SegmentRound::new(job, members, slots, transport, &round)?;
        compiled.lists.push(round.copies(resolver)?, WHOLE);
        compiled.lists.push(round.steps(resolver)?, (round.num_chunks, round.chunk_len));
    }
    Some(compiled)
}

/// A round of all ranks that share the segment.
struct SegmentRound<'a> {
    job: &'a CollectiveJob,
    /// These ranks, and the index of this one.
    members: &'a [u32],
    index: usize,
    ops: &'a [&'a [ScheduleOp]],
    slot_writes: Vec<SlotWrites>,
    transport: SharedTransport,
    slot: SlotClass,
    /// Bytes of a chunk of a part, and the number of chunks of the longest part.
    chunk_len: usize,
    num_chunks: usize,
}

impl<'a> SegmentRound<'a> {
    fn new(
        job: &'a CollectiveJob,
        members: &'a [u32],
        slots: &SlotCapacities,
        transport: SharedTransport,
        ops: &'a [&'a [ScheduleOp]],
    ) -> Option<Self> {
        let index = members.binary_search(&job.rank).ok()?;
        let of_members = members.iter().copied().zip(ops);
        let slot_writes: Vec<SlotWrites> = of_members
            .clone()
            .map(|(rank, ops)| SlotWrites::new(job, rank, ops, transport == SharedTransport::SingleCopy))
            .collect();
        let contiguous = of_members.into_iter().all(|(rank, ops)| ops.iter().all(|op| is_contiguous(job, rank, *op)));
        if !contiguous || !all_sends_are_received(members, &slot_writes, ops) {
            return None;
        }
        let max_bytes = slot_writes.iter().map(|writes| writes.bytes).max().unwrap_or(0);
        let mut round = Self {
            job,
            members,
            index,
            ops,
            slot_writes,
            transport,
            slot: SlotClass::Line,
            chunk_len: usize::MAX,
            num_chunks: 1,
        };
        match slots.slot_for(max_bytes) {
            Some(slot) if slot != SlotClass::Line || job.align <= LINE_ALIGN => round.slot = slot,
            Some(_) => round.slot = SlotClass::Page,
            None if transport == SharedTransport::PipelinedCopyInCopyOut => round.split_into_chunks(slots)?,
            None => return None,
        }
        Some(round)
    }

    /// Splits all parts into chunks that fit into a large slot together.
    fn split_into_chunks(&mut self, slots: &SlotCapacities) -> Option<()> {
        // A local reduction has a position among those with received operands, which would differ for each chunk.
        if self.ops.iter().any(|ops| ops.iter().any(|op| matches!(op, ScheduleOp::Reduce { .. }))) {
            return None;
        }
        let parts = self.slot_writes.iter().map(|writes| writes.parts.len()).max()?;
        let unit = self.job.element.checked_mul(MAX_ALIGN)?;
        self.chunk_len = slots.bulk / parts / unit * unit;
        if self.chunk_len == 0 {
            return None;
        }
        let longest = self.slot_writes.iter().map(|writes| writes.longest).max()?;
        (self.slot, self.num_chunks) = (SlotClass::Large, longest.div_ceil(self.chunk_len));
        Some(())
    }

    /// Offset of a part in the slot.
    fn slot_offset(&self, writes: &SlotWrites, part: usize) -> usize {
        if self.num_chunks == 1 { writes.parts[part].1 } else { part * self.chunk_len }
    }

    /// The copies of this rank. No rank reads in this round what a copy writes, so they come first.
    fn copies(&self, resolver: &RangeResolver<'_>) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        for op in self.ops[self.index].iter().filter(|op| matches!(op, ScheduleOp::Copy { .. })) {
            steps.extend(resolver.local(*op)?);
        }
        Some(steps)
    }

    /// The other steps of this rank, which run for each chunk.
    fn steps(&self, resolver: &RangeResolver<'_>) -> Option<Vec<Step>> {
        let (rank, slot) = (self.job.rank, self.slot);
        let (own_writes, ops) = (&self.slot_writes[self.index], self.ops[self.index]);
        let mut steps = Vec::new();
        for (number, (part, _)) in own_writes.parts.iter().enumerate() {
            let (at, data) = (self.slot_offset(own_writes, number), resolver.resolve(*part)?);
            match self.transport {
                _ if data.range.is_empty() => {}
                SharedTransport::SingleCopy => steps.push(Step::Expose { slot, at, data }),
                _ => steps.push(Step::Write { slot, at, data }),
            }
        }
        if self.slot_writes.iter().any(|writes| !writes.sends.is_empty()) {
            steps.push(Step::Publish { slot, all: self.transport == SharedTransport::SingleCopy });
        }
        let mut received = vec![0usize; self.ops.len()];
        for op in ops {
            let (from, part, side) = match *op {
                ScheduleOp::Recv { from, part } => (from, part, None),
                ScheduleOp::RecvReduce { from, part, side } => (from, part, Some(side)),
                ScheduleOp::Copy { .. } => continue,
                op => {
                    steps.extend(resolver.local(op)?);
                    continue;
                }
            };
            // In the segment a rank is its index among those that share it.
            let index = self.members.binary_search(&from).ok()?;
            let (writes, from) = (&self.slot_writes[index], index as u32);
            let number = writes.sent_to(rank).nth(received[index])?;
            received[index] += 1;
            let (at, data) = (self.slot_offset(writes, number), resolver.resolve(part)?);
            steps.push(match (self.transport, side) {
                // A rank that receives no data from another need not wait for it, except in a barrier.
                _ if data.range.is_empty() => match self.job.schedule.operation() {
                    Operation::Barrier => Step::Wait { from },
                    _ => continue,
                },
                (SharedTransport::SingleCopy, None) => Step::SingleCopyRead { from, slot, at, data },
                (SharedTransport::SingleCopy, Some(side)) => {
                    Step::SingleCopyReduce { from, slot, at, data, left: side == OperandSide::Left }
                }
                (_, None) => Step::Read { from, slot, at, data },
                (_, Some(side)) => Step::ReadReduce { from, slot, at, data, left: side == OperandSide::Left },
            });
        }
        Some(steps)
    }
}

/// Whether a range is overwritten after it was exposed and before the round after the one it was exposed for: by then
/// all ranks have read it.
fn overwrites_exposed_data(steps: &[Step]) -> bool {
    let (mut next, mut last): (Vec<&BufferRange>, Vec<&BufferRange>) = (Vec::new(), Vec::new());
    steps.iter().any(|step| {
        let written = match step {
            Step::Expose { data, .. } => {
                next.push(data);
                return false;
            }
            Step::Publish { .. } => {
                last = std::mem::take(&mut next);
                return false;
            }
            Step::SingleCopyRead { data, .. } | Step::SingleCopyReduce { data, .. } => data,
            Step::Copy { to, .. } | Step::Reduce { into: to, .. } => to,
            _ => return false,
        };
        next.iter().chain(&last).any(|exposed| {
            exposed.buffer == written.buffer
                && exposed.range.start < written.range.end
                && written.range.start < exposed.range.end
        })
    })
}

/// The data that a rank writes into its slot in a round: each part once, for all its readers.
struct SlotWrites {
    /// The parts, and their offsets if they are not split.
    parts: Vec<(BlockRange, usize)>,
    /// Destination rank, and index of the part.
    sends: Vec<(u32, usize)>,
    /// Bytes of all parts, and of the longest.
    bytes: usize,
    longest: usize,
}

impl SlotWrites {
    fn new(job: &CollectiveJob, rank: u32, ops: &[ScheduleOp], single_copy: bool) -> Self {
        let buffers = BufferMap { rank, ..job.buffer_map() };
        let mut writes = Self { parts: Vec::new(), sends: Vec::new(), bytes: 0, longest: 0 };
        for op in ops {
            let ScheduleOp::Send { to, part } = *op else { continue };
            let number = match writes.parts.iter().rposition(|(other, _)| *other == part) {
                Some(number) => number,
                None => {
                    let len = if single_copy { EXPOSED_ADDRESS_BYTES } else { buffers.range_len(part) * job.element };
                    let at = writes.bytes.next_multiple_of(job.align.max(size_of::<u64>()));
                    writes.bytes = at + len;
                    writes.longest = writes.longest.max(len);
                    writes.parts.push((part, at));
                    writes.parts.len() - 1
                }
            };
            writes.sends.push((to, number));
        }
        writes
    }

    /// Indices of the parts for a rank, in order.
    fn sent_to(&self, rank: u32) -> impl Iterator<Item = usize> + '_ {
        self.sends.iter().filter(move |(to, _)| *to == rank).map(|(_, number)| *number)
    }
}

/// Whether the parts of an operation are contiguous.
fn is_contiguous(job: &CollectiveJob, rank: u32, op: ScheduleOp) -> bool {
    let contiguous = |part: BlockRange| contiguous_range(BufferMap { rank, ..job.buffer_map() }, part).is_some();
    match op {
        ScheduleOp::Send { part, .. } | ScheduleOp::Recv { part, .. } | ScheduleOp::RecvReduce { part, .. } => {
            contiguous(part)
        }
        ScheduleOp::Copy { from, to } | ScheduleOp::Reduce { from, into: to, .. } => contiguous(from) && contiguous(to),
    }
}

/// Whether all messages of a round are between these ranks, and received in it.
fn all_sends_are_received(members: &[u32], slot_writes: &[SlotWrites], ops: &[&[ScheduleOp]]) -> bool {
    let is_member = |rank: &u32| members.binary_search(rank).is_ok();
    members.iter().zip(ops).all(|(rank, ops)| {
        let mut expected = vec![0usize; members.len()];
        for op in *ops {
            match op {
                ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => {
                    let Ok(from) = members.binary_search(from) else { return false };
                    expected[from] += 1;
                }
                ScheduleOp::Send { to, .. } if !is_member(to) => return false,
                _ => {}
            }
        }
        expected.iter().zip(slot_writes).all(|(count, writes)| *count == writes.sent_to(*rank).count())
    })
}
