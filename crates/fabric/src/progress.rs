//! Progress: engine events, actions queued by record handlers, rendezvous transfers, and the send queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use treepie_base::Error;

use crate::abort::AbortReason;
use crate::blocking_recv::BlockingRecv;
use crate::endpoint::Endpoint;
use crate::endpoint_state::{Action, EndpointState};
use crate::engine::{BulkError, FabricEvent, RecordHeader};
use crate::matching::{Arrival, Rts};
use crate::op::{Envelope, OpState};
use crate::send_queue::Item;
use crate::slab::OpId;
use crate::wire::{self, Body, Cts};

/// Maximum number of events that one progress call handles before the caller rechecks its condition.
pub(crate) const BATCH: usize = 64;

impl Endpoint {
    /// Makes progress: handles pending events. Returns whether there were any.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.progress_for(None)
    }

    #[inline]
    pub(crate) fn progress_for(&mut self, mut blocking: Option<&mut BlockingRecv<'_>>) -> bool {
        let mut any = self.begin_progress();
        let mut is_idle = false;
        for _ in 0..BATCH {
            let Some(event) = self.fabric.poll() else {
                is_idle = true;
                break;
            };
            any = true;
            Self::handle_event(&mut self.state, event, blocking.as_deref_mut());
            if !self.state.actions.is_empty() {
                self.run_actions();
            }
            if blocking.as_ref().is_some_and(|blocking| blocking.outcome.is_some()) {
                break;
            }
        }
        self.end_progress(is_idle);
        any
    }

    /// Flushes the send queue. Returns whether it sent anything, or tasks are ready.
    #[inline]
    pub(crate) fn begin_progress(&mut self) -> bool {
        // A task may wait for a send that this completes.
        self.has_ready_tasks() | (!self.state.send_queue.is_empty() && self.flush_send_queue())
    }

    /// Steps ready tasks. `is_idle`: the engine had no more events.
    #[inline]
    pub(crate) fn end_progress(&mut self, is_idle: bool) {
        self.check_aborts(is_idle);
        if self.has_ready_tasks() {
            self.step_tasks();
        }
        self.report_unexpected_bytes();
    }

    #[inline]
    pub(crate) fn handle_event(
        state: &mut EndpointState,
        event: FabricEvent<'_>,
        blocking: Option<&mut BlockingRecv<'_>>,
    ) {
        if let FabricEvent::Record { from, head, body } = event {
            state.handle_record(from, head, body, blocking);
        } else {
            Self::handle_engine_event(state, event);
        }
    }

    /// Reports the number of buffered unexpected bytes to the engine if it has changed.
    #[inline]
    pub(crate) fn report_unexpected_bytes(&mut self) {
        let bytes = self.state.unexpected.buffered_bytes() + self.state.protocol_queues.buffered_bytes();
        if bytes != self.reported_unexpected_bytes {
            self.reported_unexpected_bytes = bytes;
            self.fabric.report_unexpected_bytes(bytes);
        }
    }

    /// Handles all pending events. Does not step tasks, since a task may call this.
    pub fn drain(&mut self) {
        while let Some(event) = self.fabric.poll() {
            Self::handle_event(&mut self.state, event, None);
            if !self.state.actions.is_empty() {
                self.run_actions();
            }
        }
    }

    pub(crate) fn handle_engine_event(state: &mut EndpointState, event: FabricEvent<'_>) {
        match event {
            FabricEvent::Record { .. } => unreachable!("handled by the caller"),
            FabricEvent::Acked { slot } => state.handle_ack(slot),
            FabricEvent::BulkReceived { slot, span, tell_sender } => {
                let Some(id) = state.ops.id_at(slot) else { return };
                let op = state.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let OpState::Transferring(transfer) = &op.state else { return };
                let (envelope, slot) = (transfer.envelope, transfer.slot);
                if tell_sender {
                    state.actions.push(Action::Ack { to: envelope.source, slot });
                }
                state.complete(id, envelope);
            }
            FabricEvent::BulkSent { slot, span } => {
                if let Some(op) = state.take_pending_ack(slot) {
                    state.ops.get_mut(op).expect("acknowledged sends exist").span = Some(span);
                    state.complete(op, Envelope::default());
                }
            }
            FabricEvent::BulkFailed { slot, span, sending } => {
                let id = if sending { state.take_pending_ack(slot) } else { state.ops.id_at(slot) };
                let Some(id) = id else { return };
                let op = state.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let rank = match &op.state {
                    _ if sending => op.key.source,
                    OpState::Transferring(transfer) => transfer.envelope.source,
                    _ => return,
                };
                state.fail(id, Error::PeerLost { rank: rank as usize });
            }
            FabricEvent::BarrierCompleted { cell, bits } => state.complete_barrier(cell, bits),
        }
    }

    /// Runs the actions that record handlers have queued.
    #[cold]
    pub(crate) fn run_actions(&mut self) {
        while let Some(action) = self.state.actions.pop() {
            match action {
                Action::Ack { to, slot } => {
                    if !self.fabric.ack(to, slot) {
                        self.send_control(
                            to,
                            RecordHeader { kind: wire::ACK, slot, ..RecordHeader::default() },
                            Body::EMPTY,
                        );
                    }
                }
                Action::Send { to, head, body } => self.send_control(to, head, body),
                Action::SendLong { to, head, body } => {
                    if self.state.send_queue.has_queued(to) || !self.fabric.try_send(to, head, &body) {
                        self.state.send_queue.push(to, Item::Long(head, body));
                    }
                }
                Action::StartTransfer { op, from, rts } => self.begin_transfer(op, from, rts),
                Action::BulkSend { to, slot, op, descriptor } => {
                    self.state.transfer_times.note(op, || Some(self.fabric.now()));
                    let span = self.state.ops.get_mut(op).and_then(|op| op.span.take());
                    if let Some(span) = span
                        && let Err(rejected) = self.fabric.bulk_send(to, slot, descriptor, span)
                    {
                        self.state.take_pending_ack(slot);
                        self.state.fail_bulk(op, rejected, to);
                    }
                }
                Action::Acked { slot } => {
                    let op = self.state.pending_acks.at(slot).and_then(|op| self.state.ops.get_mut(*op));
                    if let Some(op) = op
                        && op.span.is_none()
                    {
                        op.span = self.fabric.finish_bulk_send(slot);
                    }
                    self.state.handle_ack(slot);
                }
                Action::Arrive { cell, bits } => {
                    self.fabric.arrive(cell, bits);
                }
                Action::CheckSegmentClosed => self.check_segment_closed(),
            }
        }
    }

    /// Sends a control record, now or when there is room.
    pub(crate) fn send_control(&mut self, to: u32, head: RecordHeader, body: Body) {
        if self.state.send_queue.has_queued(to) || !self.fabric.try_send(to, head, body.as_slice()) {
            self.state.send_queue.push(to, Item::Short(head, body));
        }
    }

    /// Starts a rendezvous transfer: a bulk transfer if the engine supports it, otherwise streamed records.
    fn begin_transfer(&mut self, id: OpId, from: u32, rts: Rts) {
        if !self.state.admit_transfer(from, id, rts) {
            return;
        }
        let Some(op) = self.state.ops.get_mut(id) else { return };
        let span = op.span.take().expect("a receive has memory").truncated(rts.bytes as usize);
        // Engines write to the address unchecked.
        assert!(span.is_writable(), "a receive buffer must be writable");
        let descriptor = match self.fabric.bulk_recv(from, rts.rkey, id.index, span) {
            Ok(None) => return,
            Ok(descriptor) => descriptor,
            Err(BulkError { span, error: None }) => {
                self.state.ops.get_mut(id).expect("found above").span = Some(span);
                None
            }
            Err(rejected) => {
                self.state.reject(from, &Arrival::Rts(rts), AbortReason::Unspecified);
                return self.state.fail_bulk(id, rejected, from);
            }
        };
        let cts = Cts { generation: rts.generation, receive: id.index, descriptor };
        self.send_control(
            from,
            RecordHeader { kind: wire::CTS, slot: rts.slot, ..RecordHeader::default() },
            cts.to_body(),
        );
    }

    /// Sends queued records as far as there is room, in the order in which they were queued: where engines share room
    /// between destinations, none waits until all records to another have left. Returns whether it sent any.
    #[cold]
    pub(crate) fn flush_send_queue(&mut self) -> bool {
        let mut any = false;
        // The destinations that may have room, by their first records.
        let mut open: BinaryHeap<_> = self.state.send_queue.first_records().map(Reverse).collect();
        while let Some(Reverse((_, to))) = open.pop() {
            let Some((number, item)) = self.state.send_queue.pop(to) else { continue };
            let left = match item {
                Item::Short(head, body) => {
                    (!self.fabric.try_send(to, head, body.as_slice())).then_some(Item::Short(head, body))
                }
                Item::Long(head, body) => (!self.fabric.try_send(to, head, &body)).then_some(Item::Long(head, body)),
                Item::Message(op) => (!self.dispatch(op)).then_some(Item::Message(op)),
                Item::Stream { op, receive, from } => match self.stream_data(to, op, receive, from) {
                    Some((item, true)) => {
                        // Data records have no order among messages: let others pass between two of them.
                        self.state.send_queue.push(to, item);
                        None
                    }
                    left => left.map(|(item, _)| item),
                },
            };
            match left {
                Some(item) => self.state.send_queue.put_back(to, (number, item)),
                None => {
                    any = true;
                    open.extend(self.state.send_queue.first_or_remove(to).map(|first| Reverse((first, to))));
                }
            }
        }
        any
    }

    /// Sends the next data record of a streamed message. Returns the rest, and whether this record was sent.
    fn stream_data(&mut self, to: u32, id: OpId, receive: u32, from: usize) -> Option<(Item, bool)> {
        let data = self.state.ops.get(id)?.span.as_ref()?.as_slice();
        let end = data.len().min(from + self.fabric.max_body());
        let head = RecordHeader { kind: wire::DATA, slot: receive, ..RecordHeader::default() };
        if !self.fabric.try_send(to, head, &data[from..end]) {
            return Some((Item::Stream { op: id, receive, from }, false));
        }
        if end == data.len() {
            self.state.complete(id, Envelope::default());
            return None;
        }
        Some((Item::Stream { op: id, receive, from: end }, true))
    }
}
