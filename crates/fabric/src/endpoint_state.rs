//! The state of an endpoint apart from its engine: matching, eager and rendezvous protocols.
//!
//! The body of a record is in the engine's memory while it is handled, so nothing here calls the engine. Handlers queue
//! an [`Action`] instead, which the endpoint runs right after.

mod delivery;
mod records;
mod transfers;

use std::collections::{HashMap, VecDeque};

use treepie_base::{BuildNumberHasher, Error, Result};

use crate::abort::Aborts;
use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::engine::{BulkDescriptor, BulkError, RecordHeader};
use crate::liveness_table::LivenessTable;
use crate::matching::{AckTo, PostedQueue, Rts, UnexpectedQueue};
use crate::mismatch::MismatchDetector;
use crate::op::{self, Completion, Envelope, OnCompletion, Op, OpState};
use crate::peers::Peers;
use crate::protocol_queues::ProtocolQueues;
use crate::ready_tasks::ReadyTasks;
use crate::send_queue::SendQueue;
use crate::shared_segment::RecentSegmentOps;
use crate::slab::{OpId, Slab};
use crate::transfer_times::TransferTimes;
use crate::window::WindowMemory;
use crate::wire::{self, Body};

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

#[inline]
fn envelope(key: MatchKey, call: CallSignature, bytes: u64) -> Envelope {
    Envelope { source: key.source, tag: key.tag, bytes, call }
}

/// The credit cost of an eager message: its bytes, plus its queue entry.
#[inline]
pub(crate) fn credit_cost(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(64)
}

/// Pending barriers by cell. This rank has arrived at the first of each queue.
pub(crate) type PendingBarriers = HashMap<u32, VecDeque<PendingBarrier>, BuildNumberHasher>;

/// A barrier in progress, or queued behind one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingBarrier {
    pub(crate) op: OpId,
    /// The bits that this rank contributes.
    pub(crate) bits: u64,
    /// While the result has none of these bits, this rank arrives again and contributes them. 0: never.
    pub(crate) repeat_until: u64,
}

/// Completed operations in order of completion, each with its token.
pub(crate) struct CompletedOps {
    pub(crate) operations: VecDeque<(OpId, u32)>,
    /// The task that created the queue.
    pub(crate) task: Option<u32>,
}

pub(crate) struct EndpointState {
    pub(crate) rank: u32,
    pub(crate) ops: Slab<Op>,
    /// Sends that wait for an acknowledgement; the index is the slot that the peer names.
    pub(crate) pending_acks: Slab<OpId>,
    pub(crate) posted: PostedQueue,
    pub(crate) unexpected: UnexpectedQueue,
    pub(crate) peers: Peers,
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
    pub(crate) transfer_times: TransferTimes,
    pub(crate) protocol_queues: ProtocolQueues,
    /// By peer, receives beyond the maximum number of transfers, whose transfers have not started.
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
            peers: Peers::new(size),
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
            transfer_times: TransferTimes::default(),
            protocol_queues: ProtocolQueues::default(),
            deferred_transfers: HashMap::default(),
            completion_queues: Slab::new(),
            ready_tasks: ReadyTasks::default(),
            mismatches: MismatchDetector::default(),
            recent_segment_ops: RecentSegmentOps::default(),
        }
    }

    /// Copies an unexpected message to a buffer.
    pub(crate) fn copy_unexpected(&mut self, body: &[u8]) -> Vec<u8> {
        let mut data = self.spare_buffers.pop().unwrap_or_else(|| Vec::with_capacity(body.len().max(256)));
        data.extend_from_slice(body);
        data
    }

    /// Keeps the buffer of an unexpected message for reuse.
    pub(crate) fn recycle_buffer(&mut self, mut data: Vec<u8>) {
        if self.spare_buffers.len() < MAX_SPARE_BUFFERS && data.capacity() <= 4 << 10 {
            data.clear();
            self.spare_buffers.push(data);
        }
    }

    /// Completes an eager receive: accounts for its credit, and acknowledges a synchronous send.
    #[inline]
    pub(crate) fn complete_eager(&mut self, from: u32, bytes: usize, ack_to: AckTo) {
        let peer = self.peers.get_mut(from);
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
        let amount = std::mem::take(&mut self.peers.get_mut(from).credit_owed);
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
