//! Records that have arrived.

use super::{Action, EndpointState, envelope};
use crate::abort::AbortReason;
use crate::bins::MatchKey;
use crate::blocking_recv::{BlockingRecv, RecvOutcome};
use crate::call_signature::CallSignature;
use crate::engine::{Liveness, RecordHeader};
use crate::matching::{AckTo, Arrival, Rts};
use crate::op::{Envelope, OpState};
use crate::protocol_queues::is_protocol_message;
use crate::send_queue::Item;
use crate::slab::OpId;
use crate::wire::{self, Body, Cts};

impl EndpointState {
    #[inline]
    pub(crate) fn handle_record(
        &mut self,
        from: u32,
        head: RecordHeader,
        body: &[u8],
        blocking: Option<&mut BlockingRecv<'_>>,
    ) {
        let key = head.key(from);
        match head.record_kind() {
            wire::EAGER => self.handle_eager(key, head.call(head.slot), body, AckTo::Nobody, blocking),
            wire::EAGER_SYNC => self.handle_eager(key, head.call(0), body, AckTo::Peer(head.slot), blocking),
            _ => self.handle_control(from, key, head, body, blocking),
        }
    }

    fn handle_control(
        &mut self,
        from: u32,
        key: MatchKey,
        head: RecordHeader,
        body: &[u8],
        blocking: Option<&mut BlockingRecv<'_>>,
    ) {
        match head.record_kind() {
            wire::RTS => {
                let rts = Rts::from_body(head.slot, body);
                self.handle_rts(key, head.call(rts.call_size), rts, blocking);
            }
            wire::CTS => self.handle_cts(from, head.slot, Cts::from_body(body)),
            wire::DATA => self.handle_data(head.slot, body),
            wire::ACK => self.actions.push(Action::Acked { slot: head.slot }),
            wire::NACK => self.handle_nack(from, head),
            wire::CREDIT => {
                let peer = self.peers.get_mut(from);
                peer.credit_used = peer.credit_used.saturating_sub(head.slot);
            }
            wire::PING => {
                if self.finalizing {
                    let head = RecordHeader { kind: wire::FINALIZING, ..RecordHeader::default() };
                    self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
                }
            }
            wire::ABORT => self.handle_peer_abort(from, head, body),
            wire::FINALIZING => {
                self.liveness.set(from, Liveness::Finalizing, self.peers.size());
                self.peer_finalizing = true;
            }
            _ => self.handle_window_record(from, head, body),
        }
    }

    /// Handles an eager message.
    #[inline]
    fn handle_eager(
        &mut self,
        key: MatchKey,
        call: CallSignature,
        body: &[u8],
        ack_to: AckTo,
        blocking: Option<&mut BlockingRecv<'_>>,
    ) {
        if !self.posted.is_empty() && self.deliver_to_posted(key, call, body) {
            self.complete_eager(key.source, body.len(), ack_to);
            return;
        }
        if let Some(blocking) = blocking
            && blocking.outcome.is_none()
            && blocking.key.matches(key)
        {
            if blocking.call == call && blocking.copy(body) {
                blocking.outcome = Some(RecvOutcome::Received(envelope(key, call, body.len() as u64)));
                self.complete_eager(key.source, body.len(), ack_to);
                return;
            }
            let why = blocking.rejection(self.rank, key, call, body.len() as u64);
            blocking.outcome = Some(RecvOutcome::Rejected(Box::new(why)));
        }
        if is_protocol_message(key) {
            return self.recv_protocol_eager(key, call, body, ack_to);
        }
        let data = self.copy_unexpected(body);
        self.queue_unexpected(key, call, Arrival::Eager { data, ack_to });
    }

    /// Handles a request to send (RTS).
    fn handle_rts(&mut self, key: MatchKey, call: CallSignature, rts: Rts, blocking: Option<&mut BlockingRecv<'_>>) {
        while let Some(op) = self.take_posted_id(key) {
            if self.start_transfer(op, key, call, rts) {
                return;
            }
        }
        if let Some(blocking) = blocking
            && blocking.outcome.is_none()
            && blocking.key.matches(key)
        {
            if blocking.call == call && blocking.make_room(rts.bytes) {
                blocking.outcome = Some(RecvOutcome::Rts(envelope(key, call, rts.bytes), rts));
                return;
            }
            let why = blocking.rejection(self.rank, key, call, rts.bytes);
            blocking.outcome = Some(RecvOutcome::Rejected(Box::new(why)));
        }
        if is_protocol_message(key) {
            return self.recv_protocol_arrival(key, call, Arrival::Rts(rts));
        }
        self.queue_unexpected(key, call, Arrival::Rts(rts));
    }

    /// Handles a clear to send (CTS).
    fn handle_cts(&mut self, from: u32, slot: u32, cts: Cts) {
        let ack = OpId { index: slot, generation: cts.generation };
        // A receiver that needs no help may be done, and the slot reused, before the CTS arrives.
        let Some(&op) = self.pending_acks.get(ack) else { return };
        match cts.descriptor {
            Some(descriptor) => self.actions.push(Action::BulkSend { to: from, slot, op, descriptor }),
            None => {
                self.pending_acks.remove(ack);
                let sending = self.ops.get_mut(op).expect("acknowledged sends exist");
                sending.deregister();
                sending.state = OpState::Streaming;
                self.transfer_times.note(op, || None);
                self.send_queue.push(from, Item::Stream { op, receive: cts.receive, from: 0 });
            }
        }
    }

    /// Handles streamed data of a rendezvous message.
    fn handle_data(&mut self, slot: u32, body: &[u8]) {
        let Some(id) = self.ops.id_at(slot) else { return };
        let op = self.ops.get_mut(id).expect("found");
        let OpState::Transferring(transfer) = &mut op.state else { return };
        let (first, end) = (transfer.got, transfer.got + body.len());
        transfer.got = end;
        let envelope = transfer.envelope;
        op.span.as_mut().expect("a receive has memory").as_mut_slice()[first..end].copy_from_slice(body);
        if end as u64 == envelope.bytes {
            self.complete(id, envelope);
        }
    }

    /// Handles the acknowledgement of a send.
    pub(crate) fn handle_ack(&mut self, slot: u32) {
        if let Some(op) = self.take_pending_ack(slot) {
            self.complete(op, Envelope::default());
        }
    }

    /// Handles a NACK: the send fails.
    fn handle_nack(&mut self, by: u32, head: RecordHeader) {
        if let Some(op) = self.take_pending_ack(head.slot) {
            let reason = AbortReason::decode(u64::from(head.tag) << 32 | u64::from(head.context));
            self.fail(op, reason.to_error(by));
        }
    }
}
