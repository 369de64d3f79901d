//! Collective operations.
//!
//! Each operation is described once, in [`operations`]: a [`CollectiveCall`] has the operation, the block counts and
//! the element type. The public methods of [`blocking`], [`nonblocking`], [`scoped`] and [`persistent`] run
//! descriptions. An algorithm is selected for a call from what all ranks know, and its schedule is executed: a short
//! one by [`compiled_schedule`], all others by [`executor`]. The plan of a call is cached for the next call like it.

mod blocking;
mod call;
pub(crate) mod compiled_schedule;
mod dead_copies;
mod decisions;
pub(crate) mod executor;
mod host_mpi;
mod host_schedule;
pub(crate) mod job;
mod links_of_part;
mod machine_profile;
mod nonblocking;
mod operations;
mod persistent;
mod plan;
mod rules;
mod scoped;
mod segment_schedule;
pub(crate) mod selection;
mod selector;
mod slots;
mod steps;
pub(crate) mod store_and_forward;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use treepie_base::{Bytes, Error, Region, Result, borrow_scope};
use treepie_model::Profile;
use treepie_schedule::{Buf, Schedule};
use treepie_topology::Network;

use crate::adaptation::{Adaptation, SharedMeter};
use crate::comm::Comm;
pub(crate) use call::{BlockCounts, CallMode, CollectiveCall, ReduceBytes, TypedCall};
use call::{Fold, ReduceFn};
use decisions::Decisions;
use executor::Execution;
use job::{BufferAliasing, CollectiveBuffers, CollectiveJob};
use plan::Plans;
pub(crate) use selection::AlgorithmChoice;

pub use persistent::PersistentCollective;
pub use rules::AlgorithmRules;
pub use selection::check_environment;
pub use selector::{AlgorithmSelector, SelectionQuery};

/// The state that a communicator handle has for collective operations.
#[derive(Default)]
pub(crate) struct Collectives {
    plans: RefCell<Plans>,
    /// Unused scratch memory. Fresh memory would cost more than the operation on it.
    scratch: RefCell<Vec<Region>>,
    /// Whether barriers use the shared segment, once that is decided.
    uses_segment_barrier: Cell<Option<bool>>,
    pub(crate) choice: AlgorithmChoice,
    /// Whether the choices follow the links.
    pub(crate) adaptation: Option<Rc<Adaptation>>,
    /// Measures links, for a handle whose choices follow them.
    pub(crate) meter: Option<SharedMeter>,
    /// The network of the ranks if the choice names none, once it was looked up.
    network: OnceCell<Result<Network>>,
    /// The profile of the engine if the choice names none.
    profile: OnceCell<Profile>,
    /// Choices made so far.
    decisions: RefCell<Decisions>,
    /// The predicted times of the allgathers of splits.
    allgathers_of_splits: OnceCell<[Option<f64>; 2]>,
    /// Whether the ranks of each host of the network share a segment.
    hosts_share_segments: OnceCell<bool>,
    /// What other crates keep with the handle.
    pub(crate) attributes: RefCell<Vec<Rc<dyn Any>>>,
}

impl Collectives {
    pub(crate) fn new(choice: AlgorithmChoice) -> Self {
        Self { choice, ..Self::default() }
    }

    /// The same with choices that follow the links.
    pub(crate) fn adapting(self, adaptation: Adaptation) -> Self {
        Self { adaptation: Some(Rc::new(adaptation)), ..self }
    }

    /// The same with blocking operations that measure links.
    pub(crate) fn measuring(self, meter: &SharedMeter) -> Self {
        Self { meter: Some(meter.clone()), ..self }
    }
}

impl Comm {
    /// Takes the instance number of the next collective operation of this communicator.
    pub(crate) fn next_instance(&self) -> u32 {
        let instance = self.inner.instances.get();
        self.inner.instances.set(instance.wrapping_add(1));
        job::forget_aborted(&mut self.endpoint(), self.collective_context(), instance);
        instance
    }

    /// The job of the operation with this instance number. If the sizes of input and output, in bytes, are wrong, the
    /// call is refused and the other ranks are notified.
    fn checked_job(&self, number: u32, call: &CollectiveCall<'_>, given: (usize, usize)) -> Result<CollectiveJob> {
        let job = self.schedule_for(call).and_then(|schedule| {
            let job = self.job(call, schedule);
            let required = self.required_sizes(call, &job);
            if given == required { Ok(job) } else { Err(wrong_length(call.element, required, given)) }
        });
        self.abort_if_refused(number, job)
    }

    fn job(&self, call: &CollectiveCall<'_>, schedule: Arc<dyn Schedule>) -> CollectiveJob {
        CollectiveJob {
            call: call.signature(self.size() as u32),
            layouts: call.counts.layouts(schedule.blocks()),
            schedule,
            element: call.element,
            align: call.align,
            rank: self.rank() as u32,
            context: self.collective_context(),
            members: self.inner.members.clone(),
        }
    }

    /// Sizes of this rank's input and output in bytes, if these are two buffers.
    fn buffer_sizes(&self, call: &CollectiveCall<'_>) -> (usize, usize) {
        let (input, output) = call.lengths(self.rank() as u32, self.size() as u32);
        (input * call.element, output * call.element)
    }

    /// Required sizes of input and output, in bytes. If one buffer has both, it is passed as the output.
    fn required_sizes(&self, call: &CollectiveCall<'_>, job: &CollectiveJob) -> (usize, usize) {
        let (input, output) = self.buffer_sizes(call);
        let scheduled = |buf| job.buffer_map().buffer_len(buf) * call.element;
        debug_assert_eq!((input, output), (scheduled(Buf::In), scheduled(Buf::Out)), "of {:?}", call.operation);
        let is_shared = call.in_place && job.aliasing() != BufferAliasing::Disjoint;
        if is_shared { (0, input.max(output)) } else { (input, output) }
    }

    /// Runs a reduce-scatter that overwrites its input, and copies this rank's block to the beginning of `data`.
    fn run_overwriting(&self, call: &CollectiveCall<'_>, data: &mut [u8], fold: Option<&ReduceFn>) -> Result<()> {
        if let Some(adaptation) = &self.collectives.adaptation {
            return self.run_adapted(adaptation, call, |current| current.run_overwriting(call, data, fold));
        }
        let announced = self.announce(|| self.describe(call, CallMode::Blocking));
        let instance = self.next_instance();
        let (_, len) = self.buffer_sizes(call);
        let job = self.checked_job(instance, call, (data.len(), len))?;
        announced.wait_for_agreement()?;
        // The beginning of the input is still needed while the block is computed.
        let mut block = Bytes::zeroed(len, call.align);
        let input = InputBuffer::Overwrite(data);
        self.run_job(job, instance, call, (input, block.as_mut_slice()), fold)?;
        data[..len].copy_from_slice(block.as_slice());
        Ok(())
    }

    fn run_job(
        &self,
        job: CollectiveJob,
        instance: u32,
        call: &CollectiveCall<'_>,
        (input, output): (InputBuffer<'_>, &mut [u8]),
        fold: Option<&ReduceFn>,
    ) -> Result<()> {
        borrow_scope(
            |lending, _| {
                let output = lending.region_mut(output);
                let buffers = match input {
                    _ if call.in_place && job.aliasing() != BufferAliasing::Disjoint => {
                        CollectiveBuffers::aliased(&job, output)
                    }
                    InputBuffer::Read(input) => CollectiveBuffers::new(lending.region(input), output),
                    InputBuffer::Overwrite(input) => {
                        CollectiveBuffers::new(lending.region_mut(input), output).overwriting(job.may_overwrite_input())
                    }
                };
                let scratch = self.collectives.scratch.take();
                let mut execution = Execution::new(job, fold.map(Fold::Borrowed), buffers, scratch);
                if let Some(meter) = &self.collectives.meter {
                    execution.measure(meter, call, &mut self.endpoint());
                }
                execution.start(instance);
                let result = self.endpoint().run_task(&mut execution);
                if self.collectives.meter.is_some() {
                    self.endpoint().time_transfers(false);
                }
                self.collectives.scratch.replace(execution.into_scratch());
                result
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }
}

/// The input of a call.
enum InputBuffer<'a> {
    Read(&'a [u8]),
    /// It may be overwritten.
    Overwrite(&'a mut [u8]),
}

fn wrong_length(element: usize, required: (usize, usize), (input, output): (usize, usize)) -> Error {
    let element = element.max(1);
    let (what, got, expected) =
        if input == required.0 { ("the output", output, required.1) } else { ("the input", input, required.0) };
    Error::BadLength { what, got: got / element, expected: expected / element }
}
