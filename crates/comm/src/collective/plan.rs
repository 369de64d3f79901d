//! Plans: how a call is executed, cached for the next call like it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie_base::{PredefinedReduction, Result};
use treepie_collectives::hierarchy::Hosts;
use treepie_fabric::{self as fabric, AbortReason, Endpoint, HostCollective, SlotClass};
use treepie_schedule::Operation;

use super::call::{CallMode, CollectiveCall, ReduceFn};
use super::compiled_schedule::{CompiledSchedule, Instance};
use super::job::CollectiveJob;
use super::slots::{
    AGREEMENT_CALL_ID, LARGE_CALL, encode_call_id, publish, read, wait_for_all, with_instance_number, write,
};
use super::{InputBuffer, wrong_length};
use crate::choice::{HostSlots, Resources, SlotCapacities, Transport};
use crate::comm::Comm;

/// The plan of a call.
pub(super) struct Plan {
    operation: Operation,
    counts: (usize, Box<[usize]>, Box<[usize]>),
    element: usize,
    align: usize,
    commutative: bool,
    /// The reduction, where it decides who runs the operation.
    predefined: Option<Option<PredefinedReduction>>,
    in_place: bool,
    /// Required sizes of input and output, in bytes.
    input: usize,
    output: usize,
    compiled: Option<CompiledSchedule>,
    uncompiled: Uncompiled,
    /// Whether the compiled schedule uses the shared segment.
    uses_segment: bool,
    /// Time of the last use.
    used: u64,
}

/// What is not compiled, or was not yet.
enum Uncompiled {
    Job(CollectiveJob),
    HostMpi(HostCollective),
}

impl Plan {
    /// Whether it is for the same calls as another plan.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |plan: &Self| {
            let Self { operation, counts, element, align, commutative, predefined, in_place, .. } = plan;
            (*operation, counts.clone(), *element, *align, *commutative, *predefined, *in_place)
        };
        alike(self) == alike(other)
    }

    fn is_for(&self, call: &CollectiveCall<'_>) -> bool {
        let (elements, input, output) = call.counts.key();
        self.operation == call.operation
            && self.counts.0 == elements
            && self.element == call.element
            && self.align == call.align
            && self.commutative == call.commutative
            && self.predefined.is_none_or(|predefined| predefined == call.predefined)
            && self.in_place == call.in_place
            && are_equal(&self.counts.1, input)
            && are_equal(&self.counts.2, output)
    }
}

/// Compares lists that are mostly empty. The C library's `memcmp` reads none of their elements, but issues a masked
/// load from an unmapped address, which costs 80 ns: as much as the rest of a short operation.
#[inline]
fn are_equal(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// Size of the plan cache of a communicator handle.
const PLANS: usize = 32;

/// The plan cache of a communicator handle, with LRU replacement. Plans are large, so they are not moved.
#[derive(Default)]
pub(super) struct Plans {
    plans: Vec<Plan>,
    /// Index of the plan that was used last.
    last: usize,
    /// Number of calls so far.
    clock: u64,
}

impl Plans {
    /// The cached plan for a call, if any.
    #[inline]
    fn find(&mut self, call: &CollectiveCall<'_>) -> Option<&mut Plan> {
        if self.plans.get(self.last).is_none_or(|plan| !plan.is_for(call)) {
            self.last = self.plans.iter().position(|plan| plan.is_for(call))?;
        }
        self.clock += 1;
        let plan = &mut self.plans[self.last];
        plan.used = self.clock;
        Some(plan)
    }

    /// Inserts a plan, replacing the least recently used one if the cache is full. A plan that uses the shared segment
    /// is dropped when one for the same calls does not use it any more.
    fn insert(&mut self, plan: Plan) {
        if !plan.uses_segment {
            self.plans.retain(|other| !(other.uses_segment && other.is_like(&plan)));
        }
        if self.plans.len() == PLANS
            && let Some(oldest) = (0..PLANS).min_by_key(|index| self.plans[*index].used)
        {
            self.plans.swap_remove(oldest);
        }
        self.plans.push(plan);
    }
}

/// Shorter data is not worth agreeing on single copy.
const MIN_SINGLE_COPY: usize = 8 << 10;

impl Comm {
    /// Runs a blocking collective operation on borrowed buffers.
    pub(crate) fn run_call(
        &self,
        call: &CollectiveCall<'_>,
        input: &[u8],
        output: &mut [u8],
        fold: Option<&ReduceFn>,
    ) -> Result<()> {
        if let Some(adaptation) = &self.collectives.adaptation {
            return self.run_adapted(adaptation, call, |current| current.run_call(call, input, output, fold));
        }
        if let Some(forwarding) = self.forwarding(call)? {
            return self.run_forwarding(call, forwarding, input, output);
        }
        let announced = self.announce(|| self.describe(call, CallMode::Blocking));
        // Taken first: a rank whose call is refused must not fall behind the others.
        let mut instance = Instance { context: self.collective_context(), number: self.next_instance() };
        let mut plans = self.collectives.plans.borrow_mut();
        if plans.find(call).is_none_or(|plan| plan.uses_segment && self.segment_is_closed()) {
            let planned = self.plan(call, &mut instance);
            let plan = self.abort_if_refused(instance.number, planned)?;
            plans.insert(plan);
        }
        let plan = plans.find(call).expect("the plan was just inserted");
        let given = (input.len(), output.len());
        if given != (plan.input, plan.output) {
            let refusal = wrong_length(call.element, (plan.input, plan.output), given);
            return self.abort_if_refused(instance.number, Err(refusal));
        }
        announced.wait_for_agreement()?;
        if let Some(compiled) = &mut plan.compiled {
            return compiled.run(&mut self.endpoint(), instance, input, output, fold);
        }
        match &plan.uncompiled {
            Uncompiled::Job(job) => {
                let job = job.clone();
                drop(plans);
                self.run_job(job, instance.number, call, (InputBuffer::Read(input), output), fold)
            }
            Uncompiled::HostMpi(collective) => {
                let collective = *collective;
                drop(plans);
                let signature = call.signature(self.size() as u32);
                self.run_host_collective(collective, (instance.context, instance.tag()), signature, (input, output))
            }
        }
    }

    /// Plans a call. An agreement of the ranks takes the instance number in `instance`, which then gets the next one.
    #[cold]
    fn plan(&self, call: &CollectiveCall<'_>, instance: &mut Instance) -> Result<Plan> {
        let slots = self.slots_for(call, instance)?;
        let host = self.host_collective(call);
        let (schedule, transport) =
            self.schedule_with(call, Resources { slots, host_slots: self.host_slots(), host_mpi: host.is_some() })?;
        let (sizes, compiled, uncompiled) = match (schedule, host) {
            (Some(schedule), _) => {
                let mut job = self.job(call, schedule);
                let compiled = match (transport, &slots) {
                    (Transport::SharedSegment(transport), Some(slots)) => {
                        let compiled = CompiledSchedule::over_shared_segment(&job, call.in_place, slots, transport);
                        if compiled.is_none() {
                            // The best one over messages may be another.
                            job = self.job(call, self.schedule_for(call)?);
                        }
                        compiled
                    }
                    (Transport::Hosts, _) => self.compile_over_hosts(&job, call.in_place),
                    _ => None,
                };
                let sizes = self.required_sizes(call, &job);
                let eager_limit = self.endpoint().eager_limit();
                let compiled = compiled.or_else(|| {
                    CompiledSchedule::over_messages(&job, call.in_place, eager_limit, &mut self.endpoint())
                });
                (sizes, compiled, Uncompiled::Job(job))
            }
            (None, host) => {
                let host = host.expect("only what the MPI library can run has no schedule");
                let (input, output) = self.buffer_sizes(call);
                ((if host.in_place { 0 } else { input }, output), None, Uncompiled::HostMpi(host))
            }
        };
        let uses_segment = compiled.as_ref().is_some_and(CompiledSchedule::uses_segment);
        let CollectiveCall { operation, element, align, commutative, predefined, in_place, .. } = *call;
        let (elements, in_counts, out_counts) = call.counts.key();
        let counts = (elements, in_counts.into(), out_counts.into());
        Ok(Plan {
            operation,
            counts,
            element,
            align,
            commutative,
            predefined: self.has_host_collectives().then_some(predefined),
            in_place,
            input: sizes.0,
            output: sizes.1,
            compiled,
            uncompiled,
            uses_segment,
            used: 0,
        })
    }

    /// Whether this communicator may use the engine's shared segment. The segment belongs to all ranks, and only one
    /// communicator uses it, as all ranks must take part in its rounds in the same order. Checked mode does not use it:
    /// there, a refusal must be known before the operation, and plans for the segment are made by all ranks together.
    pub(crate) fn can_use_segment(&self) -> bool {
        !self.is_checked() && self.owns_segment() && !self.segment_is_closed()
    }

    /// Whether the engine's shared segment belongs to this communicator, open or closed; that of a group does not.
    pub(crate) fn owns_segment(&self) -> bool {
        let mut endpoint = self.endpoint();
        self.context() == 0 && self.size() == endpoint.size() as usize && endpoint.world_segment().is_some()
    }

    /// Whether a rank has closed the shared segment of this rank.
    #[inline]
    fn segment_is_closed(&self) -> bool {
        self.endpoint().shared_segment().is_some_and(|segment| segment.closed_reason().is_some())
    }

    /// The slot capacities of the shared segment, if the call can use it.
    fn slots_for(&self, call: &CollectiveCall<'_>, instance: &mut Instance) -> Result<Option<SlotCapacities>> {
        let bytes = call.counts.total(self.size() as u32).map(|elements| elements.saturating_mul(call.element));
        // Must not depend on what only some ranks know.
        let Some(bytes) = bytes.filter(|_| self.can_use_segment()) else {
            return Ok(None);
        };
        let single_copy = bytes >= MIN_SINGLE_COPY && self.agree_on_single_copy(instance)?;
        Ok(self.segment_capacities(single_copy))
    }

    /// The slots that the shared segment has for a collective operation of this communicator with this number of bytes,
    /// if it may use it; whether ranks can read each other's memory is known after the first long call.
    pub fn slot_capacities(&self, bytes: usize) -> Option<SlotCapacities> {
        let single_copy = bytes >= MIN_SINGLE_COPY && self.inner.single_copy.get().unwrap_or(false);
        self.can_use_segment().then(|| self.segment_capacities(single_copy)).flatten()
    }

    /// The slots of the segments that the ranks of each host share, if this communicator may use them: as for
    /// [that of all ranks](Self::can_use_segment). The same on all ranks, also after some have closed theirs.
    pub(crate) fn host_slots(&self) -> Option<HostSlots> {
        let is_world = self.context() == 0 && self.size() == self.endpoint().size() as usize;
        // What is executed over hosts is not measured.
        let may_use = is_world && !self.is_checked() && self.collectives.meter.is_none();
        if !may_use || self.endpoint().segment_groups().is_empty() || !self.hosts_share_segments() {
            return None;
        }
        let slots = self.segment_capacities(false)?;
        let on_machine = self.ranks_per_core().map_or(1, |ranks| ranks.ceil() as u32);
        Some(HostSlots { slots, ranks_per_core: on_machine.max(self.endpoint().ranks_per_host_core()) })
    }

    /// Whether the ranks of each host of the network, or of each innermost cluster, share a segment.
    fn hosts_share_segments(&self) -> bool {
        *self.collectives.hosts_share_segments.get_or_init(|| {
            let hosts = self.network().ok().and_then(|network| Hosts::new(network, None));
            let endpoint = self.endpoint();
            let groups = endpoint.segment_groups();
            let share = |ranks: &Vec<u32>| ranks.iter().all(|rank| groups[*rank as usize] == groups[ranks[0] as usize]);
            hosts.is_some_and(|hosts| hosts.ranks().iter().all(share))
        })
    }

    /// A schedule over hosts, compiled for the segment of this rank's group, unless that was closed.
    fn compile_over_hosts(&self, job: &CollectiveJob, in_place: bool) -> Option<CompiledSchedule> {
        if self.segment_is_closed() {
            return None;
        }
        let slots = self.segment_capacities(false)?;
        let mut endpoint = self.endpoint();
        let members = endpoint.shared_segment()?.members().to_vec();
        CompiledSchedule::over_hosts(job, in_place, &members, &slots, &mut endpoint)
    }

    fn segment_capacities(&self, single_copy: bool) -> Option<SlotCapacities> {
        self.endpoint().shared_segment().map(|segment| SlotCapacities {
            line: segment.capacity(SlotClass::Line),
            page: segment.capacity(SlotClass::Page),
            bulk: segment.capacity(SlotClass::Large),
            single_copy,
        })
    }

    /// Whether all ranks can read each other's memory. They test it in the first call that could use it, and the call
    /// gets the next instance number: a rank that has completed the test may send messages of the call while others
    /// still wait in the segment, which would take them for messages of another call. When one rank has completed, all
    /// have arrived, so all take that number.
    fn agree_on_single_copy(&self, instance: &mut Instance) -> Result<bool> {
        if let Some(known) = self.inner.single_copy.get() {
            return Ok(known);
        }
        self.endpoint().begin_segment_op(
            instance.context,
            instance.tag(),
            fabric::CallSignature::from_name(LARGE_CALL),
            false,
        );
        let mut panicked = None;
        let agreed = self.test_single_copy(with_instance_number(*instance, AGREEMENT_CALL_ID), &mut panicked);
        if agreed.is_ok() {
            instance.number = self.next_instance();
        }
        if let Some(panic) = panicked {
            // Either all ranks have completed the agreement or none has, so all use the same number. This rank aborts
            // the call.
            self.abort_operation(instance.number, AbortReason::Unspecified);
            resume_unwind(panic);
        }
        let agreed = agreed?;
        self.inner.single_copy.set(Some(agreed));
        Ok(agreed)
    }

    /// Tests single copy between all ranks. While this rank waits, the operator of another operation may panic. The
    /// rank completes the agreement nevertheless: otherwise others would hang, or their next call would have another
    /// number. `panicked` gets the first panic.
    fn test_single_copy(&self, call_id: u64, panicked: &mut Option<Box<dyn Any + Send>>) -> Result<bool> {
        let mut endpoint = self.endpoint();
        let segment = endpoint.shared_segment().expect("single copy is tested where there is a segment");
        let (this, members) = (segment.index(), segment.members().len() as u32);
        let word = 0x7265_6570_6965_u64 ^ u64::from(this);
        let exposed = word.to_ne_bytes();
        // Each step can be repeated: a panic unwinds from a wait, before the step has changed anything.
        let mut step = |endpoint: &mut Endpoint, step: &dyn Fn(&mut Endpoint) -> Result<()>| loop {
            match catch_unwind(AssertUnwindSafe(|| step(endpoint))) {
                Ok(result) => return result,
                Err(panic) => drop(panicked.get_or_insert(panic)),
            }
        };
        step(&mut endpoint, &|endpoint| {
            endpoint.wait_segment(|segment| segment.try_expose(SlotClass::Page, 0, &exposed).then_some(()))
        })?;
        step(&mut endpoint, &|endpoint| publish(endpoint, SlotClass::Page, call_id))?;
        step(&mut endpoint, &|endpoint| wait_for_all(endpoint, call_id))?;
        let mut all = true;
        for member in (0..members).filter(|member| *member != this) {
            let mut got = [0; 8];
            let was_read = endpoint.shared_segment().expect("this rank has published there").read_exposed(
                member,
                SlotClass::Page,
                0,
                0,
                &mut got,
            );
            all &= was_read && u64::from_ne_bytes(got) == word ^ u64::from(this) ^ u64::from(member);
        }
        step(&mut endpoint, &|endpoint| write(endpoint, SlotClass::Line, 0, &[u8::from(all)]))?;
        step(&mut endpoint, &|endpoint| publish(endpoint, SlotClass::Line, call_id))?;
        step(&mut endpoint, &|endpoint| wait_for_all(endpoint, call_id))?;
        for member in (0..members).filter(|member| *member != this) {
            all &= read(&mut endpoint, member, call_id, (SlotClass::Line, 0, 1))? == [1];
        }
        // Others read `exposed` before the second round.
        std::hint::black_box(&exposed);
        Ok(all)
    }

    #[cold]
    fn decide_segment_barrier(&self) -> bool {
        let uses_segment = self.prefers_central_barrier() && self.can_use_segment();
        self.collectives.uses_segment_barrier.set(Some(uses_segment));
        uses_segment
    }

    /// A barrier over the shared segment. `None` if that is not the barrier to use.
    #[inline]
    pub(crate) fn segment_barrier(&self) -> Option<Result<()>> {
        let known = self.collectives.uses_segment_barrier.get();
        if !known.unwrap_or_else(|| self.decide_segment_barrier()) {
            return None;
        }
        let instance = Instance { context: self.collective_context(), number: self.next_instance() };
        if self.segment_is_closed() {
            self.collectives.uses_segment_barrier.set(Some(false));
            self.inner.instances.set(instance.number);
            return None;
        }
        let call_id = with_instance_number(instance, encode_call_id(Operation::Barrier, 0));
        let endpoint = &mut self.endpoint();
        let signature = fabric::CallSignature::new("barrier", 0, Some(0));
        endpoint.begin_segment_op(instance.context, instance.tag(), signature, false);
        let guard = ArrivalGuard { endpoint };
        let published = publish(guard.endpoint, SlotClass::Line, call_id);
        std::mem::forget(guard);
        let result = published.and_then(|()| wait_for_all(endpoint, call_id));
        if let Err(error) = &result {
            endpoint.close_segment(AbortReason::from_error(error));
        }
        Some(result)
    }
}

/// A rank that has started a barrier and not yet published. If the operator of another operation panics meanwhile, it
/// never will: it closes the segment, so that others do not wait for it.
struct ArrivalGuard<'a> {
    endpoint: &'a mut Endpoint,
}

impl Drop for ArrivalGuard<'_> {
    fn drop(&mut self) {
        self.endpoint.close_segment(AbortReason::Unspecified);
    }
}
