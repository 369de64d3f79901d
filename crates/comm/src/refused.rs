//! Collective calls that are refused on this rank because of an invalid argument.
//!
//! Other ranks may have valid arguments, and be in the operation, or even past it. So the call takes an instance number
//! here nevertheless: the next call of this rank matches the next one of theirs. The other ranks are notified of the
//! abort, so that none waits for this rank.

use treepie_base::{Error, Result};
use treepie_fabric::{AbortReason, operation_tag};

use crate::collective::job::INSTANCE_MASK;
use crate::comm::Comm;

impl Comm {
    /// The error of a call that is refused before it has an instance number.
    #[cold]
    pub(crate) fn refuse_call(&self, error: Error) -> Error {
        if self.needs_comparison() {
            self.compare_refused_call(|| format!("an operation ({error})"));
        } else {
            self.abort_operation(self.next_instance(), AbortReason::Unspecified);
        }
        error
    }

    /// The result of preparing the operation with this number; if it is an error, the other ranks are notified.
    #[inline]
    pub(crate) fn abort_if_refused<T>(&self, number: u32, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !self.needs_comparison()
        {
            self.abort_operation(number, AbortReason::from_error(error));
        }
        result
    }

    #[cold]
    pub(crate) fn abort_operation(&self, number: u32, why: AbortReason) {
        let context = self.collective_context();
        let uses_segment = self.can_use_segment() || self.host_slots().is_some();
        let endpoint = &mut self.endpoint();
        if uses_segment {
            // Others may wait in the segment for it, and this rank must not use the segment for the next call.
            endpoint.close_segment(why);
        }
        endpoint.abort_messages(context, INSTANCE_MASK, operation_tag(number), why);
        let others = self.inner.members.world_ranks(endpoint);
        endpoint.announce_abort(context, INSTANCE_MASK, operation_tag(number), why, others.into_iter());
    }
}
