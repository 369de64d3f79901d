//! Operations of all ranks of a communicator.
//!
//! A call becomes a [`Call`]: the operation, the lengths of blocks, the element. An algorithm is chosen for it, by what
//! all ranks know, and its schedule is run: short ones by [`straight`], all others by [`executor`]. What was found out for
//! a call is kept for the next one like it.

mod blocking;
mod candidates;
pub(crate) mod choose;
mod chooser;
mod cost;
mod described;
pub(crate) mod executor;
mod idle_copies;
pub(crate) mod job;
mod meetings;
mod nonblocking;
mod on_network;
mod persistent;
mod plan;
mod steps;
pub(crate) mod store_and_forward;
pub(crate) mod straight;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use treepie_base::{Error, Region, Result, lending};
use treepie_schedule::{Buf, Layout, Layouts, Operation, Schedule};
use treepie_topology::Network;

use crate::comm::Comm;
pub(crate) use choose::Choice;
pub(crate) use described::Form;
use executor::Execution;
use job::{Buffers, Fold, Job, Shared};
use plan::Plans;

pub use choose::check_environment;
pub use chooser::{Chooser, Question};
pub use persistent::Persistent;

/// What is asked of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) lengths: Lengths<'a>,
    /// Bytes and alignment of an element.
    pub(crate) element: usize,
    pub(crate) align: usize,
    /// Whether the order of operands does not matter.
    pub(crate) commutes: bool,
    /// Whether input and output are one buffer.
    pub(crate) in_place: bool,
    /// Whether that is what the program has called, and not how its call is done.
    pub(crate) said_in_place: bool,
}

/// How long blocks are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lengths<'a> {
    /// A block of so many elements for each rank.
    Each(usize),
    /// A vector of so many elements, however the algorithm cuts it.
    Vector(usize),
    /// As listed; all ranks know the list.
    Listed(&'a [usize]),
    /// As listed for input and output, and other ranks know other parts of it: nothing can be chosen by it.
    Private(&'a [usize], &'a [usize]),
}

impl<'a> Lengths<'a> {
    fn layouts(&self, blocks: u32) -> Layouts {
        match self {
            Lengths::Each(each) => Layouts::both(Layout::uniform(*each, blocks)),
            Lengths::Vector(total) => Layouts::both(Layout::Even { total: *total, blocks }),
            Lengths::Listed(counts) => Layouts::both(Layout::of_counts(counts)),
            Lengths::Private(input, output) => {
                Layouts { input: Layout::of_counts(input), output: Layout::of_counts(output) }
            }
        }
    }

    /// Elements of all blocks, if all ranks know.
    pub(crate) fn total(&self, ranks: u32) -> Option<usize> {
        match self {
            Lengths::Each(each) => Some(each * ranks as usize),
            Lengths::Vector(total) => Some(*total),
            Lengths::Listed(counts) => Some(counts.iter().sum()),
            Lengths::Private(..) => None,
        }
    }

    /// What two calls of one operation must agree in to be the same.
    fn key(&self) -> (usize, &'a [usize], &'a [usize]) {
        match *self {
            Lengths::Each(elements) | Lengths::Vector(elements) => (elements, &[], &[]),
            Lengths::Listed(counts) => (usize::MAX, counts, &[]),
            Lengths::Private(input, output) => (usize::MAX, input, output),
        }
    }
}

/// What a handle of a communicator knows about collective operations.
#[derive(Default)]
pub(crate) struct Collectives {
    plans: RefCell<Plans>,
    /// Scratch memory that is not in use. Fresh memory would cost more than what is done with it.
    scratch: RefCell<Vec<Region>>,
    /// Whether barriers are meetings at the board, once that is known.
    meets: Cell<Option<bool>>,
    pub(crate) choice: Choice,
    /// Where the ranks are if the choice does not say, once that was asked.
    network: OnceCell<Result<Network>>,
}

impl Collectives {
    pub(crate) fn new(choice: Choice) -> Self {
        Self { choice, ..Self::default() }
    }
}

/// Combines the second into the first; the flag says that the second stands on the left.
pub(crate) type Folding = dyn Fn(&mut [u8], &[u8], bool);

/// An operation that combines nothing.
pub(crate) const NO_FOLD: Option<NoFold> = None;
pub(crate) type NoFold = fn(&mut [u8], &[u8], bool);

impl Comm {
    /// The number of the next collective operation of this communicator.
    pub(crate) fn next_instance(&self) -> u32 {
        let instance = self.inner.instances.get();
        self.inner.instances.set(instance.wrapping_add(1));
        job::forget_given_up(&mut self.endpoint(), self.own_context(), instance);
        instance
    }

    fn job(&self, call: &Call<'_>, fold: Option<Fold>) -> Result<Job> {
        Ok(self.job_by(call, fold, self.schedule_for(call, None)?.0))
    }

    /// The job for operation `number`; refused, and others told, unless the input and output buffers have the right sizes.
    fn checked_job(&self, number: u32, call: &Call<'_>, fold: Option<Fold>, given: (usize, usize)) -> Result<Job> {
        let job = self.job(call, fold).and_then(|job| check_lengths(call, &job, given.0, given.1).map(|()| job));
        self.unless_refused(number, job)
    }

    fn job_by(&self, call: &Call<'_>, fold: Option<Fold>, schedule: Arc<dyn Schedule>) -> Job {
        Job {
            call: call.signature(self.size() as u32),
            layouts: call.lengths.layouts(schedule.blocks()),
            schedule,
            element: call.element,
            align: call.align,
            fold,
            rank: self.rank() as u32,
            context: self.own_context(),
            members: self.inner.members.clone(),
        }
    }

    /// Runs a reduction whose input may be overwritten.
    fn run_overwriting(&self, call: &Call<'_>, input: &mut [u8], output: &mut [u8], fold: Fold) -> Result<()> {
        let announced = self.announce(|| self.describe(call, Form::Blocking));
        let instance = self.next_instance();
        let job = self.checked_job(instance, call, Some(fold), (input.len(), output.len()))?;
        announced.settle()?;
        self.run_job(job, instance, false, Given::Overwrite(input), output)
    }

    fn run_job(&self, job: Job, instance: u32, in_place: bool, input: Given<'_>, output: &mut [u8]) -> Result<()> {
        lending(
            |lending, _| {
                let output = lending.region_mut(output);
                let buffers = match input {
                    _ if in_place && job.shared() != Shared::Nothing => Buffers::shared(&job, output),
                    Given::Read(input) => Buffers::new(lending.region(input), output),
                    Given::Overwrite(input) => {
                        Buffers::new(lending.region_mut(input), output).overwriting(job.may_overwrite_input())
                    }
                };
                let scratch = self.collectives.scratch.take();
                let mut execution = Execution::new(job, buffers, scratch);
                execution.start(instance);
                let result = self.endpoint().run(&mut execution);
                self.collectives.scratch.replace(execution.into_scratch());
                result
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }
}

/// The input that a caller gives.
enum Given<'a> {
    Read(&'a [u8]),
    /// It may be overwritten.
    Overwrite(&'a mut [u8]),
}

/// Bytes of input and output that the caller must give.
fn needed(call: &Call<'_>, job: &Job) -> (usize, usize) {
    let size = |buf| job.places().size(buf) * call.element;
    // Where both are one, the larger one is given as the output.
    match job.shared() {
        Shared::InputInOutput(_) if call.in_place => (0, size(Buf::Out)),
        Shared::OutputInInput(_) if call.in_place => (0, size(Buf::In)),
        _ => (size(Buf::In), size(Buf::Out)),
    }
}

fn wrong_length(element: usize, needed: (usize, usize), input: usize, output: usize) -> Error {
    let element = element.max(1);
    let (what, got, expected) =
        if input == needed.0 { ("the output", output, needed.1) } else { ("the input", input, needed.0) };
    Error::BadLength { what, got: got / element, expected: expected / element }
}

/// Refuses slices of the wrong length.
fn check_lengths(call: &Call<'_>, job: &Job, input: usize, output: usize) -> Result<()> {
    let needed = needed(call, job);
    if (input, output) == needed { Ok(()) } else { Err(wrong_length(call.element, needed, input, output)) }
}
