//! Which receive gets a message, and messages that none gets.

use treepie_base::{Error, copy_short as copy};

use super::{Action, EndpointState, envelope};
use crate::abort::AbortReason;
use crate::bins::MatchKey;
use crate::blocking_recv::no_memory;
use crate::call_signature::CallSignature;
use crate::engine::RecordHeader;
use crate::matching::{AckTo, Arrival, UnexpectedMessage};
use crate::op::{OnCompletion, OpState};
use crate::slab::OpId;
use crate::wire::{self, Body};

impl EndpointState {
    /// Delivers an eager message to the oldest matching receive that it fits; older ones fail. False if there is none.
    #[inline]
    pub(crate) fn deliver_to_posted(&mut self, key: MatchKey, call: CallSignature, body: &[u8]) -> bool {
        while let Some(index) = self.take_posted(key) {
            let op = self.ops.at_mut(index).expect("posted receives exist");
            // The fast path, without further lookups.
            if op.on_completion == OnCompletion::Keep
                && op.call == call
                && let Some(span) = &mut op.span
                && body.len() <= span.len()
            {
                copy(&mut span.as_mut_slice()[..body.len()], body);
                op.state = OpState::Done(envelope(key, call, body.len() as u64));
                return true;
            }
            let id = self.ops.id_at(index).expect("posted receives exist");
            if self.deliver(id, key, call, body) {
                return true;
            }
        }
        false
    }

    /// Delivers an eager message to a receive; false, and the receive has failed, if it does not fit.
    pub(crate) fn deliver(&mut self, op: OpId, key: MatchKey, call: CallSignature, body: &[u8]) -> bool {
        if !self.make_room(op, key, call, body.len() as u64) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        let span = entry.span.as_mut().expect("a receive has memory");
        copy(&mut span.as_mut_slice()[..body.len()], body);
        self.complete(op, envelope(key, call, body.len() as u64));
        true
    }

    /// Whether a message belongs to the call of a receive, and there is room for it; if not, the receive fails.
    pub(crate) fn make_room(&mut self, op: OpId, key: MatchKey, call: CallSignature, bytes: u64) -> bool {
        let rank = self.rank;
        let receive = self.ops.get_mut(op).expect("posted receives exist");
        let (expected, room) = (receive.call, receive.capacity());
        let error = if expected != call {
            expected.mismatch_error(rank, call, key.source)
        } else if bytes > room {
            Error::Truncated { got: bytes, room }
        } else if !receive.allocate(bytes) {
            no_memory(bytes)
        } else {
            return true;
        };
        self.fail(op, error);
        false
    }

    /// Removes the oldest matching receive from the posted queue.
    #[inline]
    fn take_posted(&mut self, message: MatchKey) -> Option<u32> {
        let ops = &self.ops;
        self.posted.take(message, |index| match ops.at(index).map(|op| (op.key, &op.state)) {
            Some((key, OpState::Posted(order))) => (key, *order),
            _ => unreachable!("posted receives are in that state"),
        })
    }

    /// Removes the oldest matching receive from the posted queue.
    pub(crate) fn take_posted_id(&mut self, message: MatchKey) -> Option<OpId> {
        let index = self.take_posted(message)?;
        let id = self.ops.id_at(index).expect("posted receives exist");
        self.ops.get_mut(id).expect("found").state = OpState::Queued;
        Some(id)
    }

    /// Whether a posted receive matches this message.
    pub(crate) fn has_posted_match(&self, message: MatchKey) -> bool {
        self.posted.oldest(message, |_| 0).is_some()
    }

    /// Removes a receive from the posted queue; false if the operation is not a posted receive.
    #[inline]
    pub(crate) fn unpost(&mut self, id: OpId) -> bool {
        let Some(op) = self.ops.get_mut(id) else { return false };
        let (OpState::Posted(_), key) = (&op.state, op.key) else { return false };
        op.state = OpState::Queued;
        self.posted.remove(key, id.index);
        true
    }

    /// Queues an unexpected message, or rejects it.
    pub(super) fn queue_unexpected(&mut self, key: MatchKey, call: CallSignature, arrival: Arrival) {
        if let Some(reason) = self.reject_reason(key) {
            return self.reject(key.source, &arrival, reason);
        }
        let order = self.unexpected.next_order();
        self.unexpected.insert(UnexpectedMessage { key, call, order, arrival });
    }

    /// Requeues a matched message in its original order, or delivers it to a receive posted meanwhile.
    pub(crate) fn requeue(&mut self, message: UnexpectedMessage) {
        let (key, call) = (message.key, message.call);
        while let Some(op) = self.take_posted_id(key) {
            let taken = match &message.arrival {
                Arrival::Eager { data, ack_to } => {
                    let taken = self.deliver(op, key, call, data);
                    if taken {
                        self.complete_eager(key.source, data.len(), *ack_to);
                    }
                    taken
                }
                Arrival::Rts(rts) => self.start_transfer(op, key, call, *rts),
            };
            if taken {
                return;
            }
        }
        self.unexpected.insert(message);
    }

    /// The reason why this rank rejects a message, if it does.
    pub(crate) fn reject_reason(&self, key: MatchKey) -> Option<AbortReason> {
        if self.finalizing { Some(AbortReason::Unspecified) } else { self.aborts.local_reason(key) }
    }

    /// Rejects a message: sends a NACK with the reason to a sender that waits for an acknowledgement.
    pub(crate) fn reject(&mut self, from: u32, arrival: &Arrival, reason: AbortReason) {
        if let Arrival::Eager { data, .. } = arrival
            && !self.finalizing
        {
            // The message uses no memory any more, so its credit returns.
            self.complete_eager(from, data.len(), AckTo::Nobody);
        }
        let reason = if self.finalizing { AbortReason::PeerLost(self.rank) } else { reason.originating_at(self.rank) };
        let slot = match arrival {
            Arrival::Rts(rts) => rts.slot,
            Arrival::Eager { ack_to: AckTo::Peer(slot), .. } => *slot,
            Arrival::Eager { ack_to: AckTo::SelfSend(op), .. } => return self.fail(*op, reason.to_error(self.rank)),
            Arrival::Eager { ack_to: AckTo::Nobody, .. } => return,
        };
        let (tag, context) = ((reason.encode() >> 32) as u32, reason.encode() as u32);
        let head = RecordHeader { kind: wire::NACK, context, tag, slot };
        self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
    }
}
