//! Executes a schedule on one rank: the reader tells which rounds may start, their operations become sends and receives
//! of the endpoint, and a round ends when all of them are complete.
//!
//! The tag of a message encodes the collective of the communicator, the phase and the lane. Within a lane, messages
//! between two ranks match in the order in which they were started, as usual.
//!
//! A contiguous part is sent and received in place. A part of several ranges is packed into staging memory, as are
//! operands of reductions. The operands of a round are reduced in the order of the schedule, so the result does not
//! depend on timing.

use std::ops::Range;

use treepie_base::{Bytes, Error, Region, Result, Span};
use treepie_fabric::{AbortReason, Address, Endpoint, OpId, RecvTarget, Select, Started, Task, operation_tag};
use treepie_schedule::{BlockRange, Buf, OperandSide, ScheduleOp, ScheduleReader};

use super::call::{CollectiveCall, Fold};
use super::job::{CollectiveBuffers, CollectiveJob, INSTANCE_MASK};
use super::nonblocking::OutputTask;
use crate::adaptation::{PendingSend, SharedMeter};

/// A collective operation of one rank, in progress or ready to start.
pub(crate) struct Execution<'a> {
    job: CollectiveJob,
    fold: Option<Fold<'a>>,
    instance: u32,
    buffers: CollectiveBuffers,
    temporaries: Vec<Region>,
    reader: ScheduleReader,
    rounds: Vec<ActiveRound>,
    /// Completed rounds, reused for their memory.
    spare: Vec<ActiveRound>,
    /// Unused staging memory.
    staging: Vec<Region>,
    /// Buffer for a list of ranges.
    list: Vec<Range<usize>>,
    /// Measures links by its sends.
    meter: Option<SharedMeter>,
}

/// A round in progress.
#[derive(Default)]
struct ActiveRound {
    slot: u32,
    pending: Vec<PendingOp>,
    left: usize,
}

/// An operation of the endpoint, and the action when its whole round is complete.
struct PendingOp {
    id: Option<OpId>,
    /// Bytes that a receive must get.
    expected: u64,
    after: AfterRound,
    /// A send that is measured.
    measured: Option<PendingSend>,
}

enum AfterRound {
    Nothing,
    /// Copy staged data to its ranges.
    Unpack(BlockRange, Region),
    /// Reduce staged data into the part.
    Reduce(BlockRange, Region, OperandSide),
    /// Reuse the staging memory of a send.
    Recycle(Region),
}

/// Longer scratch memory is not cached.
const MAX_CACHED_SCRATCH: usize = 64 << 20;

/// Memory of at least `bytes` bytes, reused if possible.
fn take_scratch(scratch: &mut Vec<Region>, bytes: usize, align: usize) -> Region {
    let fits = |region: &Region| region.len() >= bytes && region.is_aligned(align);
    match scratch.iter().position(fits) {
        Some(index) => scratch.swap_remove(index),
        None => Region::from(Bytes::zeroed(bytes.next_power_of_two(), align.max(64))),
    }
}

impl<'a> Execution<'a> {
    /// `scratch` is memory that it may use.
    pub(crate) fn new(
        job: CollectiveJob,
        fold: Option<Fold<'a>>,
        buffers: CollectiveBuffers,
        mut scratch: Vec<Region>,
    ) -> Self {
        let buffer_map = job.buffer_map();
        let mut temporaries = Vec::new();
        for tmp in 0..job.schedule.scratch_buffers() {
            temporaries.push(match tmp {
                0 if buffers.overwrite => buffers.input.share(),
                tmp => take_scratch(&mut scratch, buffer_map.buffer_len(Buf::Tmp(tmp)) * job.element, job.align),
            });
        }
        Self::with_temporaries(job, fold, buffers, temporaries, scratch)
    }

    /// With the scratch buffers of the schedule, and memory that it may use for staging.
    pub(super) fn with_temporaries(
        job: CollectiveJob,
        fold: Option<Fold<'a>>,
        buffers: CollectiveBuffers,
        temporaries: Vec<Region>,
        staging: Vec<Region>,
    ) -> Self {
        let reader = ScheduleReader::new(&*job.schedule, job.rank);
        let (rounds, spare, list) = (Vec::new(), Vec::new(), Vec::new());
        Self { job, fold, instance: 0, buffers, temporaries, reader, rounds, spare, staging, list, meter: None }
    }

    /// Measures links by its sends.
    pub(crate) fn measure(&mut self, meter: &SharedMeter, call: &CollectiveCall<'_>, endpoint: &mut Endpoint) {
        meter.borrow_mut().begin_call(call, &*self.job.schedule);
        endpoint.time_transfers(true);
        self.meter = Some(meter.clone());
    }

    /// Reserves memory for the maximum number of concurrent rounds, and of operations in a round.
    pub(crate) fn reserve(&mut self, rounds: usize, ops: usize) {
        self.rounds.reserve(rounds);
        self.spare
            .extend((0..rounds).map(|_| ActiveRound { pending: Vec::with_capacity(ops), ..ActiveRound::default() }));
        // All staging memory of the rounds may be in use at once, or free at once.
        self.staging.reserve(rounds * ops);
        for region in self.temporaries.iter().chain([&self.buffers.input, &self.buffers.output]) {
            region.reserve_spans(rounds * ops);
        }
        self.list.reserve(16);
    }

    /// Returns the scratch memory that is worth caching.
    pub(crate) fn into_scratch(mut self) -> Vec<Region> {
        let aliased = if self.buffers.overwrite { 1 } else { 0 };
        self.staging.extend(self.temporaries.drain(..).skip(aliased));
        // Aborted operations may still use some of it.
        self.staging.retain(|region| region.len() <= MAX_CACHED_SCRATCH && region.is_unique());
        self.staging.truncate(8);
        self.staging
    }

    /// The same without the scratch buffers, which belong to the caller.
    pub(super) fn into_staging(mut self) -> Vec<Region> {
        self.temporaries.clear();
        self.into_scratch()
    }

    /// Restarts the schedule with this instance number.
    pub(crate) fn start(&mut self, instance: u32) {
        self.instance = instance;
        self.reader.restart(&*self.job.schedule);
    }

    pub(crate) fn buffers(&self) -> &CollectiveBuffers {
        &self.buffers
    }

    /// Whether no operation uses its memory any more; aborted ones may for a while.
    pub(crate) fn is_unique(&self) -> bool {
        self.temporaries.iter().chain([&self.buffers.input, &self.buffers.output]).all(Region::is_unique)
    }

    fn region(&self, buf: Buf) -> &Region {
        match buf {
            Buf::In => &self.buffers.input,
            Buf::Out => &self.buffers.output,
            Buf::Tmp(tmp) => &self.temporaries[tmp as usize],
        }
    }

    /// Calls `each` with the byte ranges of a part.
    fn ranges(&self, part: BlockRange, mut each: impl FnMut(Range<usize>)) {
        let element = self.job.element;
        self.job.buffer_map().ranges(part, |range| each(range.start * element..range.end * element));
    }

    /// The bytes of a part: their range if they are contiguous, and their number.
    fn bytes(&self, part: BlockRange) -> (Option<Range<usize>>, usize) {
        let (mut one, mut count, mut all) = (None, 0, 0);
        self.ranges(part, |range| {
            all += range.len();
            count += 1;
            one = Some(range);
        });
        match count {
            0 => (Some(0..0), 0),
            1 => (one, all),
            _ => (None, all),
        }
    }

    /// Staging memory of at least `bytes` bytes.
    fn stage(&mut self, bytes: usize) -> Region {
        take_scratch(&mut self.staging, bytes, self.job.align)
    }

    /// Packs the ranges of a part into staging memory.
    fn pack(&mut self, part: BlockRange, bytes: usize) -> Region {
        let staged = self.stage(bytes);
        let region = self.region(part.buf);
        let mut at = 0;
        self.ranges(part, |range| {
            let len = range.len();
            staged.copy(at..at + len, region, range);
            at += len;
        });
        staged
    }

    fn begin_round(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let started = self.reader.start_round(&*self.job.schedule)?;
        let tag = self.job.tag(self.instance, started.phase, started.lane);
        let mut round = self.spare.pop().unwrap_or_default();
        (round.slot, round.left) = (started.slot, 0);
        let count = self.reader.ops(started.slot).len();
        for i in 0..count {
            let op = self.reader.ops(started.slot)[i];
            if let Err(error) = self.issue(op, tag, &mut round, endpoint) {
                self.rounds.push(round);
                return Some(Err(error));
            }
        }
        if round.left == 0 {
            self.end_round(round, endpoint);
        } else {
            self.rounds.push(round);
        }
        Some(Ok(()))
    }

    fn issue(&mut self, op: ScheduleOp, tag: u64, round: &mut ActiveRound, endpoint: &mut Endpoint) -> Result<()> {
        match op {
            ScheduleOp::Send { to, part } => {
                let CollectiveJob { context, call, .. } = self.job;
                let world_rank = self.job.members.world_rank(to, endpoint)?;
                let address = Address { context, to: world_rank, tag, synchronous: false, call };
                let (range, bytes) = self.bytes(part);
                let (region, range, after) = match range {
                    Some(range) => (self.region(part.buf).share(), range, AfterRound::Nothing),
                    None => {
                        let staged = self.pack(part, bytes);
                        (staged.share(), 0..bytes, AfterRound::Recycle(staged))
                    }
                };
                if region.read(range.clone(), |data| endpoint.try_send(address, data)) {
                    if let Some(meter) = &self.meter {
                        meter.borrow_mut().sent_at_once(to, bytes);
                    }
                    if let AfterRound::Recycle(staged) = after {
                        self.staging.push(staged);
                    }
                } else if let Started::Pending(id) = endpoint.isend(address, region.span(range))? {
                    let meter = self.meter.as_ref();
                    let measured = meter.map(|meter| meter.borrow_mut().issued(to, bytes, endpoint.fabric().now()));
                    round.pending.push(PendingOp { id: Some(id), expected: 0, after, measured });
                    round.left += 1;
                }
            }
            ScheduleOp::Recv { from, part } => {
                let (range, bytes) = self.bytes(part);
                let (span, after) = match range {
                    Some(range) => (self.region(part.buf).span_mut(range), AfterRound::Nothing),
                    None => {
                        let staged = self.stage(bytes);
                        (staged.span_mut(0..bytes), AfterRound::Unpack(part, staged))
                    }
                };
                self.receive(from, tag, span, after, round, endpoint)?;
            }
            ScheduleOp::RecvReduce { from, part, side } => {
                let bytes = self.bytes(part).1;
                let staged = self.stage(bytes);
                let span = staged.span_mut(0..bytes);
                self.receive(from, tag, span, AfterRound::Reduce(part, staged, side), round, endpoint)?;
            }
            ScheduleOp::Copy { from, to } => self.copy(from, to),
            ScheduleOp::Reduce { from, into, side } => {
                let bytes = self.bytes(from).1;
                let staged = self.pack(from, bytes);
                let after = AfterRound::Reduce(into, staged, side);
                round.pending.push(PendingOp { id: None, expected: 0, after, measured: None });
            }
        }
        Ok(())
    }

    fn receive(
        &self,
        from: u32,
        tag: u64,
        span: Span,
        after: AfterRound,
        round: &mut ActiveRound,
        endpoint: &mut Endpoint,
    ) -> Result<()> {
        let source = Some(self.job.members.world_rank(from, endpoint)?);
        let select = Select { context: self.job.context, source, tag: Some(tag), call: self.job.call };
        let expected = span.len() as u64;
        let id = endpoint.irecv(select, RecvTarget::Into(span));
        round.pending.push(PendingOp { id: Some(id), expected, after, measured: None });
        round.left += 1;
        Ok(())
    }

    fn copy(&mut self, from: BlockRange, to: BlockRange) {
        let ((one, bytes), (other, _)) = (self.bytes(from), self.bytes(to));
        if let (Some(from_range), Some(to_range)) = (&one, other) {
            self.region(to.buf).copy(to_range, self.region(from.buf), from_range.clone());
            return;
        }
        // Both are lists of ranges: walk them in parallel.
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        self.ranges(from, |range| list.push(range));
        let (mut source, mut rest) = (list.iter().cloned(), 0..0);
        let (target, origin) = (self.region(to.buf), self.region(from.buf));
        let mut copied = 0;
        self.ranges(to, |mut range| {
            while !range.is_empty() {
                if rest.is_empty() {
                    rest = source.next().expect("both sides of a copy have one length");
                }
                let len = rest.len().min(range.len());
                target.copy(range.start..range.start + len, origin, rest.start..rest.start + len);
                (range.start, rest.start, copied) = (range.start + len, rest.start + len, copied + len);
            }
        });
        debug_assert_eq!(copied, bytes);
        self.list = list;
    }

    /// Polls the pending operations, and completes rounds.
    fn poll_rounds(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let mut i = 0;
        while i < self.rounds.len() {
            let round = &mut self.rounds[i];
            for pending in &mut round.pending {
                let Some(id) = pending.id else { continue };
                let Some(result) = endpoint.take_envelope(id) else { continue };
                pending.id = None;
                round.left -= 1;
                if let Err(Error::Truncated { got, .. }) = result {
                    return Err(Error::LengthMismatch { got, expected: pending.expected });
                }
                let got = result?.bytes;
                if got != pending.expected {
                    return Err(Error::LengthMismatch { got, expected: pending.expected });
                }
                if let (Some(meter), Some(send)) = (&self.meter, pending.measured) {
                    let (wait, now) = (endpoint.take_send_wait(id), endpoint.fabric().now());
                    meter.borrow_mut().completed(send, wait, now);
                }
            }
            if round.left == 0 {
                let round = self.rounds.swap_remove(i);
                self.end_round(round, endpoint);
            } else {
                i += 1;
            }
        }
        Ok(())
    }

    /// Completes a round: applies the actions of its operations, in the order of the schedule.
    fn end_round(&mut self, mut round: ActiveRound, endpoint: &mut Endpoint) {
        for pending in round.pending.drain(..) {
            match pending.after {
                AfterRound::Nothing => {}
                AfterRound::Recycle(staged) => self.staging.push(staged),
                AfterRound::Unpack(part, staged) => {
                    let region = self.region(part.buf);
                    let mut at = 0;
                    self.ranges(part, |range| {
                        let len = range.len();
                        region.copy(range, &staged, at..at + len);
                        at += len;
                    });
                    self.staging.push(staged);
                }
                AfterRound::Reduce(part, staged, side) => {
                    let fold = self.fold.as_deref().expect("a reduction has an operator");
                    let region = self.region(part.buf);
                    let mut at = 0;
                    self.ranges(part, |range| {
                        let len = range.len();
                        region.write_from(range, &staged, at..at + len, |into, operand| {
                            fold(into, operand, side == OperandSide::Left);
                        });
                        at += len;
                    });
                    endpoint.fabric().charge_reduction(at);
                    self.staging.push(staged);
                }
            }
        }
        self.reader.finish_round(round.slot);
        self.spare.push(round);
    }

    /// Aborts the operation: refuses messages that still arrive for it, and notifies ranks that wait for messages of
    /// it.
    #[cold]
    fn abort_with(&mut self, endpoint: &mut Endpoint, why: AbortReason) {
        let (context, bits) = (self.job.context, operation_tag(self.instance));
        endpoint.abort_messages(context, INSTANCE_MASK, bits, why);
        for mut round in self.rounds.drain(..) {
            round.pending.drain(..).filter_map(|pending| pending.id).for_each(|id| endpoint.abandon(id));
        }
        let ranks_to_notify = self.job.ranks_to_notify(why, endpoint);
        endpoint.announce_abort(context, INSTANCE_MASK, bits, why, ranks_to_notify.into_iter());
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        loop {
            self.poll_rounds(endpoint)?;
            endpoint.check_mismatch(self.job.context, operation_tag(self.instance), self.job.call)?;
            let Some(started) = self.begin_round(endpoint) else {
                return Ok(self.rounds.is_empty() && self.reader.is_done(&*self.job.schedule));
            };
            started?;
            while let Some(started) = self.begin_round(endpoint) {
                started?;
            }
        }
    }
}

impl Task for Execution<'_> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => {
                self.abort_with(endpoint, AbortReason::from_error(&error));
                Some(Err(error))
            }
        }
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.abort_with(endpoint, AbortReason::Unspecified);
    }
}

impl OutputTask for Execution<'_> {
    fn take_output(&mut self) -> Region {
        std::mem::replace(&mut self.buffers.output, Region::from(Bytes::zeroed(0, 1)))
    }
}
