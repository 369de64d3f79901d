//! Finalization of a rank, in order or after a failure; the end of scopes with borrowed memory.

use treepie_base::{BorrowScopeId, Error, SettleReason, Span};

use crate::abort::AbortReason;
use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::op::{Op, OpState, WaitReason};
use crate::slab::OpId;

impl Endpoint {
    /// Finalizes this rank and drops the engine. Nothing can be sent or received any more.
    pub fn finalize(&mut self) {
        if std::mem::replace(&mut self.finalized, true) {
            return;
        }
        if std::thread::panicking() || !self.fabric.is_current_rank() {
            self.finalize_after_failure(None)
        } else {
            self.finalize_gracefully()
        }
        self.drop_engine();
    }

    /// Finalizes this rank as one that has failed, since its program returned an error: it may be in the middle of what
    /// peers wait for, so these get [`Error::PeerLost`], also where they receive from any source.
    pub fn fail(&mut self, error: &Error) {
        if std::mem::replace(&mut self.finalized, true) {
            return;
        }
        if !std::thread::panicking() && self.fabric.is_current_rank() {
            // What peers must learn of is sent as far as there is room: why a call was refused, that messages are
            // rejected.
            self.reject_all();
            while self.progress() {}
        }
        self.finalize_after_failure(Some(error));
        self.drop_engine();
    }

    fn drop_engine(&mut self) {
        self.fabric = Box::new(crate::singleton::FinalizedFabric { rank: self.state.rank, size: self.size() });
        // Handles may outlive the engine: a wait checks liveness again, and finds all peers finalized.
        self.seen_liveness_epoch = None;
    }

    /// Advances operations on borrowed memory; called until none is left.
    pub fn settle(&mut self, reason: impl Into<SettleReason>) {
        let SettleReason { scope, panicked } = reason.into();
        if panicked && !self.state.finalizing {
            self.fabric.announce_failure(None);
            self.reject_all();
            self.settle_backoff = Backoff::default();
        }
        self.fabric.set_settling(true);
        if panicked {
            self.abandon_borrowed(scope);
        }
        if !self.progress() {
            let mut backoff = std::mem::take(&mut self.settle_backoff);
            self.backoff(
                &mut backoff,
                WaitReason::For("the end of a scope: operations on borrowed memory are pending"),
            );
            if panicked && backoff.waited(self.fabric.now()).as_secs() >= 1 && self.fabric.rank_is_process() {
                // A peer that neither receives nor terminates would block this rank for ever; the launcher ends the
                // job.
                std::process::exit(101);
            }
            self.settle_backoff = backoff;
        }
        self.fabric.set_settling(false);
    }

    /// Abandons operations on memory of a scope that panicked: no caller takes their results, so they must not hold the
    /// memory. Callers may still take results of enclosing scopes once they have caught the panic.
    fn abandon_borrowed(&mut self, scope: Option<BorrowScopeId>) {
        let is_borrowed = |(_, op): &(OpId, &Op)| {
            let borrowed_in = op.span.as_ref().and_then(Span::scope_id);
            borrowed_in.is_some() && (scope.is_none() || borrowed_in == scope)
        };
        for id in self.state.ops.iter().filter(is_borrowed).map(|(id, _)| id).collect::<Vec<_>>() {
            self.abandon(id);
        }
    }

    /// Cancels all receives, barriers and tasks, and rejects all unexpected messages, now and from now on.
    fn reject_all(&mut self) {
        self.finalize_tasks();
        self.state.finalizing = true;
        self.cancel_tasks();
        for (_, queue) in std::mem::take(&mut self.state.barriers) {
            queue.into_iter().for_each(|barrier| self.state.fail(barrier.op, Error::Cancelled));
        }
        for (id, _) in self.posted_receives() {
            self.state.unpost(id);
            self.state.fail(id, Error::Cancelled);
        }
        for id in self.state.unexpected.select(|_| true) {
            let message = self.state.unexpected.take(id);
            self.state.reject(message.key.source, &message.arrival, AbortReason::Unspecified);
        }
        self.state.protocol_queues.close();
        let unexpected = self.state.protocol_queues.take_unexpected(|_, _| true);
        unexpected.iter().for_each(|(from, arrival)| self.state.reject(*from, arrival, AbortReason::Unspecified));
        self.state.reject_deferred_gets();
        self.run_actions();
    }

    /// Whether operations of this rank are pending. `last` is the pending operation that the previous call found:
    /// operations that complete in order are scanned once.
    fn has_pending_operations(&self, last: &mut u32) -> bool {
        let is_pending = |op: &Op| {
            matches!(
                op.state,
                OpState::Queued | OpState::AwaitingAck(_) | OpState::Streaming | OpState::Transferring(_)
            )
        };
        if !self.state.send_queue.is_empty() {
            return true;
        }
        let found = self.state.ops.find_from(*last, is_pending);
        *last = found.unwrap_or(*last);
        found.is_some()
    }

    /// Finalizes in order: each message sent is delivered, or its receiver finalizes, too.
    fn finalize_gracefully(&mut self) {
        self.reject_all();
        let (mut announced, mut last_pending) = (false, 0);
        let mut backoff = Backoff::default();
        loop {
            let any = self.progress();
            if !announced && self.state.send_queue.is_empty() {
                self.fabric.begin_finalize();
                announced = true;
            }
            if announced
                && !self.has_pending_operations(&mut last_pending)
                && !self.has_window_readers()
                && self.fabric.is_finalized()
            {
                return;
            }
            if any {
                backoff.reset();
            } else {
                self.backoff(&mut backoff, WaitReason::For("finalize: messages sent have not been received"));
            }
        }
    }

    /// Whether peers may still read a read-only window of this rank. They are done when they finalize as well.
    fn has_window_readers(&self) -> bool {
        // An engine without failure detection stays until all ranks have finalized.
        self.state.windows.has_read_only()
            && self.fabric.detects_failures()
            && self.state.liveness.num_lost() + 1 < self.size()
    }

    /// Terminates at once. Peers may still read registered send buffers, so that memory is leaked.
    fn finalize_after_failure(&mut self, error: Option<&Error>) {
        self.fabric.announce_failure(error);
        let ids: Vec<OpId> = self.state.ops.iter().map(|(id, _)| id).collect();
        for id in ids {
            std::mem::forget(self.state.ops.get_mut(id).and_then(|op| op.span.take()));
            self.state.fail(id, Error::Cancelled);
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.finalize();
    }
}
