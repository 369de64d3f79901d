//! Failure detection: fails operations that depend on lost ranks.
//!
//! A receive fails as soon as its source starts nothing new ([`Liveness::Finalizing`]) and everything it sent has been
//! read. A send fails when its receiver rejects it, as a finalizing rank does with everything it has not received, or
//! when the receiver has terminated, so that no peer accesses the send buffer any more.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::Error;

use crate::abort::AbortReason;
use crate::bins::{ANY_SOURCE, MatchKey};
use crate::endpoint::{Endpoint, RankGroup};
use crate::endpoint_state::EndpointState;
use crate::engine::{Liveness, RecordHeader};
use crate::matching::Arrival;
use crate::op::{Op, OpKind, OpState, WaitReason};
use crate::slab::OpId;
use crate::wire;

impl Endpoint {
    /// Checks for lost ranks, and fails the operations that depend on them.
    #[inline]
    pub fn check_failures(&mut self) {
        if self.seen_liveness_epoch != Some(self.fabric.liveness_epoch()) || self.state.peer_finalizing {
            self.detect_failures();
        }
    }

    #[cold]
    fn detect_failures(&mut self) {
        if !self.fabric.is_current_rank() {
            return;
        }
        let known = self.seen_liveness_epoch.replace(self.fabric.liveness_epoch());
        self.state.peer_finalizing = false;
        let EndpointState { liveness, rank: this_rank, peers, .. } = &mut self.state;
        self.fabric.liveness_since(known, &mut |rank, change| {
            if rank != *this_rank {
                liveness.set(rank, change, peers.size());
            }
        });
        // Messages sent before a rank was lost count: read them all before anything fails.
        let was_detecting = std::mem::replace(&mut self.detecting_failures, true);
        let read = catch_unwind(AssertUnwindSafe(|| self.drain_inbound()));
        self.detecting_failures = was_detecting;
        self.fail_lost_receives();
        self.fail_lost_sends();
        self.drop_rts_of_failed();
        if !self.state.liveness.all_alive() {
            self.fail_barriers();
        }
        self.run_actions();
        self.state.ready_tasks.mark_all();
        if let Err(panic) = read {
            // The panic of a task. The failures above are complete, and other tasks notice them.
            resume_unwind(panic);
        }
        self.step_tasks();
    }

    /// Reads everything that peers have sent so far.
    fn drain_inbound(&mut self) {
        let tail = self.fabric.inbound_tail();
        loop {
            while self.progress() {}
            if self.fabric.has_drained_to(tail) {
                return;
            }
            // A peer is about to publish a record, and may have been descheduled.
            std::thread::yield_now();
        }
    }

    fn has_terminated(&self, rank: u32) -> bool {
        matches!(self.state.liveness.of(rank), Liveness::Finalized | Liveness::Failed)
    }

    /// The lost rank because of which the caller can never receive a message of this key.
    pub(crate) fn lost_source(&self, key: MatchKey) -> Option<u32> {
        if self.fabric.is_current_rank() { self.lost_sender(key) } else { Some(self.lost_off_rank(key)) }
    }

    /// The rank that errors name where nothing can be received because the caller is not this rank.
    pub(crate) fn lost_off_rank(&self, key: MatchKey) -> u32 {
        if key.source == ANY_SOURCE { self.state.rank } else { key.source }
    }

    /// The lost rank because of which a receive of this key can never match.
    fn lost_sender(&self, key: MatchKey) -> Option<u32> {
        let liveness = &self.state.liveness;
        if liveness.all_alive() {
            return None;
        }
        if key.source != ANY_SOURCE {
            return liveness.is_lost(key.source).then_some(key.source);
        }
        match self.group_of(key.context) {
            None => liveness
                .first_failed()
                .or_else(|| liveness.first_lost().filter(|_| liveness.num_lost() + 1 >= self.size())),
            Some(group) => {
                let lost = (0..self.size()).filter(|rank| liveness.is_lost(*rank));
                let failed =
                    lost.clone().find(|rank| liveness.has_failed(*rank) && group.contains(*rank) != Some(false));
                let mut members = lost.filter(|rank| group.contains(*rank) == Some(true));
                let all = members.clone().count() as u32 + 1 >= group.ranks();
                // If no other rank is left at all, group membership does not matter.
                let all_lost = liveness.first_lost().filter(|_| liveness.num_lost() + 1 >= self.size());
                failed.or_else(|| members.next().filter(|_| all)).or(all_lost)
            }
        }
    }

    pub(crate) fn group_of(&self, context: u32) -> Option<&dyn RankGroup> {
        self.groups.get(&(context / 2)).map(|group| &**group)
    }

    /// Registers the group of a context and of the odd one above it, if it does not span the world: wildcard receives
    /// there depend only on these ranks.
    pub fn register_group(&mut self, context: u32, group: Rc<dyn RankGroup>) {
        self.groups.insert(context / 2, group);
    }

    /// Removes the group of a context that is no longer in use.
    pub fn deregister_group(&mut self, context: u32) {
        self.groups.remove(&(context / 2));
        self.state.aborts.forget_contexts(|other| other / 2 == context / 2);
    }

    /// Fails an operation that was just started if it depends on a lost rank.
    #[inline]
    pub(crate) fn fail_if_source_lost(&mut self, id: OpId) {
        // While messages of lost ranks are being read, its message may still arrive; the check after that covers it.
        if !self.state.liveness.all_alive() && !self.detecting_failures {
            self.fail_if_source_lost_slow(id);
        }
    }

    #[cold]
    fn fail_if_source_lost_slow(&mut self, id: OpId) {
        let lost = match self.state.ops.get(id).map(|op| (op.kind, op.key)) {
            Some((OpKind::Receive, key)) => self.lost_sender(key),
            _ => None,
        };
        let Some(rank) = lost else { return };
        while self.progress() {}
        if self.state.unpost(id) {
            self.state.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    /// The posted receives.
    pub(crate) fn posted_receives(&self) -> Vec<(OpId, MatchKey)> {
        let posted = |(id, op): (OpId, &Op)| match op.state {
            OpState::Posted(_) => Some((id, op.key)),
            _ => None,
        };
        self.state.ops.iter().filter_map(posted).collect()
    }

    fn fail_lost_receives(&mut self) {
        for (id, key) in self.posted_receives() {
            if let Some(rank) = self.lost_sender(key) {
                self.state.unpost(id);
                self.state.fail(id, Error::PeerLost { rank: rank as usize });
            }
        }
        let interrupted = |(id, op): (OpId, &Op)| match &op.state {
            // The engine reports the failure of a bulk transfer, during which it owns the memory.
            OpState::Transferring(transfer) if op.span.is_some() && self.has_terminated(transfer.envelope.source) => {
                Some((id, transfer.envelope.source))
            }
            _ => None,
        };
        for (id, rank) in self.state.ops.iter().filter_map(interrupted).collect::<Vec<_>>() {
            self.state.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    fn fail_lost_sends(&mut self) {
        let mut queue = std::mem::take(&mut self.state.send_queue);
        queue.drop_records_to(|to| self.has_terminated(to));
        self.state.send_queue = queue;
        let lost = |(id, op): (OpId, &Op)| {
            let waits = matches!(op.state, OpState::Queued | OpState::AwaitingAck(_) | OpState::Streaming);
            // The engine reports the failure of a bulk transfer, during which it owns the memory.
            (op.is_send() && waits && op.span.is_some() && self.has_terminated(op.key.source))
                .then_some((id, op.key.source))
        };
        for (id, rank) in self.state.ops.iter().filter_map(lost).collect::<Vec<_>>() {
            if let Some(OpState::AwaitingAck(ack)) = self.state.ops.get(id).map(|op| &op.state) {
                let ack = *ack;
                self.state.pending_acks.remove(ack);
            }
            self.state.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    /// Rejects rendezvous messages of failed senders: the data is in their memory, which they need back.
    fn drop_rts_of_failed(&mut self) {
        let liveness = &self.state.liveness;
        let rejected = self
            .state
            .unexpected
            .select(|message| liveness.has_failed(message.key.source) && matches!(message.arrival, Arrival::Rts(_)));
        for id in rejected {
            let message = self.state.unexpected.take(id);
            self.state.reject(message.key.source, &message.arrival, AbortReason::Unspecified);
        }
        let EndpointState { protocol_queues, liveness, .. } = &mut self.state;
        let rejected = protocol_queues
            .take_unexpected(|from, arrival| liveness.has_failed(from) && matches!(arrival, Arrival::Rts(_)));
        rejected.iter().for_each(|(from, arrival)| self.state.reject(*from, arrival, AbortReason::Unspecified));
    }

    /// The lowest lost rank for which `misses(rank, has_failed)` holds, failed ranks first. None while messages of lost
    /// ranks are being read.
    pub fn first_lost_drained(&self, misses: impl Fn(u32, bool) -> bool) -> Option<u32> {
        if self.detecting_failures { None } else { self.first_lost(misses) }
    }

    /// As [`first_lost_drained`](Self::first_lost_drained), but also while messages of lost ranks are being read.
    pub fn first_lost(&self, misses: impl Fn(u32, bool) -> bool) -> Option<u32> {
        let liveness = &self.state.liveness;
        if liveness.all_alive() {
            return None;
        }
        let failed = (0..self.size()).find(|rank| liveness.has_failed(*rank) && misses(*rank, true));
        failed.or_else(|| (0..self.size()).find(|rank| liveness.is_lost(*rank) && misses(*rank, false)))
    }

    /// The ranks that are lost.
    pub fn lost_ranks(&self) -> Vec<u32> {
        let liveness = &self.state.liveness;
        if liveness.all_alive() {
            Vec::new()
        } else {
            (0..self.size()).filter(|rank| liveness.is_lost(*rank)).collect()
        }
    }

    /// Pings all ranks that pending receives depend on, and the one awaited in the shared segment; finalizing ranks
    /// reply. For engines without failure detection.
    pub(crate) fn ping_sources(&mut self, reason: WaitReason) {
        let mut sources: Vec<u32> = self.posted_receives().into_iter().map(|(_, key)| key.source).collect();
        if let WaitReason::Op(OpKind::Receive, key) = reason {
            sources.push(key.source);
        }
        sources.extend(self.fabric.shared_segment().and_then(|segment| segment.awaited()));
        let is_of_host = matches!(reason, WaitReason::HostCollective);
        if sources.contains(&ANY_SOURCE) || self.state.protocol_queues.has_open() || is_of_host {
            sources = (0..self.size()).collect();
        }
        sources.sort_unstable();
        sources.dedup();
        for source in sources {
            if source != self.state.rank && !self.state.liveness.is_lost(source) {
                // Without room now, a later check pings again.
                self.fabric.try_send(source, RecordHeader { kind: wire::PING, ..RecordHeader::default() }, &[]);
            }
        }
    }
}
