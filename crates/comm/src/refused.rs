//! Collective operations that are refused on this rank, for an argument that cannot be.
//!
//! Others may have been called with better ones, and be in the operation, or even through it. So it has a number here all the
//! same: the next call of this rank belongs to the next one of theirs. And they are told that this rank gives it up, so that
//! nobody waits for it.

use treepie_base::{Error, Result};
use treepie_fabric::{Why, run_tag};

use crate::collective::job::INSTANCE_MASK;
use crate::comm::Comm;

impl Comm {
    /// The error of a call that is refused before it has a number.
    #[cold]
    pub(crate) fn refused(&self, error: Error) -> Error {
        if self.compares() {
            self.compare_refused(|| format!("an operation ({error})"));
        } else {
            self.give_up_operation(self.next_instance(), Why::Unsaid);
        }
        error
    }

    /// What was found out for the operation of a number; if it is refused, others are told.
    #[inline]
    pub(crate) fn unless_refused<T>(&self, number: u32, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !self.compares()
        {
            self.give_up_operation(number, Why::of(error));
        }
        result
    }

    #[cold]
    pub(crate) fn give_up_operation(&self, number: u32, why: Why) {
        let context = self.own_context();
        let has_board = self.has_board();
        let endpoint = &mut self.endpoint();
        if has_board {
            // Others may be at the board for it, and this rank must not come there for the next one.
            endpoint.leave_board(why);
        }
        endpoint.give_up_messages(context, INSTANCE_MASK, run_tag(number), why);
        let others = self.inner.members.all_in_world(endpoint);
        endpoint.tell_gave_up(context, INSTANCE_MASK, run_tag(number), why, others.into_iter());
    }
}
