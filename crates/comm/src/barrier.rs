//! Barriers: nobody goes on before all have come.
//!
//! On a world whose engine has a counter that all ranks share, everybody can add to it (`barrier/central`). All other
//! barriers are schedules of messages without data.
//!
//! The n-th call of each rank on a communicator is one barrier. It returns `Ok` on a rank only if every rank has called it
//! n times, whoever leaves, fails or is killed, and however often others call again.

use std::time::Duration;

use treepie_base::{Bytes, Result};
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};
use treepie_schedule::Operation;

use crate::Or;
use crate::collective::{Call, Lengths, NO_FOLD};
use crate::comm::Comm;
use crate::request::{Finish, Request};

impl Comm {
    /// Waits until all ranks of the communicator have called it.
    pub fn barrier(&self) -> Result<()> {
        if let Some(result) = self.barrier_at_board() {
            return result;
        }
        // Once the board is closed, by messages, which have the number of the call: ranks may have passed different numbers of
        // barriers at the board, and would arrive at the engine's counter for different calls.
        let central = if self.owns_board() { None } else { self.central_barrier() };
        match central {
            Some(request) => request.wait(),
            None => self.run_call(&barrier(), &[], &mut [], NO_FOLD),
        }
    }

    /// Begins a barrier; the request is done when all ranks of the communicator have begun it.
    pub fn ibarrier(&self) -> Result<Request<'static, ()>> {
        match self.central_barrier() {
            Some(request) => Ok(request),
            None => self.start_without_data(&barrier()),
        }
    }

    /// Whether any rank says yes. All ranks of the communicator call it.
    pub fn any(&self, yes: bool) -> Result<bool> {
        // Ranks bring bits to a barrier of the engine's. Where there is a board to meet at, a reduction is as fast.
        if self.means().barrier && self.endpoint().fabric().board().is_none() {
            return Ok(self.run_protocol(Asked { yes, has_come: false, any: None }, 1, |_| ())?.any == Some(true));
        }
        Ok(self.all_reduce(&[u8::from(yes)], Or)?[0] != 0)
    }

    /// Adds this rank to the engine's counter, if that is the barrier to take and there is one.
    fn central_barrier(&self) -> Option<Request<'static, ()>> {
        // Those who compare their calls first begin it at other times on other ranks.
        if self.is_checked() || !self.is_of_all() || !self.prefers_central_barrier() {
            return None;
        }
        // Contexts are even and never used twice, so each communicator of all ranks has a counter of its own.
        let id = self.endpoint().gather(self.context() / 2, 0)?;
        Some(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }
}

/// Ranks are asked, and bring their answers to a barrier.
struct Asked {
    yes: bool,
    has_come: bool,
    any: Option<bool>,
}

impl Reactor for Asked {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    fn on_message(&mut self, _: Duration, _: u32, _: u32, _: Bytes) -> Result<()> {
        Ok(())
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        (!std::mem::replace(&mut self.has_come, true)).then_some(self.yes.into())
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        self.any = Some(gathered.census != 0);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "any"
    }

    fn needs(&self, _: u32) -> Needs {
        if self.is_done() { Needs::Nothing } else { Needs::Message }
    }

    fn is_done(&self) -> bool {
        self.any.is_some()
    }
}

fn barrier() -> Call<'static> {
    Call::of::<u8>(Operation::Barrier, Lengths::Vector(0))
}
