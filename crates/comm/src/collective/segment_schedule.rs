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
        let schedule = &*job.schedule;
        let ranks = schedule.ranks();
        let resolver = RangeResolver::new(job, in_place)?;
        // Lists of steps, and for each list the number and length of its chunks.
        let (mut lists, mut chunks) = (Vec::new(), Vec::new());
        let mut max_steps = 0;
        for phase in 0..schedule.phases() {
            if schedule.phase(phase).lanes != 1 {
                return None;
            }
            let of_ranks: Vec<RoundList> = (0..ranks)
                .map(|rank| {
                    let mut rounds = RoundList::new();
                    schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
                    rounds
                })
                .collect();
            let num_rounds = of_ranks.iter().map(RoundList::len).max().unwrap_or(0);
            for k in 0..num_rounds {
                let round: Vec<&[ScheduleOp]> = of_ranks.iter().map(|rounds| rounds.round_or_empty(k)).collect();
                // Each operation of a rank is at most two steps, and the round is published. The bound of the longest
                // rank holds for all.
                max_steps += 1 + 2 * round.iter().map(|ops| ops.len()).max().unwrap_or(0);
                if max_steps > MAX_STEPS {
                    return None;
                }
                let round = SegmentRound::new(job, slots, transport, &round)?;
                lists.extend([round.copies(&resolver)?, round.steps(&resolver)?]);
                chunks.extend([WHOLE, (round.num_chunks, round.chunk_len)]);
            }
        }
        if transport == SharedTransport::SingleCopy {
            lists.push(vec![Step::Publish { slot: SlotClass::Line, all: true }]);
            chunks.push(WHOLE);
        }
        eliminate_dead_copies(&mut lists);
        let (mut chunked_steps, mut begin) = (Vec::new(), 0);
        for (list, (num_chunks, chunk_len)) in lists.iter().zip(chunks) {
            chunked_steps.push(ChunkedSteps { steps: begin..begin + list.len(), num_chunks, chunk_len });
            begin += list.len();
        }
        chunked_steps.retain(|chunked| !chunked.steps.is_empty());
        let steps = lists.concat();
        // If it did, it would do so on other ranks too, but not on all.
        assert!(
            !overwrites_exposed_data(&steps),
            "single copy requires an algorithm whose ranks do not modify what they send"
        );
        Some(Self::from_steps(job, &resolver, steps, chunked_steps))
    }
}

/// A round of all ranks.
struct SegmentRound<'a> {
    job: &'a CollectiveJob,
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
        slots: &SlotCapacities,
        transport: SharedTransport,
        ops: &'a [&'a [ScheduleOp]],
    ) -> Option<Self> {
        let slot_writes: Vec<SlotWrites> = (0..)
            .zip(ops)
            .map(|(rank, ops)| SlotWrites::new(job, rank, ops, transport == SharedTransport::SingleCopy))
            .collect();
        let contiguous = (0..).zip(ops).all(|(rank, ops)| ops.iter().all(|op| is_contiguous(job, rank, *op)));
        if !contiguous || !all_sends_are_received(&slot_writes, ops) {
            return None;
        }
        let max_bytes = slot_writes.iter().map(|writes| writes.bytes).max().unwrap_or(0);
        let mut round =
            Self { job, ops, slot_writes, transport, slot: SlotClass::Line, chunk_len: usize::MAX, num_chunks: 1 };
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
        for op in self.ops[self.job.rank as usize].iter().filter(|op| matches!(op, ScheduleOp::Copy { .. })) {
            steps.extend(resolver.local(*op)?);
        }
        Some(steps)
    }

    /// The other steps of this rank, which run for each chunk.
    fn steps(&self, resolver: &RangeResolver<'_>) -> Option<Vec<Step>> {
        let (rank, slot) = (self.job.rank, self.slot);
        let (own_writes, ops) = (&self.slot_writes[rank as usize], self.ops[rank as usize]);
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
            let writes = &self.slot_writes[from as usize];
            let number = writes.sent_to(rank).nth(received[from as usize])?;
            received[from as usize] += 1;
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

/// Whether all messages of a round are received in it.
fn all_sends_are_received(slot_writes: &[SlotWrites], ops: &[&[ScheduleOp]]) -> bool {
    (0..).zip(ops).all(|(rank, ops)| {
        let mut expected = vec![0usize; slot_writes.len()];
        for op in *ops {
            if let ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } = op {
                expected[*from as usize] += 1;
            }
        }
        expected.iter().zip(slot_writes).all(|(count, writes)| *count == writes.sent_to(rank).count())
    })
}
