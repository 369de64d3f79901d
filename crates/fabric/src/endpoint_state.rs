//! The state of an endpoint apart from its engine: matching, eager and rendezvous protocols.
//!
//! The body of a record is in the engine's memory while it is handled, so nothing here calls the engine. Handlers queue
//! an [`Action`] instead, which the endpoint runs right after.

use std::collections::{HashMap, VecDeque};

use treepie_base::{BuildNumberHasher, Error, Result, copy_short as copy};

use crate::abort::{AbortReason, Aborts};
use crate::barrier::PendingBarriers;
use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::completion_queue::CompletedOps;
use crate::engine::{BulkDescriptor, BulkError, Liveness, RecordHeader};
use crate::liveness::LivenessTable;
use crate::matching::{AckTo, Arrival, PostedQueue, Rts, UnexpectedMessage, UnexpectedQueue};
use crate::mismatch::MismatchDetector;
use crate::op::{self, Completion, Envelope, OnCompletion, Op, OpState, RendezvousTransfer};
use crate::protocol_queues::{ProtocolQueues, is_protocol_message};
use crate::receive::{BlockingRecv, RecvOutcome};
use crate::send_queue::{Item, SendQueue};
use crate::shared_segment::RecentSegmentOps;
use crate::slab::{OpId, Slab};
use crate::tasks::ReadyTasks;
use crate::window::WindowMemory;
use crate::wire::{self, Body, Cts};

/// A call to the engine, deferred until the record has been handled.
#[derive(Debug)]
pub(crate) enum Action {
    Ack { to: u32, slot: u32 },
    Send { to: u32, head: RecordHeader, body: Body },
    SendLong { to: u32, head: RecordHeader, body: Vec<u8> },
    StartTransfer { op: OpId, from: u32, rts: Rts },
    BulkSend { to: u32, slot: u32, op: OpId, descriptor: BulkDescriptor },
    Arrive { cell: u32, bits: u64 },
    Acked { slot: u32 },
    CheckSegmentClosed,
}

/// Maximum number of buffers of unexpected messages that are kept for reuse.
const MAX_SPARE_BUFFERS: usize = 256;

/// Flow-control state of one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Peer {
    /// Bytes of eager messages to the peer whose credit it has not returned.
    pub(crate) credit_used: u32,
    /// Bytes of received eager messages whose credit this rank has not returned.
    pub(crate) credit_owed: u32,
    /// Number of rendezvous transfers from the peer in progress.
    pub(crate) transfers: u32,
}

/// Maximum number of concurrent rendezvous transfers from one peer. Engines poll each active transfer; deferred ones
/// cost nothing.
const MAX_TRANSFERS_PER_PEER: u32 = 64;

#[inline]
fn envelope(key: MatchKey, call: CallSignature, bytes: u64) -> Envelope {
    Envelope { source: key.source, tag: key.tag, bytes, call }
}

/// The credit cost of an eager message: its bytes, plus its queue entry.
#[inline]
pub(crate) fn credit_cost(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(64)
}

pub(crate) struct EndpointState {
    pub(crate) rank: u32,
    pub(crate) ops: Slab<Op>,
    /// Sends that wait for an acknowledgement; the index is the slot that the peer names.
    pub(crate) pending_acks: Slab<OpId>,
    pub(crate) posted: PostedQueue,
    pub(crate) unexpected: UnexpectedQueue,
    pub(crate) peers: Vec<Peer>,
    /// Spare buffers for unexpected messages.
    spare_buffers: Vec<Vec<u8>>,
    /// Bytes of eager messages from one peer that may be unreceived at another.
    pub(crate) credit_limit: u32,
    pub(crate) send_queue: SendQueue,
    pub(crate) actions: Vec<Action>,
    pub(crate) barriers: PendingBarriers,
    pub(crate) windows: WindowMemory,
    pub(crate) liveness: LivenessTable,
    /// A peer has announced that it finalizes.
    pub(crate) peer_finalizing: bool,
    /// This rank finalizes, and receives nothing more.
    pub(crate) finalizing: bool,
    pub(crate) aborts: Aborts,
    pub(crate) protocol_queues: ProtocolQueues,
    /// By peer, receives beyond [`MAX_TRANSFERS_PER_PEER`], whose transfers have not started.
    deferred_transfers: HashMap<u32, VecDeque<(OpId, Rts)>, BuildNumberHasher>,
    pub(crate) completion_queues: Slab<CompletedOps>,
    pub(crate) ready_tasks: ReadyTasks,
    pub(crate) mismatches: MismatchDetector,
    pub(crate) recent_segment_ops: RecentSegmentOps,
}

impl EndpointState {
    pub(crate) fn new(rank: u32, size: u32) -> Self {
        Self {
            rank,
            ops: Slab::new(),
            pending_acks: Slab::new(),
            posted: PostedQueue::new(),
            unexpected: UnexpectedQueue::new(),
            peers: vec![Peer::default(); size as usize],
            spare_buffers: Vec::with_capacity(MAX_SPARE_BUFFERS),
            // All peers together can make a rank buffer at most 64 MiB, or 64 KiB each if there are many.
            credit_limit: ((64 << 20) / size.max(1)).clamp(64 << 10, 1 << 20),
            send_queue: SendQueue::default(),
            actions: Vec::with_capacity(16),
            barriers: PendingBarriers::default(),
            windows: WindowMemory::default(),
            liveness: LivenessTable::default(),
            peer_finalizing: false,
            finalizing: false,
            aborts: Aborts::default(),
            protocol_queues: ProtocolQueues::default(),
            deferred_transfers: HashMap::default(),
            completion_queues: Slab::new(),
            ready_tasks: ReadyTasks::default(),
            mismatches: MismatchDetector::default(),
            recent_segment_ops: RecentSegmentOps::default(),
        }
    }

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
                let peer = &mut self.peers[from as usize];
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
                self.liveness.set(from, Liveness::Finalizing, self.peers.len() as u32);
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
            blocking.outcome = Some(blocking.rejection(key, call, body.len() as u64));
        }
        if is_protocol_message(key) {
            return self.recv_protocol_eager(key, call, body, ack_to);
        }
        let data = self.copy_unexpected(body);
        self.queue_unexpected(key, call, Arrival::Eager { data, ack_to });
    }

    /// Copies an unexpected message to a buffer.
    pub(crate) fn copy_unexpected(&mut self, body: &[u8]) -> Vec<u8> {
        let mut data = self.spare_buffers.pop().unwrap_or_else(|| Vec::with_capacity(body.len().max(256)));
        data.extend_from_slice(body);
        data
    }

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
            if blocking.call == call && blocking.fits(rts.bytes) {
                blocking.outcome = Some(RecvOutcome::Rts(envelope(key, call, rts.bytes), rts));
                return;
            }
            blocking.outcome = Some(blocking.rejection(key, call, rts.bytes));
        }
        if is_protocol_message(key) {
            return self.recv_protocol_arrival(key, call, Arrival::Rts(rts));
        }
        self.queue_unexpected(key, call, Arrival::Rts(rts));
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

    /// Keeps the buffer of an unexpected message for reuse.
    pub(crate) fn recycle_buffer(&mut self, mut data: Vec<u8>) {
        if self.spare_buffers.len() < MAX_SPARE_BUFFERS && data.capacity() <= 4 << 10 {
            data.clear();
            self.spare_buffers.push(data);
        }
    }

    /// Queues an unexpected message, or rejects it.
    fn queue_unexpected(&mut self, key: MatchKey, call: CallSignature, arrival: Arrival) {
        if let Some(reason) = self.reject_reason(key) {
            return self.reject(key.source, &arrival, reason);
        }
        let order = self.unexpected.next_order();
        self.unexpected.insert(UnexpectedMessage { key, call, order, arrival });
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

    /// Delivers an eager message to a receive; false, and the receive has failed, if it does not fit.
    pub(crate) fn deliver(&mut self, op: OpId, key: MatchKey, call: CallSignature, body: &[u8]) -> bool {
        if !self.fits(op, key, call, body.len() as u64) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        entry.allocate(body.len());
        let span = entry.span.as_mut().expect("a receive has memory");
        copy(&mut span.as_mut_slice()[..body.len()], body);
        self.complete(op, envelope(key, call, body.len() as u64));
        true
    }

    /// Whether a message belongs to the call of a receive, and fits; if not, the receive fails.
    fn fits(&mut self, op: OpId, key: MatchKey, call: CallSignature, bytes: u64) -> bool {
        let receive = self.ops.get(op).expect("posted receives exist");
        let (expected, room) = (receive.call, receive.capacity());
        if expected != call {
            self.fail(op, expected.mismatch_error(self.rank, call, key.source));
        } else if bytes > room {
            self.fail(op, Error::Truncated { got: bytes, room });
        }
        expected == call && bytes <= room
    }

    /// Starts a rendezvous transfer into a receive; false, and the receive has failed, if the message does not fit.
    pub(crate) fn start_transfer(&mut self, op: OpId, key: MatchKey, call: CallSignature, rts: Rts) -> bool {
        if !self.fits(op, key, call, rts.bytes) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        entry.allocate(rts.bytes as usize);
        let envelope = envelope(key, call, rts.bytes);
        entry.state =
            OpState::Transferring(Box::new(RendezvousTransfer { envelope, slot: rts.slot, got: 0, started: false }));
        self.actions.push(Action::StartTransfer { op, from: key.source, rts });
        true
    }

    /// Whether a transfer may start now. If not, it is deferred until earlier ones of that peer have completed.
    pub(crate) fn admit_transfer(&mut self, from: u32, op: OpId, rts: Rts) -> bool {
        let admitted = self.peers[from as usize].transfers < MAX_TRANSFERS_PER_PEER;
        if admitted {
            let Some(OpState::Transferring(transfer)) = self.ops.get_mut(op).map(|op| &mut op.state) else {
                return false;
            };
            transfer.started = true;
            self.peers[from as usize].transfers += 1;
        } else {
            self.deferred_transfers.entry(from).or_default().push_back((op, rts));
        }
        admitted
    }

    /// Releases a completed or failed transfer: a deferred one of that peer may start.
    fn release_transfer(&mut self, from: u32) {
        self.peers[from as usize].transfers -= 1;
        let Some(deferred) = self.deferred_transfers.get_mut(&from) else { return };
        while let Some((op, rts)) = deferred.pop_front() {
            // The receive may have failed meanwhile.
            if self.ops.get(op).is_some_and(|op| matches!(op.state, OpState::Transferring(_))) {
                self.actions.push(Action::StartTransfer { op, from, rts });
                return;
            }
        }
        self.deferred_transfers.remove(&from);
    }

    /// Completes an eager receive: accounts for its credit, and acknowledges a synchronous send.
    #[inline]
    pub(crate) fn complete_eager(&mut self, from: u32, bytes: usize, ack_to: AckTo) {
        let peer = &mut self.peers[from as usize];
        peer.credit_owed = peer.credit_owed.saturating_add(credit_cost(bytes));
        // Credit returns seldom: a quarter of the limit at a time.
        if peer.credit_owed >= self.credit_limit / 4 {
            self.return_credit(from);
        }
        if ack_to != AckTo::Nobody {
            self.acknowledge(from, ack_to);
        }
    }

    #[cold]
    fn return_credit(&mut self, from: u32) {
        let amount = std::mem::take(&mut self.peers[from as usize].credit_owed);
        if from != self.rank {
            let head = RecordHeader { kind: wire::CREDIT, slot: amount, ..RecordHeader::default() };
            self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
        }
    }

    /// Acknowledges a synchronous send.
    fn acknowledge(&mut self, from: u32, ack_to: AckTo) {
        match ack_to {
            AckTo::Nobody => {}
            AckTo::Peer(slot) => self.actions.push(Action::Ack { to: from, slot }),
            AckTo::SelfSend(op) => self.complete(op, Envelope::default()),
        }
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

    pub(crate) fn take_pending_ack(&mut self, slot: u32) -> Option<OpId> {
        let ack = self.pending_acks.id_at(slot)?;
        self.pending_acks.take(ack)
    }

    /// Completes an operation successfully.
    #[inline]
    pub(crate) fn complete(&mut self, id: OpId, envelope: Envelope) {
        self.finish(id, OpState::Done(envelope));
    }

    /// Completes an operation with an error.
    pub(crate) fn fail(&mut self, id: OpId, error: Error) {
        self.finish(id, OpState::Failed(Box::new(error)));
    }

    /// Fails an operation whose bulk transfer the engine has rejected.
    #[cold]
    pub(crate) fn fail_bulk(&mut self, id: OpId, rejected: BulkError, peer: u32) {
        let Some(op) = self.ops.get_mut(id) else { return };
        op.span = Some(rejected.span);
        self.fail(id, rejected.error.unwrap_or(Error::PeerLost { rank: peer as usize }));
    }

    #[inline]
    fn finish(&mut self, id: OpId, state: OpState) {
        if let Some(op) = self.ops.get_mut(id) {
            let before = std::mem::replace(&mut op.state, state);
            if let OpState::AwaitingAck(_) = before {
                // The caller gets memory back that no peer reads any more.
                op.deregister();
            }
            if op.on_completion != OnCompletion::Keep {
                self.notify_completion(id);
            }
            if let OpState::Transferring(transfer) = before
                && transfer.started
            {
                self.release_transfer(transfer.envelope.source);
            }
        }
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

    /// Takes the result of a completed operation.
    pub(crate) fn take_result(&mut self, id: OpId) -> Option<Result<Completion>> {
        self.ops.take_with(id, |op| {
            let span = op.span.take();
            match op.outcome() {
                Some(result) => Some(result.map(|envelope| Completion { envelope, span })),
                None => {
                    op.span = span;
                    None
                }
            }
        })
    }

    /// Takes the result of a completed operation, without its memory.
    #[inline]
    pub(crate) fn take_envelope(&mut self, id: OpId) -> Option<Result<Envelope>> {
        self.ops.take_with(id, |op| op.outcome())
    }

    pub(crate) fn wait_reason(&self, id: OpId) -> Option<op::WaitReason> {
        self.ops.get(id).map(|op| op::WaitReason::Op(op.kind, op.key))
    }
}
