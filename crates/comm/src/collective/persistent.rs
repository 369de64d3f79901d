//! Collective operations that are prepared once and started many times.

mod collected;
mod prepare;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Region, Result};
use treepie_fabric::Id;

use super::executor::Execution;
use super::job::{Buffers, Fold, Job};
use super::{Call, Form};
use crate::comm::Comm;
use collected::Collected;

/// A collective operation that was prepared: its algorithm is chosen, its operations are listed, its memory is there.
///
/// It owns its buffers: fill the input, [`start`](Self::start), do something else, [`wait`](Self::wait), read the output.
/// For a broadcast the output is the input of the root. All ranks start it equally often, in the same order among the
/// collectives of the communicator.
///
/// After an error, peers may still read or write its buffers for a while: until then they cannot be touched, nor the
/// operation be started again. [`wait`](Self::wait) once more returns when that is over, [`test`](Self::test) tells.
pub struct Persistent<T> {
    comm: Comm,
    execution: Rc<RefCell<Execution>>,
    going: Option<Id>,
    /// What it is in words, where ranks compare what they call.
    call: String,
    /// It has failed, and its buffers may still be in use.
    failed: bool,
    elements: PhantomData<T>,
}

impl<T: Pod> Persistent<T> {
    fn new(comm: &Comm, call: &Call<'_>, fold: Option<Fold>) -> Result<Self> {
        let (job, input, output) = comm.prepare(call, fold)?;
        let region = |elements| Region::from(Bytes::from(vec![T::zeroed(); elements]));
        let schedule = Collected::new(job.schedule.clone(), job.rank);
        let (rounds, ops) = schedule.most();
        let job = Job { schedule: Arc::new(schedule), ..job };
        let execution = Execution::new(job, Buffers::new(region(input), region(output)), Vec::new());
        let execution = Rc::new(RefCell::new(execution));
        execution.borrow_mut().reserve(rounds, ops);
        let call = if comm.is_checked() { comm.describe(call, Form::Prepared) } else { String::new() };
        Ok(Self { comm: comm.clone(), execution, going: None, call, failed: false, elements: PhantomData })
    }

    /// Whether its buffers are its own; after an error, looks whether they are by now.
    fn is_free(&mut self) -> bool {
        if self.failed {
            self.failed = !self.execution.borrow().is_alone();
        }
        self.going.is_none() && !self.failed
    }

    #[track_caller]
    fn must_be_free(&mut self, what: &str) {
        if self.failed && self.going.is_none() && !self.is_free() {
            self.comm.progress();
        }
        let free = self.is_free();
        let why = if self.failed { "has failed and whose buffers are still in use" } else { "goes on" };
        assert!(free, "{what} an operation that {why}");
    }

    /// Changes the input. Panics while the operation goes on.
    pub fn with_input<R>(&mut self, change: impl FnOnce(&mut [T]) -> R) -> R {
        self.must_be_free("touches the input of");
        let execution = self.execution.borrow();
        let input = &execution.buffers().input;
        input.write(0..input.len(), |bytes| change(cast_slice_mut(bytes)))
    }

    /// Reads or changes the output. Panics while the operation goes on.
    pub fn with_output<R>(&mut self, use_it: impl FnOnce(&mut [T]) -> R) -> R {
        self.must_be_free("touches the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.write(0..output.len(), |bytes| use_it(cast_slice_mut(bytes)))
    }

    /// A copy of the output. Panics while the operation goes on.
    pub fn output(&mut self) -> Vec<T> {
        self.must_be_free("touches the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.read(0..output.len(), |bytes| cast_slice(bytes).to_vec())
    }

    /// Starts it. Panics if it goes on.
    pub fn start(&mut self) {
        self.must_be_free("starts");
        self.going = Some(self.comm.begin_again(&self.execution, &self.call));
    }

    /// Waits until it is done; returns at once if it was not started. After an error, waits until nobody uses its buffers
    /// any more.
    pub fn wait(&mut self) -> Result<()> {
        let Some(id) = self.going else {
            while !self.is_free() {
                self.comm.endpoint().settle(false);
            }
            return Ok(());
        };
        // It goes on if an operator panics here, which may be that of another operation.
        let result = self.comm.endpoint().wait_envelope(id);
        (self.going, self.failed) = (None, result.is_err());
        result.map(drop)
    }

    /// Whether it is done; then its result, once. True if it was not started. After an error, whether nobody uses its
    /// buffers any more.
    pub fn test(&mut self) -> Result<bool> {
        let Some(id) = self.going else {
            if !self.is_free() {
                self.comm.progress();
            }
            return Ok(self.is_free());
        };
        let result = self.comm.endpoint().test(id);
        match result {
            None => Ok(false),
            Some(result) => {
                self.going = None;
                self.failed = result.is_err();
                result.map(|_| true)
            }
        }
    }
}

impl<T> Drop for Persistent<T> {
    fn drop(&mut self) {
        if let Some(id) = self.going {
            // It goes on without being heeded, as others wait for this rank's part.
            self.comm.endpoint().abandon(id);
        }
    }
}
