//! Blocking and nonblocking receives.

use std::cell::RefCell;

use treepie_base::{Bytes, Error, Result, borrow_scope, copy_short};

use crate::backoff::Backoff;
use crate::bins::MatchKey;
use crate::blocking_recv::{BlockingRecv, RecvOutcome, no_memory};
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::endpoint_state::EndpointState;
use crate::matching::{AckTo, Arrival, Rts, UnexpectedMessage};
use crate::op::{Envelope, Op, OpKind, OpState, RecvTarget, Select, WaitReason};
use crate::progress::BATCH;
use crate::slab::OpId;
use crate::wire;

/// A message that a matched probe (`mprobe`) removed from the queue: only its holder can receive it.
#[derive(Debug)]
pub struct MatchedUnexpected(pub(crate) UnexpectedMessage);

impl MatchedUnexpected {
    /// Its envelope.
    pub fn envelope(&self) -> Envelope {
        envelope(&self.0)
    }
}

pub(crate) fn envelope(message: &UnexpectedMessage) -> Envelope {
    let UnexpectedMessage { key, call, .. } = message;
    Envelope { source: key.source, tag: key.tag, bytes: message.bytes(), call: *call }
}

impl Endpoint {
    /// Blocking receive into `into`.
    #[inline]
    pub fn recv(&mut self, select: Select, into: &mut [u8]) -> Result<Envelope> {
        self.recv_blocking(&mut BlockingRecv::new(select, into, None))
    }

    /// Blocking receive of a message of any length into newly allocated memory.
    pub fn recv_alloc(&mut self, select: Select, align: usize) -> Result<(Envelope, Bytes)> {
        let mut blocking = BlockingRecv::new(select, &mut [], Some(align));
        let envelope = self.recv_blocking(&mut blocking)?;
        Ok((envelope, blocking.allocated.unwrap_or_else(|| Bytes::zeroed(0, align))))
    }

    #[inline]
    fn recv_blocking(&mut self, blocking: &mut BlockingRecv<'_>) -> Result<Envelope> {
        let (key, call) = (blocking.key, blocking.call);
        if !self.state.unexpected.is_empty()
            && let Some(found) = self.state.unexpected.find(key)
        {
            return self.recv_unexpected(found, blocking);
        }
        let mut backoff = Backoff::default();
        loop {
            let any = self.progress_for(Some(blocking));
            match blocking.outcome.take() {
                Some(RecvOutcome::Received(envelope)) => return Ok(envelope),
                Some(RecvOutcome::Rejected(why)) => return Err(*why),
                Some(RecvOutcome::Rts(envelope, rts)) => {
                    return self.recv_rendezvous(envelope, rts, blocking.memory(rts.bytes));
                }
                None if any => {
                    backoff.reset();
                    // A task may have waited meanwhile; messages queued then must not be overtaken.
                    if std::mem::take(&mut self.recheck_unexpected)
                        && let Some(found) = self.state.unexpected.find(key)
                    {
                        return self.recv_unexpected(found, blocking);
                    }
                    self.check_aborted(key)?;
                }
                None => {
                    self.check_self_deadlock(key)?;
                    self.state.mismatches.set_awaited(key, call);
                    self.backoff(&mut backoff, WaitReason::Op(OpKind::Receive, key));
                    let lost = self.lost_source(key);
                    if lost.is_some() {
                        // Messages that it sent before still count.
                        while self.progress() {}
                    }
                    // The failure check may have queued messages that this receive matches.
                    if let Some(found) = self.state.unexpected.find(key) {
                        return self.recv_unexpected(found, blocking);
                    }
                    self.check_aborted(key)?;
                    self.check_mismatch(key.context, key.tag, call)?;
                    if let Some(lost) = lost {
                        return Err(Error::PeerLost { rank: lost as usize });
                    }
                }
            }
        }
    }

    fn check_aborted(&self, key: MatchKey) -> Result<()> {
        self.state.aborts.peer_abort_error(key).map_or(Ok(()), Err)
    }

    /// Receives an unexpected message that matches.
    #[cold]
    fn recv_unexpected(&mut self, found: OpId, blocking: &mut BlockingRecv<'_>) -> Result<Envelope> {
        let message = self.state.unexpected.get(found);
        let got = message.bytes();
        if message.call != blocking.call || !blocking.make_room(got) {
            return Err(blocking.rejection(self.state.rank, message.key, message.call, got));
        }
        let into = blocking.memory(got);
        let message = self.state.unexpected.take(found);
        self.report_unexpected_bytes();
        self.mrecv(MatchedUnexpected(message), into).map_err(|rejected| self.requeue_rejected(rejected))
    }

    fn requeue_rejected(&mut self, (error, message): (Error, Option<MatchedUnexpected>)) -> Error {
        if let Some(message) = message {
            self.requeue(message);
        }
        error
    }

    /// Receives a matched message. Returns it with the error if it does not fit, or the caller is not this rank.
    pub fn mrecv(
        &mut self,
        message: MatchedUnexpected,
        into: &mut [u8],
    ) -> std::result::Result<Envelope, (Error, Option<MatchedUnexpected>)> {
        let envelope = message.envelope();
        let room = into.len() as u64;
        if envelope.bytes > room {
            return Err((Error::Truncated { got: envelope.bytes, room }, Some(message)));
        }
        if !self.fabric.is_current_rank() {
            return Err((Error::PeerLost { rank: envelope.source as usize }, Some(message)));
        }
        match message.0.arrival {
            Arrival::Eager { data, ack_to } => {
                into[..data.len()].copy_from_slice(&data);
                self.state.complete_eager(envelope.source, data.len(), ack_to);
                self.state.recycle_buffer(data);
                self.run_actions();
                Ok(envelope)
            }
            Arrival::Rts(rts) => self.recv_rendezvous(envelope, rts, into).map_err(|error| (error, None)),
        }
    }

    /// Receives a matched message into newly allocated memory.
    pub fn mrecv_alloc(&mut self, message: MatchedUnexpected, align: usize) -> Result<(Envelope, Bytes)> {
        let envelope = message.envelope();
        let bytes = usize::try_from(envelope.bytes).ok().and_then(|bytes| Bytes::try_zeroed(bytes, align));
        let Some(mut bytes) = bytes else {
            self.requeue(message);
            return Err(no_memory(envelope.bytes));
        };
        self.mrecv(message, bytes.as_mut_slice()).map_err(|rejected| self.requeue_rejected(rejected))?;
        Ok((envelope, bytes))
    }

    #[cold]
    fn recv_rendezvous(&mut self, envelope: Envelope, rts: Rts, into: &mut [u8]) -> Result<Envelope> {
        let this = RefCell::new(self);
        borrow_scope(
            |scope, _| {
                let mut this = this.borrow_mut();
                let span = scope.lend_mut(&mut into[..rts.bytes as usize]);
                let id = this.start_rendezvous(envelope, rts, RecvTarget::Into(span));
                this.wait(id).map(|completion| completion.envelope)
            },
            |panicked| this.borrow_mut().settle(panicked),
        )
    }

    fn new_receive(&mut self, key: MatchKey, call: CallSignature, target: RecvTarget) -> OpId {
        let op = Op::receive(key, call, OpState::Queued, target);
        let op = self.with_current_task(op);
        self.state.ops.insert(op)
    }

    fn start_rendezvous(&mut self, envelope: Envelope, rts: Rts, target: RecvTarget) -> OpId {
        let key = MatchKey { context: 0, source: envelope.source, tag: envelope.tag };
        let id = self.new_receive(key, envelope.call, target);
        self.state.start_transfer(id, key, envelope.call, rts);
        self.run_actions();
        id
    }

    /// Receives an eager message that has arrived, if all older receives have completed. Such a receive needs no
    /// operation, which would be a third of its cost. Consumes only messages that a receive matches: others are better
    /// left in the engine than copied to the unexpected queue.
    #[inline]
    pub fn try_recv(&mut self, select: Select, into: &mut [u8]) -> Option<Envelope> {
        if self.recv_poll_gate.start() {
            self.progress();
        }
        if !self.recv_poll_gate.should_poll() || !self.state.unexpected.is_empty() || !self.tasks.is_empty() {
            return None;
        }
        let mut got = None;
        if self.state.posted.is_empty() || self.serve_posted() {
            let wanted = select.key();
            self.fabric.poll_if(&mut |from, head, body| {
                let (key, call) = (head.key(from), head.call(head.slot));
                let is_match = head.record_kind() == wire::EAGER && wanted.matches(key) && call == select.call;
                let taken = is_match && body.len() <= into.len();
                if taken {
                    copy_short(&mut into[..body.len()], body);
                    got = Some(Envelope { source: from, tag: key.tag, bytes: body.len() as u64, call });
                }
                taken
            });
        }
        let Some(envelope) = got else {
            self.recv_poll_gate.found_nothing();
            return None;
        };
        self.state.complete_eager(envelope.source, envelope.bytes as usize, AckTo::Nobody);
        if !self.state.actions.is_empty() {
            self.run_actions();
        }
        got
    }

    /// Delivers arrived eager messages to posted receives. Returns whether none is left.
    fn serve_posted(&mut self) -> bool {
        for _ in 0..BATCH {
            let state = &mut self.state;
            let served = self.fabric.poll_if(&mut |from, head, body| {
                let call = head.call(head.slot);
                let taken = head.record_kind() == wire::EAGER && state.deliver_to_posted(head.key(from), call, body);
                if taken {
                    state.complete_eager(from, body.len(), AckTo::Nobody);
                }
                taken
            });
            if !self.state.actions.is_empty() {
                self.run_actions();
            }
            if !served || self.state.posted.is_empty() {
                return served;
            }
        }
        false
    }

    /// Starts a nonblocking receive.
    pub fn irecv(&mut self, select: Select, target: RecvTarget) -> OpId {
        let key = select.key();
        if !self.state.unexpected.is_empty()
            && let Some(found) = self.state.unexpected.find(key)
        {
            return self.irecv_unexpected(key, select.call, target, found);
        }
        let EndpointState { ops, posted, .. } = &mut self.state;
        let (in_task, task) = (self.in_task, self.task);
        let id = ops.insert_with(|index| {
            let op = Op::receive(key, select.call, OpState::Posted(posted.post(key, index)), target);
            if in_task { op.owned_by_task(task) } else { op }
        });
        self.state.fail_if_aborted(id, key);
        self.fail_if_source_lost(id);
        if in_task && !self.fabric.is_current_rank() && self.state.unpost(id) {
            // No caller waits for this receive itself.
            self.state.fail(id, Error::PeerLost { rank: self.lost_off_rank(key) as usize });
        }
        id
    }

    #[cold]
    fn irecv_unexpected(&mut self, key: MatchKey, call: CallSignature, target: RecvTarget, found: OpId) -> OpId {
        let id = self.new_receive(key, call, target);
        let message = self.state.unexpected.get(found);
        let (sent, sent_call, bytes) = (message.key, message.call, message.bytes());
        if !self.state.make_room(id, sent, sent_call, bytes) {
            return id;
        }
        if !self.fabric.is_current_rank() {
            self.state.fail(id, Error::PeerLost { rank: self.lost_off_rank(key) as usize });
            return id;
        }
        let message = self.state.unexpected.take(found);
        self.report_unexpected_bytes();
        match message.arrival {
            Arrival::Eager { data, ack_to } => {
                self.state.deliver(id, message.key, call, &data);
                self.state.complete_eager(message.key.source, data.len(), ack_to);
                self.state.recycle_buffer(data);
            }
            Arrival::Rts(rts) => {
                self.state.start_transfer(id, message.key, call, rts);
            }
        }
        self.run_actions();
        id
    }

    /// Requeues a matched message that was not received, in its original order.
    pub fn requeue(&mut self, message: MatchedUnexpected) {
        self.state.requeue(message.0);
        self.run_actions();
    }
}
