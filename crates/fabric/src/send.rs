//! Sending.

use std::cell::RefCell;

use treepie_base::{Error, Result, Span, borrow_scope};

use crate::bins::MatchKey;
use crate::endpoint::Endpoint;
use crate::endpoint_state::credit_cost;
use crate::engine::RecordHeader;
use crate::matching::{AckTo, Arrival, Rts, UnexpectedMessage};
use crate::op::{Address, Envelope, Op, OpState, Started};
use crate::send_queue::Item;
use crate::slab::OpId;
use crate::wire;

impl Endpoint {
    /// Sends an eager message, if that needs no waiting.
    #[inline]
    pub fn try_send(&mut self, address: Address, data: &[u8]) -> bool {
        let Address { context, to, tag, synchronous, call } = address;
        if synchronous || data.len() > self.eager_limit || to == self.state.rank || !self.state.send_queue.is_empty() {
            return false;
        }
        let peer = self.state.peers.get_mut(to);
        let credit_used = peer.credit_used + credit_cost(data.len());
        let head = RecordHeader::for_message(wire::EAGER, context, tag, call, call.size);
        let sent = credit_used <= self.state.credit_limit && self.fabric.try_send(to, head, data);
        if sent {
            peer.credit_used = credit_used;
        }
        sent
    }

    /// Blocking send: returns when `data` may be reused; a synchronous send, when a matching receive has started.
    #[inline]
    pub fn send(&mut self, address: Address, data: &[u8]) -> Result<()> {
        if self.try_send(address, data) { Ok(()) } else { self.send_slow(address, data) }
    }

    #[cold]
    fn send_slow(&mut self, address: Address, data: &[u8]) -> Result<()> {
        if address.to == self.state.rank && address.synchronous && !self.state.has_posted_match(self_key(address)) {
            return Err(Error::Deadlock { what: "a synchronous send to this rank without a matching receive" });
        }
        let this = RefCell::new(self);
        borrow_scope(
            |scope, _| {
                let mut this = this.borrow_mut();
                match this.isend(address, scope.lend(data))? {
                    Started::Done(_) => Ok(()),
                    Started::Pending(id) => this.wait(id).map(drop),
                }
            },
            |panicked| this.borrow_mut().settle(panicked),
        )
    }

    /// Starts a nonblocking send, which owns the memory until it completes.
    pub fn isend(&mut self, address: Address, span: Span) -> Result<Started> {
        if self.try_send(address, span.as_slice()) {
            return Ok(Started::Done(span));
        }
        let to = address.to;
        if to != self.state.rank && (self.state.liveness.is_lost(to) || !self.fabric.is_current_rank()) {
            return Err(Error::PeerLost { rank: to as usize });
        }
        let op = Op::send(address, span);
        let op = self.with_current_task(op);
        let id = self.state.ops.insert(op);
        if to == self.state.rank {
            self.send_to_self(id, address);
        } else if self.state.send_queue.has_queued(to) || !self.dispatch(id) {
            self.state.send_queue.push(to, Item::Message(id));
        }
        Ok(Started::Pending(id))
    }

    /// Sends an eager message or an RTS; false if there is no room.
    pub(crate) fn dispatch(&mut self, id: OpId) -> bool {
        let Some(op) = self.state.ops.get_mut(id) else { return true };
        let Address { context, to, tag, synchronous, call } = op.address();
        let Some(span) = &mut op.span else { return true };
        let peer = self.state.peers.get_mut(to);
        let credit_used = peer.credit_used.saturating_add(credit_cost(span.len()));
        let eager = span.len() <= self.eager_limit && credit_used <= self.state.credit_limit;
        if eager && !synchronous {
            let head = RecordHeader::for_message(wire::EAGER, context, tag, call, call.size);
            let sent = self.fabric.try_send(to, head, span.as_slice());
            if sent {
                peer.credit_used = credit_used;
                self.state.complete(id, Envelope::default());
            }
            return sent;
        }
        let ack = self.state.pending_acks.insert(id);
        let sent = if eager {
            // The ack slot replaces the call size in the header: only protocols send synchronously, without a size.
            debug_assert_eq!(call.size, 0);
            let head = RecordHeader::for_message(wire::EAGER_SYNC, context, tag, call, ack.index);
            self.fabric.try_send(to, head, span.as_slice())
        } else {
            let rkey = self.fabric.register_bulk(to, span);
            let (bytes, OpId { index: slot, generation }) = (span.len() as u64, ack);
            let rts = Rts { bytes, rkey, slot, generation, call_size: call.size };
            let head = RecordHeader::for_message(wire::RTS, context, tag, call, slot);
            let sent = self.fabric.try_send(to, head, rts.to_body().as_slice());
            if !sent {
                // When there is room, it is registered again under another key.
                span.deregister();
            }
            sent
        };
        if !sent {
            self.state.pending_acks.remove(ack);
            return false;
        }
        if eager {
            peer.credit_used = credit_used;
        }
        self.state.ops.get_mut(id).expect("found above").state = OpState::AwaitingAck(ack);
        true
    }

    /// Sends a message to this rank: delivers it to a posted receive, or queues a copy as unexpected.
    fn send_to_self(&mut self, id: OpId, address: Address) {
        let key = self_key(address);
        let op = self.state.ops.get_mut(id).expect("just inserted");
        let span = op.span.take().expect("a send has memory");
        op.state = OpState::Running;
        let ack_to = if address.synchronous { AckTo::SelfSend(id) } else { AckTo::Nobody };
        let mut delivered = false;
        while !delivered && let Some(receive) = self.state.take_posted_id(key) {
            delivered = self.state.deliver(receive, key, address.call, span.as_slice());
        }
        if !delivered {
            let arrival = Arrival::Eager { data: span.as_slice().to_vec(), ack_to };
            let order = self.state.unexpected.next_order();
            self.state.unexpected.insert(UnexpectedMessage { key, call: address.call, order, arrival });
        }
        self.state.ops.get_mut(id).expect("just inserted").span = Some(span);
        if delivered || !address.synchronous {
            self.state.complete(id, Envelope::default());
        }
    }
}

fn self_key(address: Address) -> MatchKey {
    MatchKey { context: address.context, source: address.to, tag: address.tag }
}
