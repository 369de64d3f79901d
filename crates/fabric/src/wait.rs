//! Completion of operations: test, wait, cancel, abandon; backoff, deadlock and stall checks.

use std::time::Duration;

use treepie_base::{BorrowScopeId, Error, Result};

use crate::backoff::Backoff;
use crate::bins::{ANY_SOURCE, MatchKey};
use crate::endpoint::{Endpoint, RankGroup};
use crate::engine::ParkKind;
use crate::op::{Completion, Envelope, OnCompletion, Op, OpKind, OpState, WaitReason};
use crate::search_depth;
use crate::slab::OpId;

const EXISTS: &str = "a pending operation exists";

impl Endpoint {
    /// Takes the result of an operation if it has completed; makes progress once if not.
    pub fn test(&mut self, id: OpId) -> Option<Result<Completion>> {
        if let Some(result) = self.state.take_result(id) {
            return Some(result);
        }
        self.try_progress();
        self.state.take_result(id)
    }

    /// Makes progress for a nonblocking call. Without events, runs the checks of a wait, and yields the core where
    /// ranks outnumber cores, since a polling loop would starve the others.
    pub(crate) fn try_progress(&mut self) {
        if !self.progress() {
            self.check_failures();
            self.fabric.yield_now();
            self.idle_polls = self.idle_polls.wrapping_add(1);
            if self.idle_polls.is_multiple_of(256) {
                self.detect_mismatches(Some(0));
            }
        }
    }

    /// Takes the result of an operation if it has completed; makes no progress.
    pub fn take_result(&mut self, id: OpId) -> Option<Result<Completion>> {
        self.state.take_result(id)
    }

    /// As [`take_result`](Self::take_result), but drops the operation's memory.
    #[inline]
    pub fn take_envelope(&mut self, id: OpId) -> Option<Result<Envelope>> {
        self.state.take_envelope(id)
    }

    /// Waits for an operation to complete.
    pub fn wait(&mut self, id: OpId) -> Result<Completion> {
        self.wait_one(id);
        self.state.take_result(id).expect(EXISTS)
    }

    /// As [`wait`](Self::wait), but drops the operation's memory.
    #[inline]
    pub fn wait_envelope(&mut self, id: OpId) -> Result<Envelope> {
        if let Some(result) = self.state.take_envelope(id) {
            return result;
        }
        self.wait_one(id);
        self.state.take_envelope(id).expect(EXISTS)
    }

    /// Waits until one of these operations completes and returns its index.
    pub fn wait_any(&mut self, ids: &[OpId]) -> usize {
        if let [id] = ids {
            self.wait_one(*id);
            return 0;
        }
        if let Some(index) = ids.iter().position(|id| self.is_complete(*id)) {
            return index;
        }
        let queue = self.create_completion_queue();
        for (token, id) in ids.iter().enumerate() {
            search_depth::count_step();
            self.watch_operation(*id, queue, token as u32);
        }
        let (_, first) = self.wait_completion(queue, None, || ids.to_vec());
        ids.iter().for_each(|id| self.unwatch_operation(*id));
        let others = std::iter::from_fn(|| self.poll_completion(queue)).map(|(_, token)| token);
        let index = others.fold(first, u32::min) as usize;
        self.remove_completion_queue(queue);
        index
    }

    fn wait_one(&mut self, id: OpId) {
        let mut backoff = Backoff::default();
        loop {
            if self.is_complete(id) {
                return;
            }
            if self.progress() {
                backoff.reset();
            } else if !self.fail_if_deadlocked(&[id]) {
                let reason = self.state.wait_reason(id).expect(EXISTS);
                self.backoff(&mut backoff, reason);
            }
        }
    }

    /// Whether an operation has completed.
    #[inline]
    pub fn is_complete(&self, id: OpId) -> bool {
        self.state.ops.get(id).is_none_or(Op::is_complete)
    }

    /// Whether an operation is pending, or its result has not been taken.
    pub fn exists(&self, id: OpId) -> bool {
        self.state.ops.get(id).is_some()
    }

    /// Whether a send, or its RTS, has left the send queue.
    pub fn is_dispatched(&self, id: OpId) -> bool {
        self.state.ops.get(id).is_none_or(|op| !matches!(op.state, OpState::Queued))
    }

    /// The operations on memory borrowed in a scope whose results have not been taken.
    pub fn lent_by(&self, scope: BorrowScopeId) -> Vec<OpId> {
        self.state.ops.iter().filter(|(_, op)| op.scope == Some(scope)).map(|(id, _)| id).collect()
    }

    /// Cancels a posted receive. False if it has matched a message, or if the operation is no receive.
    pub fn cancel(&mut self, id: OpId) -> bool {
        let cancelled = self.state.unpost(id);
        if cancelled {
            self.state.ops.remove(id);
        }
        cancelled
    }

    /// Abandons an operation: cancels a posted receive; other operations complete in the background.
    pub fn abandon(&mut self, id: OpId) {
        if self.cancel(id) {
            return;
        }
        match self.state.ops.get_mut(id) {
            Some(op) if op.is_complete() => self.state.ops.remove(id),
            Some(op) => op.on_completion = OnCompletion::Discard,
            None => {}
        }
    }

    /// Backs off after progress without events, and runs checks for aborts, mismatched calls, failures and stalls.
    #[cold]
    pub(crate) fn backoff(&mut self, backoff: &mut Backoff, reason: WaitReason) {
        if self.handle_new_aborts() {
            return;
        }
        let park = self.fabric.park_kind(backoff.round);
        let has_mismatch = match park {
            ParkKind::Brief => false,
            ParkKind::Timeout => self.detect_mismatches(Some(backoff.checks)),
            ParkKind::Indefinite => self.detect_mismatches(None),
        };
        if has_mismatch {
            return;
        }
        let slept = self.fabric.idle(backoff.round);
        backoff.round += 1;
        self.check_failures();
        if slept || backoff.round.is_multiple_of(256) {
            if park == ParkKind::Brief {
                self.detect_mismatches(Some(backoff.checks));
            }
            self.check_stall(backoff, reason);
        }
    }

    /// Reports a long wait, if so configured, and pings silent peers where the engine does not detect failures.
    fn check_stall(&mut self, backoff: &mut Backoff, reason: WaitReason) {
        self.fabric.report_wait(&reason);
        backoff.checks += 1;
        let now = self.fabric.now();
        let waited = now - *backoff.since.get_or_insert(now);
        if let Some(stall) = self.stall
            && waited >= stall * (backoff.reports + 1)
        {
            backoff.reports += 1;
            eprintln!("treepie: rank {} has waited {:.1} s in {reason}", self.state.rank, waited.as_secs_f64());
        }
        if !self.fabric.detects_failures() && waited >= Duration::from_millis(500) * (backoff.pings + 1) {
            backoff.pings += 1;
            self.ping_sources(reason);
        }
    }

    /// Waits until `ready` finds a value in memory that a rank writes without a message. An error if that rank is lost
    /// first.
    pub fn wait_until<T>(&mut self, what: &'static str, rank: u32, ready: impl Fn() -> Option<T>) -> Result<T> {
        self.wait_without_tasks(what, |endpoint| {
            // In this order: the rank may have written before it was lost.
            let is_lost = endpoint.state.liveness.is_lost(rank);
            match ready() {
                Some(value) => Some(Ok(value)),
                None => is_lost.then_some(Err(Error::PeerLost { rank: rank as usize })),
            }
        })
    }

    /// Waits without stepping tasks: the caller may be one of them, and no other may start a request meanwhile.
    pub(crate) fn wait_without_tasks<T>(
        &mut self,
        what: &'static str,
        mut poll: impl FnMut(&mut Self) -> Option<Result<T>>,
    ) -> Result<T> {
        let were_suspended = std::mem::replace(&mut self.tasks.are_suspended, true);
        let mut backoff = Backoff::default();
        let result = loop {
            if let Some(result) = poll(self) {
                break result;
            }
            if self.progress() {
                backoff.reset();
            } else {
                self.backoff(&mut backoff, WaitReason::For(what));
            }
        };
        self.tasks.are_suspended = were_suspended;
        self.recheck_unexpected = true;
        result
    }

    /// An error if only this rank could send a message of this key, which it cannot while it waits.
    pub(crate) fn check_self_deadlock(&self, key: MatchKey) -> Result<()> {
        let is_singleton = || self.group_of(key.context).map_or(self.size(), RankGroup::ranks) == 1;
        let only_self = key.source == self.state.rank || (key.source == ANY_SOURCE && is_singleton());
        if only_self {
            return Err(Error::Deadlock { what: "a receive from this rank without a matching send" });
        }
        Ok(())
    }

    /// Fails an operation that only this rank could complete, if it is the only one that the caller waits for.
    pub(crate) fn fail_if_deadlocked(&mut self, ids: &[OpId]) -> bool {
        if !self.fabric.is_current_rank() {
            return self.fail_off_rank(ids);
        }
        let [id] = *ids else { return false };
        let error = match self.state.ops.get(id).map(|op| (op.kind, op.key, &op.state)) {
            Some((OpKind::Receive, key, OpState::Posted(_))) => self.check_self_deadlock(key).err(),
            Some((OpKind::SynchronousSend, key, OpState::Running)) if key.source == self.state.rank => {
                Some(Error::Deadlock { what: "a synchronous send to this rank without a matching receive" })
            }
            _ => None,
        };
        let Some(error) = error else { return false };
        self.state.unpost(id);
        self.state.fail(id, error);
        true
    }

    /// Fails a receive for which another rank's code waits, where nothing can be received.
    ///
    /// # Panics
    /// If there is no receive among the operations: peers take part in all others, and continue them.
    #[cold]
    fn fail_off_rank(&mut self, ids: &[OpId]) -> bool {
        let receive = ids.iter().copied().find(|id| self.state.unpost(*id));
        let Some(id) = receive else {
            panic!("an operation of rank {} is waited for by the code of another rank", self.state.rank);
        };
        let key = self.state.ops.get(id).expect("just found").key;
        let rank = self.lost_off_rank(key) as usize;
        self.state.fail(id, Error::PeerLost { rank });
        true
    }
}
