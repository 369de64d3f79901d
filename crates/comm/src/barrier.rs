//! Barriers: nobody goes on before all have come.
//!
//! On a world whose engine has a counter that all ranks share, everybody can add to it (`barrier/central`). All other
//! barriers are schedules of messages without data.

use treepie_base::Result;
use treepie_schedule::Operation;

use crate::collective::{Call, Lengths, NO_FOLD};
use crate::comm::Comm;
use crate::request::{Finish, Request};

impl Comm {
    /// Waits until all ranks of the communicator have called it.
    pub fn barrier(&self) -> Result<()> {
        if let Some(result) = self.barrier_at_board() {
            return result;
        }
        match self.central_barrier() {
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

fn barrier() -> Call<'static> {
    Call::of::<u8>(Operation::Barrier, Lengths::Vector(0))
}
