//! Collective operations.
//!
//! A call becomes a [`CollectiveCall`]: the operation, the block counts, the element type. An algorithm is selected for
//! it from what all ranks know, and its schedule is executed: a short one by [`compiled_schedule`], all others by
//! [`executor`]. The plan of a call is cached for the next call like it.

mod blocking;
mod call_description;
mod candidates;
pub(crate) mod choose;
pub(crate) mod compiled_schedule;
mod cost;
mod dead_copies;
pub(crate) mod executor;
pub(crate) mod job;
mod nonblocking;
mod on_network;
mod persistent;
mod plan;
mod segment_schedule;
mod selector;
mod steps;
pub(crate) mod store_and_forward;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use treepie_base::{Error, Region, Result, borrow_scope};
use treepie_schedule::{BlockLayout, BlockLayouts, Buf, Operation, Schedule};
use treepie_topology::Network;

use crate::comm::Comm;
pub(crate) use call_description::CallMode;
pub(crate) use choose::AlgorithmChoice;
use executor::Execution;
use job::{BufferAliasing, CollectiveBuffers, CollectiveJob, RcReduceFn};
use plan::Plans;

pub use choose::check_environment;
pub use persistent::PersistentCollective;
pub use selector::{AlgorithmSelector, SelectionQuery};

/// A collective call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectiveCall<'a> {
    pub(crate) operation: Operation,
    pub(crate) counts: BlockCounts<'a>,
    /// Size and alignment of an element, in bytes.
    pub(crate) element: usize,
    pub(crate) align: usize,
    /// Whether the operator is commutative.
    pub(crate) commutative: bool,
    /// Whether input and output are one buffer.
    pub(crate) in_place: bool,
    /// Whether the program called the in-place form; otherwise in place is an implementation choice.
    pub(crate) user_in_place: bool,
}

/// The block lengths of a call, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockCounts<'a> {
    /// A block of this length for each rank.
    Uniform(usize),
    /// A vector of this length, which the algorithm partitions as it likes.
    Vector(usize),
    /// One count for each rank; all ranks know the list.
    PerRank(&'a [usize]),
    /// Counts of the input and output blocks. Each rank knows only its part of them, so no choice may depend on them.
    LocalOnly(&'a [usize], &'a [usize]),
}

impl<'a> BlockCounts<'a> {
    fn layouts(&self, blocks: u32) -> BlockLayouts {
        match self {
            BlockCounts::Uniform(each) => BlockLayouts::symmetric(BlockLayout::uniform(*each, blocks)),
            BlockCounts::Vector(total) => BlockLayouts::symmetric(BlockLayout::Even { total: *total, blocks }),
            BlockCounts::PerRank(counts) => BlockLayouts::symmetric(BlockLayout::from_counts(counts)),
            BlockCounts::LocalOnly(input, output) => {
                BlockLayouts { input: BlockLayout::from_counts(input), output: BlockLayout::from_counts(output) }
            }
        }
    }

    /// Elements of all blocks, if all ranks know that.
    pub(crate) fn total(&self, ranks: u32) -> Option<usize> {
        match self {
            BlockCounts::Uniform(each) => Some(each * ranks as usize),
            BlockCounts::Vector(total) => Some(*total),
            BlockCounts::PerRank(counts) => Some(counts.iter().sum()),
            BlockCounts::LocalOnly(..) => None,
        }
    }

    /// What distinguishes two calls of one operation.
    fn key(&self) -> (usize, &'a [usize], &'a [usize]) {
        match *self {
            BlockCounts::Uniform(elements) | BlockCounts::Vector(elements) => (elements, &[], &[]),
            BlockCounts::PerRank(counts) => (usize::MAX, counts, &[]),
            BlockCounts::LocalOnly(input, output) => (usize::MAX, input, output),
        }
    }
}

/// The state that a communicator handle has for collective operations.
#[derive(Default)]
pub(crate) struct Collectives {
    plans: RefCell<Plans>,
    /// Unused scratch memory. Fresh memory would cost more than the operation on it.
    scratch: RefCell<Vec<Region>>,
    /// Whether barriers use the shared segment, once that is decided.
    uses_segment_barrier: Cell<Option<bool>>,
    pub(crate) choice: AlgorithmChoice,
    /// The network of the ranks if the choice names none, once it was looked up.
    network: OnceCell<Result<Network>>,
}

impl Collectives {
    pub(crate) fn new(choice: AlgorithmChoice) -> Self {
        Self { choice, ..Self::default() }
    }
}

/// Reduces the second slice into the first; the flag is set if the second is the left operand.
pub(crate) type ReduceFn = dyn Fn(&mut [u8], &[u8], bool);

/// For operations without a reduction.
pub(crate) const NO_REDUCE_FN: Option<NoReduceFn> = None;
pub(crate) type NoReduceFn = fn(&mut [u8], &[u8], bool);

impl Comm {
    /// Takes the instance number of the next collective operation of this communicator.
    pub(crate) fn next_instance(&self) -> u32 {
        let instance = self.inner.instances.get();
        self.inner.instances.set(instance.wrapping_add(1));
        job::forget_aborted(&mut self.endpoint(), self.collective_context(), instance);
        instance
    }

    fn job(&self, call: &CollectiveCall<'_>, fold: Option<RcReduceFn>) -> Result<CollectiveJob> {
        Ok(self.job_by(call, fold, self.schedule_for(call, None)?.0))
    }

    /// The job of the operation with this instance number. If the sizes of input and output are wrong, the call is
    /// refused and the other ranks are notified.
    fn checked_job(
        &self,
        number: u32,
        call: &CollectiveCall<'_>,
        fold: Option<RcReduceFn>,
        given: (usize, usize),
    ) -> Result<CollectiveJob> {
        let job = self.job(call, fold).and_then(|job| check_lengths(call, &job, given.0, given.1).map(|()| job));
        self.abort_if_refused(number, job)
    }

    fn job_by(
        &self,
        call: &CollectiveCall<'_>,
        fold: Option<RcReduceFn>,
        schedule: Arc<dyn Schedule>,
    ) -> CollectiveJob {
        CollectiveJob {
            call: call.signature(self.size() as u32),
            layouts: call.counts.layouts(schedule.blocks()),
            schedule,
            element: call.element,
            align: call.align,
            fold,
            rank: self.rank() as u32,
            context: self.collective_context(),
            members: self.inner.members.clone(),
        }
    }

    /// Runs a reduction that may overwrite its input.
    fn run_overwriting(
        &self,
        call: &CollectiveCall<'_>,
        input: &mut [u8],
        output: &mut [u8],
        fold: RcReduceFn,
    ) -> Result<()> {
        let announced = self.announce(|| self.describe(call, CallMode::Blocking));
        let instance = self.next_instance();
        let job = self.checked_job(instance, call, Some(fold), (input.len(), output.len()))?;
        announced.wait_for_agreement()?;
        self.run_job(job, instance, false, InputBuffer::Overwrite(input), output)
    }

    fn run_job(
        &self,
        job: CollectiveJob,
        instance: u32,
        in_place: bool,
        input: InputBuffer<'_>,
        output: &mut [u8],
    ) -> Result<()> {
        borrow_scope(
            |lending, _| {
                let output = lending.region_mut(output);
                let buffers = match input {
                    _ if in_place && job.aliasing() != BufferAliasing::Disjoint => {
                        CollectiveBuffers::aliased(&job, output)
                    }
                    InputBuffer::Read(input) => CollectiveBuffers::new(lending.region(input), output),
                    InputBuffer::Overwrite(input) => {
                        CollectiveBuffers::new(lending.region_mut(input), output).overwriting(job.may_overwrite_input())
                    }
                };
                let scratch = self.collectives.scratch.take();
                let mut execution = Execution::new(job, buffers, scratch);
                execution.start(instance);
                let result = self.endpoint().run_task(&mut execution);
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

/// Required sizes of input and output, in bytes.
fn required_sizes(call: &CollectiveCall<'_>, job: &CollectiveJob) -> (usize, usize) {
    let size = |buf| job.buffer_map().buffer_len(buf) * call.element;
    // In place, the larger of the two buffers is passed as the output.
    match job.aliasing() {
        BufferAliasing::InputInOutput(_) if call.in_place => (0, size(Buf::Out)),
        BufferAliasing::OutputInInput(_) if call.in_place => (0, size(Buf::In)),
        _ => (size(Buf::In), size(Buf::Out)),
    }
}

fn wrong_length(element: usize, required: (usize, usize), input: usize, output: usize) -> Error {
    let element = element.max(1);
    let (what, got, expected) =
        if input == required.0 { ("the output", output, required.1) } else { ("the input", input, required.0) };
    Error::BadLength { what, got: got / element, expected: expected / element }
}

/// Refuses buffers of the wrong length.
fn check_lengths(call: &CollectiveCall<'_>, job: &CollectiveJob, input: usize, output: usize) -> Result<()> {
    let required = required_sizes(call, job);
    if (input, output) == required { Ok(()) } else { Err(wrong_length(call.element, required, input, output)) }
}
