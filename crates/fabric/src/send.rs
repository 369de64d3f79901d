//! Sending.

use std::cell::RefCell;

use treepie_base::{Error, Result, Span, lending};

use crate::bins::Key;
use crate::core::cost;
use crate::endpoint::Endpoint;
use crate::engine::Head;
use crate::kind;
use crate::matching::{Answer, Arrived, Offer, Unexpected};
use crate::op::{Address, Envelope, Op, Started, State};
use crate::outbox::Item;
use crate::slab::Id;

impl Endpoint {
    /// Sends a short message, if that can be done without waiting for anything.
    #[inline]
    pub fn send_now(&mut self, address: Address, data: &[u8]) -> bool {
        let Address { context, to, tag, synchronous, call } = address;
        if synchronous || data.len() > self.eager_limit || to == self.core.rank || !self.core.outbox.is_empty() {
            return false;
        }
        let peer = &mut self.core.peers[to as usize];
        let unreceived = peer.unreceived + cost(data.len());
        let head = Head::of_message(kind::EAGER, context, tag, call, call.size);
        let sent = unreceived <= self.core.credit && self.fabric.try_send(to, head, data);
        if sent {
            peer.unreceived = unreceived;
        }
        sent
    }

    /// Sends and returns when `data` may be used again; a synchronous send when its receive has begun.
    #[inline]
    pub fn send(&mut self, address: Address, data: &[u8]) -> Result<()> {
        if self.send_now(address, data) { Ok(()) } else { self.send_slowly(address, data) }
    }

    #[cold]
    fn send_slowly(&mut self, address: Address, data: &[u8]) -> Result<()> {
        if address.to == self.core.rank && address.synchronous && !self.core.would_take(own_key(address)) {
            return Err(Error::Deadlock { what: "a synchronous send to oneself without a receive" });
        }
        let this = RefCell::new(self);
        lending(
            |lending, _| {
                let mut this = this.borrow_mut();
                match this.start_send(address, lending.lend(data))? {
                    Started::Done(_) => Ok(()),
                    Started::Pending(id) => this.wait(id).map(drop),
                }
            },
            |panicked| this.borrow_mut().settle(panicked),
        )
    }

    /// Begins to send memory that the operation holds until it is over.
    pub fn start_send(&mut self, address: Address, span: Span) -> Result<Started> {
        if self.send_now(address, span.as_slice()) {
            return Ok(Started::Done(span));
        }
        let to = address.to;
        if to != self.core.rank && (self.core.lives.is_lost(to) || !self.fabric.is_here()) {
            return Err(Error::PeerLost { rank: to as usize });
        }
        let op = Op::send(address, span);
        let op = self.owned(op);
        let id = self.core.ops.insert(op);
        if to == self.core.rank {
            self.send_to_self(id, address);
        } else if self.core.outbox.holds_for(to) || !self.dispatch(id) {
            self.core.outbox.push(to, Item::Message(id));
        }
        Ok(Started::Pending(id))
    }

    /// Sends a message or its announcement; false if there is no room.
    pub(crate) fn dispatch(&mut self, id: Id) -> bool {
        let Some(op) = self.core.ops.get_mut(id) else { return true };
        let Address { context, to, tag, synchronous, call } = op.address();
        let Some(span) = &mut op.span else { return true };
        let peer = &mut self.core.peers[to as usize];
        let unreceived = peer.unreceived.saturating_add(cost(span.len()));
        let eager = span.len() <= self.eager_limit && unreceived <= self.core.credit;
        if eager && !synchronous {
            let head = Head::of_message(kind::EAGER, context, tag, call, call.size);
            let sent = self.fabric.try_send(to, head, span.as_slice());
            if sent {
                peer.unreceived = unreceived;
                self.core.complete(id, Envelope::default());
            }
            return sent;
        }
        let answer = self.core.answers.insert(id);
        let sent = if eager {
            // Its place in the record is taken by the answer: only protocols send synchronously, and theirs say no size.
            debug_assert_eq!(call.size, 0);
            let head = Head::of_message(kind::EAGER_SYNC, context, tag, call, answer.index);
            self.fabric.try_send(to, head, span.as_slice())
        } else {
            let place = self.fabric.offer(to, span);
            let (bytes, Id { index: slot, generation }) = (span.len() as u64, answer);
            let offer = Offer { bytes, place, slot, generation, size: call.size };
            let head = Head::of_message(kind::OFFER, context, tag, call, slot);
            let sent = self.fabric.try_send(to, head, offer.to_body().as_slice());
            if !sent {
                // It is offered anew, under another key, when there is room.
                span.deregister();
            }
            sent
        };
        if !sent {
            self.core.answers.remove(answer);
            return false;
        }
        if eager {
            peer.unreceived = unreceived;
        }
        self.core.ops.get_mut(id).expect("found above").state = State::Answering(answer);
        true
    }

    /// A message to oneself: straight into a receive that waits, or kept as a copy.
    fn send_to_self(&mut self, id: Id, address: Address) {
        let key = own_key(address);
        let op = self.core.ops.get_mut(id).expect("just made");
        let span = op.span.take().expect("a send has memory");
        op.state = State::Running;
        let answer = if address.synchronous { Answer::Own(id) } else { Answer::Nobody };
        let mut taken = false;
        while !taken && let Some(receive) = self.core.take_posted_id(key) {
            taken = self.core.fill(receive, key, address.call, span.as_slice());
        }
        if !taken {
            let what = Arrived::Eager { data: span.as_slice().to_vec(), answer };
            let order = self.core.waiting.next_order();
            self.core.waiting.put(Unexpected { key, call: address.call, order, what });
        }
        self.core.ops.get_mut(id).expect("just made").span = Some(span);
        if taken || !address.synchronous {
            self.core.complete(id, Envelope::default());
        }
    }
}

fn own_key(address: Address) -> Key {
    Key { context: address.context, source: address.to, tag: address.tag }
}
