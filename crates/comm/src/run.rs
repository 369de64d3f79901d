//! A protocol that goes on while its caller does something else in between.

use treepie_base::Result;
use treepie_fabric::{Patience, Reactor, Task};

use crate::comm::Comm;
use crate::reactor::Running;

/// A protocol of all ranks that this rank is in: one collective operation. It gets on when [`step`](Self::step) is called.
///
/// Dropped before it is over, as by a panic of the caller, it is given up, so that others do not wait for ever.
pub struct ProtocolRun<R: Reactor> {
    comm: Comm,
    /// Taken out at the end.
    running: Option<Running<R>>,
    patience: Patience,
    /// Messages are handed in where they lie.
    in_place: bool,
    is_over: bool,
}

const THERE: &str = "it is taken out at the end";

/// So many records are handed in before the reactor can send again: those who wait for its answers wait no longer than that.
const AT_ONCE: usize = 4;

impl Comm {
    /// Begins a protocol that runs alone, as [`run_protocol`](Self::run_protocol) does, and leaves it to the caller to let it
    /// get on.
    pub fn begin_protocol<R: Reactor>(&self, reactor: R, align: usize) -> Result<ProtocolRun<R>> {
        self.agree_on(&[], || reactor.name().to_owned())?;
        let instance = self.next_instance();
        Ok(self.begin_as(reactor, align, instance))
    }

    /// The same under a number that other runs have too: a mistake, for tests that are to find it.
    #[doc(hidden)]
    pub fn begin_untagged<R: Reactor>(&self, reactor: R, align: usize) -> Result<ProtocolRun<R>> {
        self.next_instance();
        Ok(self.begin_as(reactor, align, 0))
    }

    fn begin_as<R: Reactor>(&self, reactor: R, align: usize, instance: u32) -> ProtocolRun<R> {
        let in_place = reactor.reads_in_place() && self.inner.members.know_each_other();
        let mut running = self.running(reactor, instance).aligned(align).with_shortcuts(self.shortcuts());
        running.listen(&mut self.endpoint());
        let patience = Patience::default();
        ProtocolRun { comm: self.clone(), running: Some(running), patience, in_place, is_over: false }
    }
}

impl<R: Reactor> ProtocolRun<R> {
    /// The reactor.
    #[inline]
    pub fn reactor(&mut self) -> &mut R {
        self.running.as_mut().expect(THERE).reactor_mut()
    }

    /// Sends what is given out and takes in what has come. Returns whether to go on at once: something has come, or all is over.
    #[inline]
    pub fn step(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let running = self.running.as_mut().expect(THERE);
        let mut endpoint = self.comm.inner.endpoint();
        if let Some(result) = endpoint.step_on(running) {
            self.is_over = true;
            return result.map(|()| true);
        }
        Ok(if self.in_place { running.hear(&mut endpoint, AT_ONCE) } else { endpoint.progress() })
    }

    /// Waits a little, after nothing has come so often in a row as this has been called without [`stir`](Self::stir).
    pub fn wait(&mut self) {
        self.comm.endpoint().rest(&mut self.patience);
    }

    /// Something has come: stay awake again.
    #[inline]
    pub fn stir(&mut self) {
        self.patience.stir();
    }

    /// Whether the protocol is over, with success or without.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The reactor alone; if the protocol is not over, it is given up.
    pub fn into_reactor(mut self) -> R {
        let mut running = self.running.take().expect(THERE);
        if !self.is_over {
            running.give_up(&mut self.comm.endpoint());
        }
        running.into_reactor()
    }
}

impl<R: Reactor> Drop for ProtocolRun<R> {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(running) = &mut self.running
        {
            running.give_up(&mut self.comm.endpoint());
        }
    }
}
