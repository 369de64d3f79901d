//! What an endpoint does about aborts: its own, and those of peers.

use treepie_base::Error;

use super::{AbortReason, Aborts, PeerAbort, TagPattern};
use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::endpoint_state::{Action, EndpointState};
use crate::engine::RecordHeader;
use crate::op::OpState;
use crate::protocol_queues::{GROUP_TAG_BIT, PROTOCOL_TAG_BIT, ProtocolInstance, operation_number};
use crate::search_depth;
use crate::slab::OpId;
use crate::wire::{self, decode_words};

/// Number of operations that a progress call without further events may scan.
const SCAN_BUDGET: usize = 16;

/// Number of operations before the one that starts which may still be in progress.
const MAX_UNFINISHED: u32 = 16;

impl EndpointState {
    /// Handles the abort of a peer. Channels are ordered, so what the peer sent before has arrived.
    pub(crate) fn handle_peer_abort(&mut self, peer: u32, head: RecordHeader, body: &[u8]) {
        let [mask, reason] = decode_words(body);
        let pattern = TagPattern { context: head.context, mask, bits: head.full_tag() };
        let abort = PeerAbort { peer, reason: AbortReason::decode(reason) };
        self.aborts.add_mask(mask);
        self.aborts.any_mismatch |= abort.reason == AbortReason::CallMismatch;
        self.aborts.peers_by_context.entry(pattern.context).or_default().entry(pattern).or_default().push(abort);
        self.aborts.unchecked += 1;
        // A protocol instance checks for aborts itself; other tasks have receives that fail.
        let instance = ProtocolInstance { context: pattern.context, tag: pattern.bits | PROTOCOL_TAG_BIT };
        match self.protocol_queues.task_of(instance) {
            _ if pattern.bits & GROUP_TAG_BIT != 0 => self.ready_tasks.mark_all(),
            Some(task) => self.ready_tasks.mark(task),
            None => {}
        }
        self.actions.push(Action::CheckSegmentClosed);
    }

    /// Fails receives that peers have aborted. One scan serves all aborts since the last one: a peer that fails in one
    /// operation mostly fails in all pending ones.
    #[cold]
    fn fail_aborted_receives(&mut self) {
        (self.aborts.unchecked, self.aborts.scan_budget) = (0, 0);
        let posted = self.ops.iter().filter(|(_, op)| matches!(op.state, OpState::Posted(_)));
        let aborted = posted.filter_map(|(id, op)| {
            search_depth::count_step();
            Some((id, self.aborts.peer_abort_error(op.key)?))
        });
        for (id, error) in aborted.collect::<Vec<_>>() {
            self.unpost(id);
            self.fail(id, error);
        }
    }

    /// Fails a receive that was just posted if its source has aborted the operation.
    #[inline]
    pub(crate) fn fail_if_aborted(&mut self, id: OpId, key: MatchKey) {
        if let Some(error) = self.aborts.peer_abort_error(key) {
            self.unpost(id);
            self.fail(id, error);
        }
    }
}

impl Endpoint {
    /// Fails receives aborted by peers, once enough aborts or idle progress calls have accumulated to pay for a scan of
    /// all operations. Before this rank waits, [`Endpoint::handle_new_aborts`] scans in any case.
    #[inline]
    pub(crate) fn check_aborts(&mut self, is_idle: bool) {
        let Aborts { unchecked, scan_budget, .. } = &mut self.state.aborts;
        if *unchecked > 0 {
            *scan_budget += if is_idle { SCAN_BUDGET } else { 0 };
            if *unchecked + *scan_budget >= self.state.ops.scan_cost() {
                self.state.fail_aborted_receives();
            }
        }
    }

    /// Fails receives aborted by peers. Returns whether there were new aborts.
    pub(crate) fn handle_new_aborts(&mut self) -> bool {
        let any = self.state.aborts.unchecked > 0;
        if any {
            self.state.fail_aborted_receives();
        }
        any
    }

    /// Why a protocol instance cannot complete, if a rank that it `needs` has aborted: the lowest lost rank that these
    /// ranks report, or else the lowest rank that aborted.
    pub fn abort_error(&self, instance: ProtocolInstance, needs: impl Fn(u32) -> bool) -> Option<Error> {
        let errors = self
            .state
            .aborts
            .peer_aborts(instance.context, instance.tag)
            .filter(|abort| needs(abort.peer))
            .map(PeerAbort::to_error);
        errors.min_by_key(|error| match error {
            Error::PeerLost { rank } => (false, *rank),
            Error::Aborted { rank } => (true, *rank),
            _ => unreachable!("an abort error"),
        })
    }

    /// Aborts all messages of a context whose tags equal `bits` under `mask`: discards those that have arrived or will
    /// arrive, and sends the reason to senders that wait for an acknowledgement.
    pub fn abort_messages(&mut self, context: u32, mask: u64, bits: u64, reason: AbortReason) {
        let pattern = TagPattern { context, mask, bits };
        for id in self.state.unexpected.select(|message| pattern.matches(message.key)) {
            let message = self.state.unexpected.take(id);
            self.state.reject(message.key.source, &message.arrival, reason);
        }
        self.state.aborts.add_mask(mask);
        self.state.aborts.local.insert(pattern, reason);
        // Peers may run a protocol under that number while this rank does not.
        let instance = ProtocolInstance { context, tag: bits | PROTOCOL_TAG_BIT };
        if bits & GROUP_TAG_BIT == 0 && self.state.protocol_queues.is_unopened(instance) {
            self.close_protocol(instance);
        }
        self.state.mismatches.forget(context, bits);
        self.run_actions();
    }

    /// Announces that this rank will send no more of these messages: receives that wait for one fail with the error of
    /// `reason`. Messages sent before are still received.
    pub fn announce_abort(
        &mut self,
        context: u32,
        mask: u64,
        bits: u64,
        reason: AbortReason,
        to: impl Iterator<Item = u32>,
    ) {
        let head = RecordHeader::for_message(wire::ABORT, context, bits, CallSignature::NONE, 0);
        let body = wire::encode_words([mask, reason.encode()]);
        for rank in to {
            if rank != self.state.rank && !self.state.liveness.is_lost(rank) {
                self.send_control(rank, head, body);
            }
        }
    }

    /// Forgets aborts under tag bits that are about to be reused. `next` are the bits of the operation that starts.
    /// `far` are the bits half the number range away: late messages of their last use have arrived by now, and no rank
    /// has started their next use.
    #[inline]
    pub fn forget_aborts(&mut self, context: u32, next: u64, far: u64) {
        if !self.state.aborts.is_empty() {
            self.forget_aborts_slow(context, next, far);
        }
    }

    #[cold]
    fn forget_aborts_slow(&mut self, context: u32, next: u64, far: u64) {
        let protocol_queues = &self.state.protocol_queues;
        let Aborts { masks, local, peers_by_context, any_mismatch, .. } = &mut self.state.aborts;
        let mut of_context = peers_by_context.remove(&context).unwrap_or_default();
        for &mask in masks.iter() {
            for bits in [far, far | PROTOCOL_TAG_BIT] {
                local.remove(&TagPattern { context, mask, bits });
                of_context.remove(&TagPattern { context, mask, bits });
            }
            // A peer that is ahead may have aborted the operation that this rank starts only now.
            for bits in [next, next | PROTOCOL_TAG_BIT] {
                local.remove(&TagPattern { context, mask, bits });
            }
        }
        // Without background tasks, all operations before this one have completed here, except for open protocol
        // instances and the last few: in checked mode a call takes its number before the comparison under the previous
        // number.
        if self.tasks.is_empty() && !of_context.is_empty() {
            let is_past = |pattern: &TagPattern| {
                search_depth::count_step();
                let ahead = operation_number(pattern.bits).wrapping_sub(operation_number(next));
                let is_before = ahead > u32::MAX / 2 && ahead <= u32::MAX - MAX_UNFINISHED;
                let instance = ProtocolInstance { context, tag: pattern.bits | PROTOCOL_TAG_BIT };
                pattern.bits & GROUP_TAG_BIT == 0 && is_before && !protocol_queues.has(instance)
            };
            of_context.retain(|pattern, _| !is_past(pattern));
        }
        if !of_context.is_empty() {
            peers_by_context.insert(context, of_context);
        }
        *any_mismatch &= !peers_by_context.is_empty();
    }
}
