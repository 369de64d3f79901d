//! What ranks have given up: messages that nobody here will receive, and messages that a peer will not send.
//!
//! A collective operation that fails on one rank must not leave others waiting. Whoever still sends to that rank is
//! refused, and whoever waits for its messages is told. Both are known by bits of the tag, which are used again after a
//! while; so entries are forgotten in time ([`Endpoint::forget_given_up`]).

use std::collections::VecDeque;

use treepie_base::Error;

use crate::bins::{ANY, Key};
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::engine::Head;
use crate::heard::{PROTOCOL, Run};
use crate::kind::{self, Body};
use crate::op::State;
use crate::slab::Id;

/// So many are remembered: of this rank, and of each peer. As many as bits of tags last until they are forgotten: a rank may
/// give up one operation after the other while a peer is still in the first of them.
const MOST: usize = 2048;

/// All messages of a context whose tags have these bits.
#[derive(Clone, Copy)]
struct Messages {
    context: u32,
    mask: u32,
    bits: u32,
    /// The rank that was lost, if that is why.
    lost: Option<u32>,
}

impl Messages {
    fn include(&self, key: Key) -> bool {
        key.context == self.context && key.tag != ANY && key.tag & self.mask == self.bits
    }
}

/// What was given up, the latest of it.
#[derive(Default)]
pub(crate) struct GivenUp {
    /// What nobody here will receive.
    here: VecDeque<Messages>,
    /// What these peers will not send.
    by_peers: VecDeque<(u32, Messages)>,
}

impl GivenUp {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.by_peers.is_empty()
    }

    /// Whether this message will not be received.
    #[inline]
    pub(crate) fn is_unwanted(&self, message: Key) -> bool {
        !self.here.is_empty() && self.here.iter().any(|given_up| given_up.include(message))
    }

    /// Whether the source of such messages has given them up.
    #[inline]
    pub(crate) fn will_not_come(&self, receive: Key) -> bool {
        !self.by_peers.is_empty()
            && self.by_peers.iter().any(|(by, what)| *by == receive.source && what.include(receive))
    }
}

impl Core {
    /// A peer has given up messages: receives that wait for them fail. What it had sent before has come before.
    pub(crate) fn peer_gave_up(&mut self, by: u32, head: Head, body: &[u8]) {
        let lost = body.try_into().ok().map(u32::from_le_bytes);
        let what = Messages { context: head.context, mask: head.slot, bits: head.tag, lost };
        let known = &mut self.given_up.by_peers;
        if known.iter().filter(|(peer, _)| *peer == by).count() >= MOST {
            let oldest = known.iter().position(|(peer, _)| *peer == by).expect("there are some");
            known.remove(oldest);
        }
        known.push_back((by, what));
        let waits = |key: Key| key.source == by && what.include(key);
        let hopeless = self.ops.iter().filter(|(_, op)| matches!(op.state, State::Posted(_)) && waits(op.key));
        for id in hopeless.map(|(id, _)| id).collect::<Vec<_>>() {
            self.fail_given_up(id, by);
        }
    }

    fn fail_given_up(&mut self, id: Id, by: u32) {
        self.unpost(id);
        self.fail(id, Error::GaveUp { rank: by as usize });
    }

    /// Fails a receive that was just begun if its source has given up what it waits for.
    #[inline]
    pub(crate) fn fail_if_given_up(&mut self, id: Id, key: Key) {
        if self.given_up.will_not_come(key) {
            self.fail_given_up(id, key.source);
        }
    }
}

impl Endpoint {
    /// Why nothing more comes of a run of a protocol: the first rank that was lost, as those of `needs` say who have given it
    /// up, or else the first of them.
    pub fn given_up_by(&self, run: Run, needs: impl Fn(u32) -> bool) -> Option<Error> {
        let any = Key { context: run.context, source: ANY, tag: run.tag };
        let by = self.core.given_up.by_peers.iter().filter(|(by, what)| what.include(any) && needs(*by));
        let (lost, given_up): (Vec<_>, Vec<_>) = by.partition(|(_, what)| what.lost.is_some());
        let lost = lost.into_iter().filter_map(|(_, what)| what.lost).min();
        let lost = lost.map(|rank| Error::PeerLost { rank: rank as usize });
        lost.or_else(|| given_up.into_iter().map(|(by, _)| by).min().map(|by| Error::GaveUp { rank: by as usize }))
    }

    /// Gives up all messages of a context whose tags have these bits under the mask: those that are there, and those
    /// that will come, are thrown away, and senders that wait are told.
    pub fn give_up_messages(&mut self, context: u32, mask: u32, bits: u32) {
        let given_up = Messages { context, mask, bits, lost: None };
        for id in self.core.waiting.select(|message| given_up.include(message.key)) {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what);
        }
        let here = &mut self.core.given_up.here;
        if here.len() == MOST {
            here.pop_front();
        }
        here.push_back(given_up);
        self.act();
    }

    /// Tells ranks that this one will send none of these messages any more: receives of theirs that wait for one fail
    /// with [`Error::GaveUp`]. What was sent before is received before.
    pub fn tell_gave_up(&mut self, context: u32, mask: u32, bits: u32, to: impl Iterator<Item = u32>) {
        self.tell_why_gave_up(context, mask, bits, None, to);
    }

    /// The same, and which rank was lost, if that is why.
    pub fn tell_why_gave_up(
        &mut self,
        context: u32,
        mask: u32,
        bits: u32,
        lost: Option<u32>,
        to: impl Iterator<Item = u32>,
    ) {
        let head = Head { kind: kind::GAVE_UP, context, tag: bits, slot: mask };
        let body = lost.map_or(Body::EMPTY, Body::of_number);
        for rank in to {
            if rank != self.core.rank && !self.core.lives.is_lost(rank) {
                self.send_short(rank, head, body);
            }
        }
    }

    /// Forgets what was given up under bits that are to be used again. `next` are those that are used now, `far` those
    /// that are as far from now as possible: late messages of their last use have come by now, and nobody has begun
    /// their next one.
    #[inline]
    pub fn forget_given_up(&mut self, context: u32, next: u32, far: u32) {
        if !self.core.given_up.is_empty() {
            self.forget_given_up_now(context, next, far);
        }
    }

    #[cold]
    fn forget_given_up_now(&mut self, context: u32, next: u32, far: u32) {
        let GivenUp { here, by_peers } = &mut self.core.given_up;
        // A peer that is ahead may have given up what this rank begins only now.
        let is = |what: &Messages, bits| what.context == context && what.bits & !PROTOCOL == bits;
        by_peers.retain(|(_, what)| !is(what, far));
        here.retain(|what| !is(what, far) && !is(what, next));
    }
}
