//! How messages of protocols get into their queues and out of them.

use treepie_base::{Bytes, Result, Span};

use super::{ProtocolInstance, ProtocolMessage, ProtocolPayload, SUBTAG_BITS};
use crate::abort::AbortReason;
use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::endpoint_state::EndpointState;
use crate::engine::{FabricEvent, RecordHeader};
use crate::matching::{AckTo, Arrival};
use crate::op::{Envelope, OnCompletion, Op, OpState, RecvTarget};
use crate::wire::{EAGER, EAGER_SYNC};

impl EndpointState {
    /// Whether a record is an eager message of an instance whose queue is empty. No receive matches such messages.
    #[inline]
    fn is_deliverable_in_place(&self, instance: ProtocolInstance, head: RecordHeader) -> bool {
        matches!(head.record_kind(), EAGER | EAGER_SYNC)
            && head.context == instance.context
            && head.full_tag() >> SUBTAG_BITS == instance.tag >> SUBTAG_BITS
            && self.protocol_queues.find(instance).is_some_and(|index| self.protocol_queues.queues[index].is_empty())
    }

    /// Handles an eager message of a protocol.
    pub(crate) fn recv_protocol_eager(&mut self, key: MatchKey, call: CallSignature, body: &[u8], ack_to: AckTo) {
        let queue = self.protocol_queues.find_mut(ProtocolInstance::from_key(key));
        let Some((queue, align)) = queue.and_then(|queue| queue.align.map(|align| (queue, align))) else {
            let data = self.copy_unexpected(body);
            return self.recv_protocol_arrival(key, call, Arrival::Eager { data, ack_to });
        };
        let envelope = Envelope { source: key.source, tag: key.tag, bytes: body.len() as u64, call };
        let is_ready =
            queue.push(ProtocolMessage { envelope, payload: ProtocolPayload::Whole(Bytes::copy_of(body, align)) });
        if is_ready && let Some(task) = queue.task {
            self.ready_tasks.mark(task);
        }
        self.protocol_queues.buffered_bytes += body.len() as u64;
        self.complete_eager(key.source, body.len(), ack_to);
    }

    /// Queues a message of a protocol, eager or RTS, or rejects it.
    pub(crate) fn recv_protocol_arrival(&mut self, key: MatchKey, call: CallSignature, arrival: Arrival) {
        if let Some(reason) = self.reject_reason(key) {
            return self.reject(key.source, &arrival, reason);
        }
        let instance = ProtocolInstance::from_key(key);
        let envelope = Envelope { source: key.source, tag: key.tag, bytes: arrival.bytes(), call };
        let queue = self.protocol_queues.find_or_insert(instance);
        let Some(align) = queue.align else {
            let bytes = arrival.buffered_bytes();
            queue.unexpected.push_back((envelope, arrival));
            self.protocol_queues.buffered_bytes += bytes;
            return;
        };
        self.queue_protocol(instance, envelope, arrival, align);
    }

    /// Accepts a message of an open instance.
    fn queue_protocol(&mut self, instance: ProtocolInstance, envelope: Envelope, arrival: Arrival, align: usize) {
        let message = ProtocolMessage { envelope, payload: self.accept_protocol(instance, envelope, arrival, align) };
        self.protocol_queues.buffered_bytes += message.buffered_bytes();
        let is_ready = message.is_ready(&self.ops);
        let queue = self.protocol_queues.find_or_insert(instance);
        if !queue.push(message) {
            // A transfer that has failed already completes no more.
            if is_ready {
                self.unblock_protocol(instance, envelope.source);
            }
        } else if let Some(task) = queue.task {
            self.ready_tasks.mark(task);
        }
    }

    fn accept_protocol(
        &mut self,
        instance: ProtocolInstance,
        envelope: Envelope,
        arrival: Arrival,
        align: usize,
    ) -> ProtocolPayload {
        match arrival {
            Arrival::Eager { data, ack_to } => {
                self.complete_eager(envelope.source, data.len(), ack_to);
                let whole = Bytes::copy_of(&data, align);
                self.recycle_buffer(data);
                ProtocolPayload::Whole(whole)
            }
            Arrival::Rts(rts) => {
                let key = MatchKey { context: instance.context, source: envelope.source, tag: envelope.tag };
                let op = Op::receive(key, envelope.call, OpState::Queued, RecvTarget::Allocate { align });
                let id = self.ops.insert(Op { on_completion: OnCompletion::Protocol, ..op.owned_by_task(None) });
                if !self.start_transfer(id, key, envelope.call, rts) {
                    // There is no memory for it. Its sender may wait for nothing else.
                    self.reject(envelope.source, &Arrival::Rts(rts), AbortReason::Unspecified);
                }
                ProtocolPayload::Transferring(id)
            }
        }
    }

    /// Unblocks messages of a source after a transfer has completed or failed.
    pub(crate) fn unblock_protocol(&mut self, instance: ProtocolInstance, source: u32) {
        let EndpointState { protocol_queues, ops, ready_tasks, .. } = self;
        let Some(queue) = protocol_queues.find_mut(instance) else { return };
        if queue.unblock(source, ops)
            && let Some(task) = queue.task
        {
            ready_tasks.mark(task);
        }
    }
}

impl Endpoint {
    /// Opens an instance: accepts its unexpected and its future messages, in memory with this alignment.
    pub fn open_protocol(&mut self, instance: ProtocolInstance, align: usize) {
        let task = self.task;
        let queue = self.state.protocol_queues.find_or_insert(instance);
        (queue.align, queue.task) = (Some(align), task);
        for (envelope, arrival) in std::mem::take(&mut queue.unexpected) {
            self.state.protocol_queues.buffered_bytes -= arrival.buffered_bytes();
            self.state.queue_protocol(instance, envelope, arrival, align);
        }
        self.run_actions();
    }

    /// The next ready message of an instance. Messages of one source are delivered in order.
    pub fn recv_protocol(&mut self, instance: ProtocolInstance) -> Option<Result<(Envelope, Bytes)>> {
        let message = self.state.protocol_queues.find_mut(instance)?.ready.pop_front()?;
        self.state.protocol_queues.buffered_bytes -= message.buffered_bytes();
        self.report_unexpected_bytes();
        let ProtocolMessage { envelope, payload } = message;
        match payload {
            ProtocolPayload::Whole(bytes) => Some(Ok((envelope, bytes))),
            ProtocolPayload::Transferring(id) => {
                let completion = self.state.take_result(id).expect("it is over");
                let bytes = |span: Option<Span>| span.and_then(Span::into_bytes).expect("allocated for it");
                Some(completion.map(|completion| (envelope, bytes(completion.span))))
            }
        }
    }

    /// Makes progress, with at most `most` events. Passes eager messages of an instance to `take` without a copy; those
    /// that must not overtake others are queued. Returns whether there were any events.
    ///
    /// Nothing can be sent while the engine's memory is borrowed, so `take` only records what it wants to send.
    #[inline]
    pub fn recv_protocol_in_place(
        &mut self,
        instance: ProtocolInstance,
        most: usize,
        mut take: impl FnMut(Envelope, &[u8]),
    ) -> bool {
        let mut any = self.begin_progress();
        let mut is_idle = false;
        for _ in 0..most {
            let Some(event) = self.fabric.poll() else {
                is_idle = true;
                break;
            };
            any = true;
            match event {
                FabricEvent::Record { from, head, body } if self.state.is_deliverable_in_place(instance, head) => {
                    let (ack_to, call) = match head.record_kind() {
                        EAGER => (AckTo::Nobody, head.call(head.slot)),
                        _ => (AckTo::Peer(head.slot), head.call(0)),
                    };
                    take(Envelope { source: from, tag: head.full_tag(), bytes: body.len() as u64, call }, body);
                    self.state.complete_eager(from, body.len(), ack_to);
                }
                event => Self::handle_event(&mut self.state, event, None),
            }
            if !self.state.actions.is_empty() {
                self.run_actions();
            }
        }
        self.end_progress(is_idle);
        any
    }

    /// Whether an instance has undelivered messages, including those in transfer.
    pub fn has_protocol_messages(&self, instance: ProtocolInstance) -> bool {
        self.state
            .protocol_queues
            .find(instance)
            .is_some_and(|index| !self.state.protocol_queues.queues[index].is_empty())
    }

    /// Closes an instance and discards its messages.
    pub fn close_protocol(&mut self, instance: ProtocolInstance) {
        let Some(queue) = self.state.protocol_queues.remove(instance) else { return };
        for message in queue.ready.into_iter().chain(queue.blocked.into_values().flatten()) {
            self.state.protocol_queues.buffered_bytes -= message.buffered_bytes();
            if let ProtocolPayload::Transferring(id) = message.payload {
                self.abandon(id);
            }
        }
        for (envelope, arrival) in queue.unexpected {
            self.state.protocol_queues.buffered_bytes -= arrival.buffered_bytes();
            let key = MatchKey { context: instance.context, source: envelope.source, tag: envelope.tag };
            let reason = self.state.aborts.local_reason(key).unwrap_or_default();
            self.state.reject(envelope.source, &arrival, reason);
        }
        self.report_unexpected_bytes();
        self.run_actions();
    }
}
