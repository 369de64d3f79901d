//! Protocol runs that the caller drives step by step.

use treepie_base::Result;
use treepie_fabric::{Backoff, Reactor, Task};

use crate::comm::Comm;
use crate::reactor_task::ReactorTask;

/// A protocol run of this rank: one collective operation. It progresses when [`step`](Self::step) is called.
///
/// If it is dropped before completion, for example by a panic of the caller, it is aborted, so that others do not wait
/// forever.
pub struct ProtocolRun<R: Reactor> {
    comm: Comm,
    /// Taken by `into_reactor`.
    running: Option<ReactorTask<R>>,
    backoff: Backoff,
    /// Whether messages are delivered in place.
    in_place: bool,
    is_complete: bool,
}

const PRESENT: &str = "only `into_reactor` takes it";

/// Maximum number of records delivered before the reactor can send again: bounds the delay of its replies.
const MAX_RECORDS_PER_STEP: usize = 4;

impl Comm {
    /// Starts an exclusive protocol, like [`run_protocol`](Self::run_protocol), which the caller drives.
    pub fn begin_protocol<R: Reactor>(&self, reactor: R, align: usize) -> Result<ProtocolRun<R>> {
        self.compare_call(&[], || reactor.name().to_owned())?;
        let instance = self.next_instance();
        Ok(self.begin_as(reactor, align, instance))
    }

    /// The same with an instance number that other runs have as well: an error that tests must detect.
    #[cfg(feature = "fault-injection")]
    pub fn begin_untagged<R: Reactor>(&self, reactor: R, align: usize) -> Result<ProtocolRun<R>> {
        self.next_instance();
        Ok(self.begin_as(reactor, align, 0))
    }

    #[inline]
    fn begin_as<R: Reactor>(&self, reactor: R, align: usize, instance: u32) -> ProtocolRun<R> {
        let in_place = reactor.accepts_in_place() && self.inner.members.is_fully_known();
        let mut running = self.reactor_task(reactor, instance);
        (running.align, running.services) = (align, self.engine_services());
        running.listen(&mut self.endpoint());
        let backoff = Backoff::default();
        ProtocolRun { comm: self.clone(), running: Some(running), backoff, in_place, is_complete: false }
    }
}

impl<R: Reactor> ProtocolRun<R> {
    /// The reactor.
    #[inline]
    pub fn reactor(&mut self) -> &mut R {
        self.running.as_mut().expect(PRESENT).reactor_mut()
    }

    /// Sends what the reactor transmits and delivers what has arrived. Returns whether to step again at once: something
    /// has arrived, or the protocol is complete.
    #[inline]
    pub fn step(&mut self) -> Result<bool> {
        if self.is_complete {
            return Ok(false);
        }
        let running = self.running.as_mut().expect(PRESENT);
        let mut endpoint = self.comm.inner.endpoint();
        if let Some(result) = endpoint.step_task(running) {
            self.is_complete = true;
            return result.map(|()| true);
        }
        Ok(if self.in_place {
            running.recv_protocol_in_place(&mut endpoint, MAX_RECORDS_PER_STEP)
        } else {
            endpoint.progress()
        })
    }

    /// Backs off, longer with each call since the last [`reset_backoff`](Self::reset_backoff).
    pub fn wait(&mut self) {
        self.comm.endpoint().backoff_collective(&mut self.backoff);
    }

    /// Resets the backoff after something has arrived.
    #[inline]
    pub fn reset_backoff(&mut self) {
        self.backoff.reset();
    }

    /// Whether the protocol is complete, with success or with an error.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The reactor; aborts the protocol if it is not complete.
    pub fn into_reactor(mut self) -> R {
        let mut running = self.running.take().expect(PRESENT);
        if !self.is_complete {
            running.abort(&mut self.comm.endpoint());
        }
        running.into_reactor()
    }
}

impl<R: Reactor> Drop for ProtocolRun<R> {
    fn drop(&mut self) {
        if !self.is_complete
            && let Some(running) = &mut self.running
        {
            running.abort(&mut self.comm.endpoint());
        }
    }
}
