//! Compiled schedules: a schedule is compiled once to a list of steps ([`steps`](super::steps)), which runs directly on
//! the caller's slices. Running it allocates nothing, looks nothing up and polls nothing: a step is complete when the
//! next one starts.
//!
//! Over messages, these are eager: a send is complete when it was started, and receives are waited for one after the
//! other. Over the shared segment, see [`segment_schedule`](super::segment_schedule).

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use treepie_base::{Bytes, Error, Result, Span, copy_short};
use treepie_fabric::{self as fabric, AbortReason, Address, Endpoint, Select, Started, operation_tag};
use treepie_schedule::{OperandSide, RoundList, ScheduleOp};

use super::call::ReduceFn;
use super::host_schedule::UncompiledPhases;
use super::job::{CollectiveJob, INSTANCE_MASK};
use super::segment_schedule::StepLists;
use super::slots::{
    job_call_id, publish, read, single_copy_read, wait_for_all, wait_for_member, with_instance_number, write,
};
use super::steps::{MAX_ALIGN, RangeResolver, Step, StepBuffers};
use crate::members::Members;

/// Maximum number of steps. More are not worth the memory of the list.
pub(super) const MAX_STEPS: usize = 512;

/// Bytes read at a time for a reduction: few enough to stay in the L1 cache.
pub(super) const REDUCE_CHUNK: usize = 32 << 10;

/// The schedule of one rank as a list of steps.
pub(crate) struct CompiledSchedule {
    steps: Vec<Step>,
    /// What runs one after the other.
    sections: Vec<Section>,
    /// Scratch memory, in units aligned for any element; its end holds received operands.
    scratch: Vec<u128>,
    staging: Range<usize>,
    /// Size of an element, in bytes.
    element: usize,
    /// What all ranks must agree in, for slots of the shared segment and for messages: the operation and the number of
    /// bytes.
    call_id: u64,
    call: fabric::CallSignature,
    members: Rc<Members>,
    /// Whether it uses the shared segment, and whether ranks send messages besides.
    uses_segment: bool,
    has_messages: bool,
}

/// A part of a compiled schedule.
pub(super) enum Section {
    Steps(ChunkedSteps),
    /// Phases of messages that are not compiled.
    Phases(UncompiledPhases),
}

/// Steps that run once for each chunk of their ranges.
#[derive(Clone, Debug)]
pub(super) struct ChunkedSteps {
    pub(super) steps: Range<usize>,
    pub(super) num_chunks: usize,
    /// Bytes of a chunk of a range.
    pub(super) chunk_len: usize,
}

/// A collective operation: the context of its messages and its instance number.
#[derive(Clone, Copy)]
pub(crate) struct Instance {
    pub(crate) context: u32,
    pub(crate) number: u32,
}

impl CompiledSchedule {
    /// Steps alone.
    pub(super) fn from_lists(job: &CollectiveJob, resolver: &RangeResolver<'_>, lists: StepLists) -> Self {
        let mut steps = Vec::new();
        let sections = lists.concat_to(&mut steps).into_iter().map(Section::Steps).collect();
        Self::from_sections(job, resolver, steps, sections)
    }

    /// `sections` of these steps and of phases.
    pub(super) fn from_sections(
        job: &CollectiveJob,
        resolver: &RangeResolver<'_>,
        steps: Vec<Step>,
        sections: Vec<Section>,
    ) -> Self {
        let operand = |step: &Step| match step {
            Step::RecvReduce { data, .. } | Step::Reduce { from: data, .. } => data.range.len(),
            Step::SingleCopyReduce { data, .. } => data.range.len().min(REDUCE_CHUNK.max(job.element)),
            _ => 0,
        };
        let staging = steps.iter().map(operand).max().unwrap_or(0);
        let units = (resolver.scratch + staging).div_ceil(MAX_ALIGN);
        Self {
            uses_segment: steps.iter().any(|step| matches!(step, Step::Publish { .. })),
            has_messages: false,
            call: job.call,
            members: job.members.clone(),
            steps,
            sections,
            scratch: vec![0; units],
            staging: resolver.scratch..resolver.scratch + staging,
            element: job.element,
            call_id: job_call_id(job),
        }
    }

    /// Compiles a schedule over messages, if each phase has one lane, each part is contiguous, and each message has at
    /// most `eager_limit` bytes.
    pub(crate) fn over_messages(
        job: &CollectiveJob,
        in_place: bool,
        eager_limit: usize,
        endpoint: &mut Endpoint,
    ) -> Option<Self> {
        let resolver = RangeResolver::new(job, in_place)?;
        let mut steps = Vec::new();
        for phase in 0..job.schedule.phases() {
            steps.extend(message_steps(job, phase, &resolver, eager_limit, endpoint)?);
            if steps.len() > MAX_STEPS {
                return None;
            }
        }
        Some(Self::from_lists(job, &resolver, StepLists::once(steps)))
    }

    /// The steps.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What runs one after the other.
    #[cfg(test)]
    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The same with messages between ranks that share no segment.
    pub(super) fn with_messages(self) -> Self {
        Self { has_messages: true, ..self }
    }

    /// Whether it uses the shared segment.
    pub(super) fn uses_segment(&self) -> bool {
        self.uses_segment
    }

    /// Runs the steps.
    pub(crate) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        instance: Instance,
        input: &[u8],
        output: &mut [u8],
        fold: Option<&ReduceFn>,
    ) -> Result<()> {
        let Self { steps, sections, scratch, staging, element, call_id, call, members, uses_segment, has_messages } =
            self;
        let (call, uses_segment) = (*call, *uses_segment);
        if uses_segment {
            endpoint.begin_segment_op(instance.context, instance.tag(), call, *has_messages);
        }
        let (scratch, operands) = bytemuck::cast_slice_mut::<u128, u8>(scratch).split_at_mut(staging.start);
        let call_id = with_instance_number(instance, *call_id);
        let fold = fold.unwrap_or(&|_, _, _| unreachable!("a reduction has an operator"));
        let buffers = StepBuffers { input, output, scratch };
        let element = *element;
        let (is_complete, why) = (false, AbortReason::Unspecified);
        let mut run = ScheduleRun {
            endpoint,
            instance,
            call,
            buffers,
            operands,
            element,
            call_id,
            fold,
            steps,
            sections,
            members,
            uses_segment,
            is_complete,
            why,
        };
        for section in sections.iter() {
            let result = match section {
                Section::Steps(steps) => run.chunked_steps(steps),
                Section::Phases(phases) => phases.run(run.endpoint, instance, &mut run.buffers, fold),
            };
            if let Err(error) = result {
                run.why = AbortReason::from_error(&error);
                return Err(error);
            }
        }
        run.is_complete = true;
        Ok(())
    }
}

/// The steps of a phase over messages, if it has one lane, each part is contiguous, and each message has at most
/// `eager_limit` bytes.
pub(super) fn message_steps(
    job: &CollectiveJob,
    phase: u32,
    resolver: &RangeResolver<'_>,
    eager_limit: usize,
    endpoint: &mut Endpoint,
) -> Option<Vec<Step>> {
    let schedule = &*job.schedule;
    // Neither sends nor receives: a receive that waits for the one before would ask for its long message only then,
    // and links that could carry theirs at the same time would do so one after the other.
    let resolve_eager = |part| resolver.resolve(part).filter(|data| data.range.len() <= eager_limit);
    let mut steps = Vec::new();
    let lanes = schedule.phase(phase).lanes;
    if (0..lanes).all(|lane| schedule.rounds(job.rank, phase, lane) == 0) {
        return Some(steps);
    }
    if lanes > 1 {
        return None;
    }
    for lane in 0..lanes {
        let tag = job.tag(0, phase, lane);
        let mut rounds = RoundList::new();
        schedule.emit(job.rank, phase, lane, 0..schedule.rounds(job.rank, phase, lane), &mut rounds);
        for round in rounds.iter() {
            // Sends first, as other ranks wait for them.
            for op in round {
                if let ScheduleOp::Send { to, part } = *op {
                    let data = resolve_eager(part)?;
                    steps.push(Step::Send { to: job.members.world_rank(to, endpoint).ok()?, tag, data });
                }
            }
            for op in round {
                match *op {
                    ScheduleOp::Recv { from, part } => {
                        let from = job.members.world_rank(from, endpoint).ok()?;
                        steps.push(Step::Recv { from, tag, data: resolve_eager(part)? });
                    }
                    ScheduleOp::RecvReduce { from, part, side } => {
                        let from = job.members.world_rank(from, endpoint).ok()?;
                        let (data, left) = (resolve_eager(part)?, side == OperandSide::Left);
                        steps.push(Step::RecvReduce { from, tag, data, left });
                    }
                    op => steps.extend(resolver.local(op)?),
                }
            }
            if steps.len() > MAX_STEPS {
                return None;
            }
        }
    }
    Some(steps)
}

/// A schedule in execution. If it does not complete, because of an error or a panic of the operator, other ranks are
/// notified.
struct ScheduleRun<'a> {
    endpoint: &'a mut Endpoint,
    instance: Instance,
    call: fabric::CallSignature,
    buffers: StepBuffers<'a>,
    operands: &'a mut [u8],
    element: usize,
    call_id: u64,
    fold: &'a ReduceFn,
    steps: &'a [Step],
    sections: &'a [Section],
    members: &'a Members,
    uses_segment: bool,
    is_complete: bool,
    /// The reason sent to other ranks if it does not complete.
    why: AbortReason,
}

impl ScheduleRun<'_> {
    #[inline]
    fn chunked_steps(&mut self, chunked: &ChunkedSteps) -> Result<()> {
        let ChunkedSteps { steps: range, num_chunks, chunk_len } = chunked;
        let steps = self.steps;
        for chunk in 0..*num_chunks {
            for step in &steps[range.clone()] {
                self.step(step, (chunk, *chunk_len))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, step: &Step, chunk: (usize, usize)) -> Result<()> {
        let Self { endpoint, buffers, operands, call_id, fold, call, .. } = self;
        match step {
            Step::Copy { from, to } => buffers.copy(from, to),
            Step::Reduce { from, into, left } => {
                let operand = &mut operands[..from.range.len()];
                operand.copy_from_slice(buffers.get(from));
                fold(buffers.get_mut(into), operand, *left);
                endpoint.fabric().charge_reduction(operand.len());
            }
            Step::Send { to, tag, data } => {
                let Instance { context, .. } = self.instance;
                let tag = tag | self.instance.tag();
                let address = Address { context, to: *to, tag, synchronous: false, call: *call };
                send(endpoint, address, buffers.get(data))?;
            }
            Step::Recv { from, tag, data } => {
                receive(endpoint, self.instance.select(*from, *tag, *call), buffers.get_mut(data))?;
            }
            Step::RecvReduce { from, tag, data, left } => {
                let operand = &mut operands[..data.range.len()];
                receive(endpoint, self.instance.select(*from, *tag, *call), operand)?;
                fold(buffers.get_mut(data), operand, *left);
                endpoint.fabric().charge_reduction(operand.len());
            }
            Step::Write { slot, at, data } => {
                let range = data.chunk(chunk);
                if !range.range.is_empty() {
                    write(endpoint, *slot, *at, buffers.get(&range))?;
                }
            }
            Step::Expose { slot, at, data } => {
                let data = buffers.get(data);
                endpoint.wait_segment(|segment| segment.try_expose(*slot, *at, data).then_some(()))?;
            }
            Step::Publish { slot, all } => {
                publish(endpoint, *slot, *call_id)?;
                if *all {
                    wait_for_all(endpoint, *call_id)?;
                }
            }
            Step::Wait { from } => wait_for_member(endpoint, *from, *call_id)?,
            Step::Read { from, slot, at, data } => {
                let range = data.chunk(chunk);
                if !range.range.is_empty() {
                    let bytes = read(endpoint, *from, *call_id, (*slot, *at, range.range.len()))?;
                    copy_short(buffers.get_mut(&range), bytes);
                }
            }
            Step::ReadReduce { from, slot, at, data, left } => {
                let range = data.chunk(chunk);
                if !range.range.is_empty() {
                    let operand = read(endpoint, *from, *call_id, (*slot, *at, range.range.len()))?;
                    fold(buffers.get_mut(&range), operand, *left);
                }
            }
            Step::SingleCopyRead { from, slot, at, data } => {
                wait_for_member(endpoint, *from, *call_id)?;
                single_copy_read(endpoint, *from, (*slot, *at), 0, buffers.get_mut(data))?;
            }
            Step::SingleCopyReduce { from, slot, at, data, left } => {
                wait_for_member(endpoint, *from, *call_id)?;
                let mut first = 0;
                let chunk_len = (REDUCE_CHUNK / self.element).max(1) * self.element;
                for into in buffers.get_mut(data).chunks_mut(chunk_len) {
                    let operand = &mut operands[..into.len()];
                    single_copy_read(endpoint, *from, (*slot, *at), first, operand)?;
                    fold(into, operand, *left);
                    first += into.len();
                }
            }
        }
        Ok(())
    }

    /// Ends everything that others may wait for: refuses messages for this operation, notifies the ranks to which
    /// messages will not be sent, and closes the shared segment.
    #[cold]
    fn abort(&mut self) {
        let (Instance { context, .. }, tag) = (self.instance, self.instance.tag());
        // First: a rank that is notified below continues with the next operation, and must not use the segment for it.
        if self.uses_segment {
            self.endpoint.close_segment(self.why);
        }
        self.endpoint.abort_messages(context, INSTANCE_MASK, tag, self.why);
        // The same ranks as in `CollectiveJob::ranks_to_notify`.
        let ranks_to_notify: BTreeSet<u32> = match self.why {
            AbortReason::CallMismatch => self.members.world_ranks(self.endpoint).into_iter().collect(),
            _ => {
                let mut receivers: BTreeSet<u32> = self.steps.iter().filter_map(Step::receiver).collect();
                for section in self.sections {
                    if let Section::Phases(phases) = section {
                        receivers.extend(phases.job().ranks_to_notify(self.why, self.endpoint));
                    }
                }
                receivers
            }
        };
        self.endpoint.announce_abort(context, INSTANCE_MASK, tag, self.why, ranks_to_notify.into_iter());
    }
}

impl Drop for ScheduleRun<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            self.abort();
        }
    }
}

impl Instance {
    pub(super) fn tag(&self) -> u64 {
        operation_tag(self.number)
    }

    fn select(&self, from: u32, tag: u64, call: fabric::CallSignature) -> Select {
        Select { context: self.context, source: Some(from), tag: Some(tag | self.tag()), call }
    }
}

#[inline]
fn send(endpoint: &mut Endpoint, address: Address, data: &[u8]) -> Result<()> {
    if endpoint.try_send(address, data) {
        return Ok(());
    }
    // No space, or too many unreceived messages at the receiver. Waiting here could deadlock, so a copy is sent in the
    // background.
    if let Started::Pending(id) = endpoint.isend(address, Span::from(Bytes::from(data.to_vec())))? {
        endpoint.abandon(id);
    }
    Ok(())
}

#[inline]
fn receive(endpoint: &mut Endpoint, select: Select, into: &mut [u8]) -> Result<()> {
    let expected = into.len() as u64;
    let got = match endpoint.recv(select, into) {
        Ok(envelope) => envelope.bytes,
        Err(Error::Truncated { got, .. }) => got,
        Err(error) => return Err(error),
    };
    if got == expected { Ok(()) } else { Err(Error::LengthMismatch { got, expected }) }
}
