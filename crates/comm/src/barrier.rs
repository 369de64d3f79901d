//! Barriers: no rank leaves before every rank has arrived.
//!
//! On a world whose engine has a shared counter, ranks can add to that counter (`barrier/central`). All other barriers
//! are schedules of empty messages.
//!
//! The n-th call of each rank on a communicator is one barrier. It returns `Ok` on a rank only if every rank has called
//! it n times, whichever ranks finalize, fail or are killed, and however often others call again.

use std::time::Duration;

use treepie_base::{Bytes, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::Or;
use crate::comm::Comm;
use crate::request::{Finish, Request};

impl Comm {
    /// Waits until all ranks of the communicator have called it (`MPI_Barrier`).
    pub fn barrier(&self) -> Result<()> {
        if let Some(result) = self.segment_barrier() {
            return result;
        }
        // Once the shared segment is closed, use messages, which carry the instance number of the call: ranks may have
        // passed different numbers of segment barriers, and would arrive at the engine's counter for different calls.
        let central = if self.owns_segment() { None } else { self.central_barrier() };
        match central {
            Some(request) => request.wait(),
            None => self.run(self.barrier_call(), &[], &mut []),
        }
    }

    /// Starts a barrier (`MPI_Ibarrier`). The request completes when all ranks of the communicator have started it.
    pub fn ibarrier(&self) -> Result<Request<'static, ()>> {
        match self.central_barrier() {
            Some(request) => Ok(request),
            None => self.start_barrier(),
        }
    }

    /// Logical or over the ranks of the communicator: whether any of them passes `true`. Collective.
    pub fn any(&self, value: bool) -> Result<bool> {
        // The engine's barrier reduces bits. Where all ranks share a segment, an allreduce is as fast.
        if self.capabilities().barrier && self.endpoint().world_segment().is_none() {
            return Ok(
                self.run_protocol(AnyReactor { value, has_arrived: false, any: None }, 1, |_| ())?.any == Some(true)
            );
        }
        Ok(self.allreduce(&[u8::from(value)], Or)?[0] != 0)
    }

    /// Arrives at the engine's counter, if there is one and `barrier/central` is selected.
    fn central_barrier(&self) -> Option<Request<'static, ()>> {
        // In checked mode ranks compare their calls first, and so start the barrier at different times.
        if self.is_checked() || !self.is_whole_world() || !self.prefers_central_barrier() {
            return None;
        }
        // Contexts are even and never reused, so each communicator of all ranks has its own counter.
        let id = self.endpoint().ibarrier(self.context() / 2, 0)?;
        Some(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }
}

/// Logical or in the bits of a barrier.
struct AnyReactor {
    value: bool,
    has_arrived: bool,
    any: Option<bool>,
}

impl Reactor for AnyReactor {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    fn on_message(&mut self, _: Duration, _: u32, _: u32, _: Bytes) -> Result<()> {
        Ok(())
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        (!std::mem::replace(&mut self.has_arrived, true)).then_some(self.value.into())
    }

    fn on_barrier(&mut self, gathered: BarrierResult) -> Result<()> {
        self.any = Some(gathered.bits != 0);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "any"
    }

    fn dependency_on(&self, _: u32) -> PeerDependency {
        if self.is_done() { PeerDependency::Nothing } else { PeerDependency::Required }
    }

    fn is_done(&self) -> bool {
        self.any.is_some()
    }
}
