//! Persistent collective operations: initialized once, started many times.

mod cached_schedule;
mod init;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Region, Result};
use treepie_fabric::OpId;

use super::call::{CallMode, CollectiveCall, Fold, ReduceBytes, TypedCall};
use super::executor::Execution;
use super::job::{CollectiveBuffers, CollectiveJob};
use crate::comm::Comm;
use cached_schedule::CachedSchedule;

/// A persistent collective operation: its algorithm is selected, its schedule is cached, its memory is allocated.
///
/// It owns its buffers: fill the input, [`start`](Self::start), overlap other work, [`wait`](Self::wait), read the
/// output. For a broadcast the output is the input of the root. All ranks must start it equally often, in the same
/// order among the collectives of the communicator.
///
/// After an error, peers may access its buffers for a while. Until then the buffers cannot be accessed, nor can the
/// operation be started again. A second [`wait`](Self::wait) returns when that is possible, [`test`](Self::test) polls
/// for it.
pub struct PersistentCollective<T> {
    comm: Comm,
    execution: Rc<RefCell<Execution<'static>>>,
    active: Option<OpId>,
    /// Description of the call, in checked mode.
    call: String,
    /// Whether it has failed and its buffers may still be in use.
    failed: bool,
    elements: PhantomData<T>,
}

impl Comm {
    /// The execution of a persistent operation.
    fn persistent_execution(
        &self,
        call: &CollectiveCall<'_>,
        fold: Option<Fold<'static>>,
    ) -> Result<Rc<RefCell<Execution<'static>>>> {
        let job = self.job(call, self.schedule_for(call)?);
        let schedule = CachedSchedule::new(job.schedule.clone(), job.rank);
        let (rounds, ops) = schedule.max_rounds_and_ops();
        let job = CollectiveJob { schedule: Arc::new(schedule), ..job };
        let region = |bytes| Region::from(Bytes::zeroed(bytes, call.align));
        let (input, output) = self.buffer_sizes(call);
        let buffers = CollectiveBuffers::new(region(input), region(output));
        let mut execution = Execution::new(job, fold, buffers, Vec::new());
        execution.reserve(rounds, ops);
        Ok(Rc::new(RefCell::new(execution)))
    }
}

impl<T: Pod> PersistentCollective<T> {
    fn new<F: ReduceBytes>(comm: &Comm, call: TypedCall<'_, T, F>) -> Result<Self> {
        let (call, fold) = (call.call, call.into_fold());
        let execution = comm.persistent_execution(&call, fold)?;
        let call = if comm.is_checked() { comm.describe(&call, CallMode::Persistent) } else { String::new() };
        Ok(Self { comm: comm.clone(), execution, active: None, call, failed: false, elements: PhantomData })
    }

    /// Whether it is inactive and no peer uses its buffers.
    fn is_inactive(&mut self) -> bool {
        if self.failed {
            self.failed = !self.execution.borrow().is_unique();
        }
        self.active.is_none() && !self.failed
    }

    #[track_caller]
    fn assert_inactive(&mut self, what: &str) {
        if self.failed && self.active.is_none() && !self.is_inactive() {
            self.comm.progress();
        }
        let is_inactive = self.is_inactive();
        let why = if self.failed { "has failed and whose buffers are still in use" } else { "is active" };
        assert!(is_inactive, "{what} an operation that {why}");
    }

    /// Modifies the input. Panics while the operation is active.
    pub fn with_input<R>(&mut self, change: impl FnOnce(&mut [T]) -> R) -> R {
        self.assert_inactive("accesses the input of");
        let execution = self.execution.borrow();
        let input = &execution.buffers().input;
        input.write(0..input.len(), |bytes| change(cast_slice_mut(bytes)))
    }

    /// Reads or modifies the output. Panics while the operation is active.
    pub fn with_output<R>(&mut self, access: impl FnOnce(&mut [T]) -> R) -> R {
        self.assert_inactive("accesses the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.write(0..output.len(), |bytes| access(cast_slice_mut(bytes)))
    }

    /// A copy of the output. Panics while the operation is active.
    pub fn output(&mut self) -> Vec<T> {
        self.assert_inactive("accesses the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.read(0..output.len(), |bytes| cast_slice(bytes).to_vec())
    }

    /// Starts the operation (`MPI_Start`). Panics if it is active.
    pub fn start(&mut self) {
        self.assert_inactive("starts");
        let announced = self.comm.announce(|| self.call.clone());
        let instance = self.comm.next_instance();
        self.active = Some(self.comm.begin(announced, &self.execution, instance, None));
    }

    /// Waits for completion; returns at once if the operation is inactive. After an error, waits until no peer uses its
    /// buffers.
    pub fn wait(&mut self) -> Result<()> {
        let Some(id) = self.active else {
            while !self.is_inactive() {
                self.comm.endpoint().settle(false);
            }
            return Ok(());
        };
        // The operation stays active if an operator panics here, which may be that of another operation.
        let result = self.comm.endpoint().wait_envelope(id);
        (self.active, self.failed) = (None, result.is_err());
        result.map(drop)
    }

    /// Whether the operation is complete; then its result, once. True if it is inactive. After an error, whether no
    /// peer uses its buffers any more.
    pub fn test(&mut self) -> Result<bool> {
        let Some(id) = self.active else {
            if !self.is_inactive() {
                self.comm.progress();
            }
            return Ok(self.is_inactive());
        };
        let result = self.comm.endpoint().test(id);
        match result {
            None => Ok(false),
            Some(result) => {
                self.active = None;
                self.failed = result.is_err();
                result.map(|_| true)
            }
        }
    }
}

impl<T> Drop for PersistentCollective<T> {
    fn drop(&mut self) {
        if let Some(id) = self.active {
            // It continues in the background, as others wait for this rank's part.
            self.comm.endpoint().abandon(id);
        }
    }
}
