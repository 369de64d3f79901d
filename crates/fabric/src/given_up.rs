//! What ranks have given up: messages that nobody here will receive, and messages that a peer will not send.
//!
//! A collective operation that fails on one rank must not leave others waiting. Whoever still sends to that rank is
//! refused, and whoever waits for its messages is told. Both are known by bits of the tag, which are used again after a
//! while; so entries are forgotten in time ([`Endpoint::forget_given_up`]).

use std::collections::{HashMap, VecDeque};

use treepie_base::Error;

use crate::bins::{ANY, Key};
use crate::core::Core;
use crate::effort;
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Messages {
    context: u32,
    mask: u32,
    bits: u32,
}

impl Messages {
    fn include(&self, key: Key) -> bool {
        key.context == self.context && key.tag != ANY && key.tag & self.mask == self.bits
    }
}

/// Who has given up messages.
#[derive(Clone, Copy)]
struct By {
    rank: u32,
    /// The rank that was lost, if that is why.
    lost: Option<u32>,
}

/// What ranks have given up, the latest of each. Found by what a message is matched by, so that it does not matter how much it is.
#[derive(Default)]
struct Register {
    entries: HashMap<Messages, Vec<By>>,
    /// The few masks that there are, and how many entries have each.
    masks: Vec<(u32, usize)>,
    /// Of each rank, the oldest first.
    of_rank: HashMap<u32, Remembered>,
}

#[derive(Default)]
struct Remembered {
    count: usize,
    /// Some may have been forgotten.
    oldest: VecDeque<Messages>,
}

impl Register {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those who have given up this message.
    fn of(&self, message: Key) -> impl Iterator<Item = By> {
        let masks = if message.tag == ANY { &[][..] } else { &self.masks };
        let found = masks.iter().filter_map(move |(mask, _)| {
            effort::look();
            self.entries.get(&Messages { context: message.context, mask: *mask, bits: message.tag & mask })
        });
        found.flatten().copied()
    }

    fn add(&mut self, what: Messages, by: By) {
        while self.of_rank.get(&by.rank).is_some_and(|remembered| remembered.count >= MOST) {
            let oldest = self.of_rank.get_mut(&by.rank).and_then(|remembered| remembered.oldest.pop_front());
            self.forget_one(oldest.expect("as many as are counted"), by.rank);
        }
        let same = self.entries.entry(what).or_default();
        if same.is_empty() {
            match self.masks.iter_mut().find(|(mask, _)| *mask == what.mask) {
                Some((_, count)) => *count += 1,
                None => self.masks.push((what.mask, 1)),
            }
        }
        same.push(by);
        let remembered = self.of_rank.entry(by.rank).or_default();
        remembered.count += 1;
        remembered.oldest.push_back(what);
        if remembered.oldest.len() > 2 * MOST {
            // As many have been forgotten since this was last done.
            let is_known =
                |what: &Messages| self.entries.get(what).is_some_and(|all| all.iter().any(|it| it.rank == by.rank));
            remembered.oldest.retain(is_known);
        }
    }

    fn forget_one(&mut self, what: Messages, rank: u32) {
        let Some(all) = self.entries.get_mut(&what) else { return };
        let Some(place) = all.iter().position(|by| by.rank == rank) else { return };
        all.remove(place);
        if all.is_empty() {
            self.forget(what);
        }
        self.count_less(rank);
    }

    fn forget(&mut self, what: Messages) {
        let Some(all) = self.entries.remove(&what) else { return };
        if let Some(place) = self.masks.iter().position(|(mask, _)| *mask == what.mask) {
            self.masks[place].1 -= 1;
            if self.masks[place].1 == 0 {
                self.masks.swap_remove(place);
            }
        }
        all.iter().for_each(|by| self.count_less(by.rank));
    }

    fn count_less(&mut self, rank: u32) {
        if let Some(remembered) = self.of_rank.get_mut(&rank) {
            remembered.count -= 1;
        }
    }

    /// Forgets what was given up of a context under these bits, in protocols and elsewhere.
    fn forget_bits(&mut self, context: u32, bits: u32) {
        for place in (0..self.masks.len()).rev() {
            for bits in [bits, bits | PROTOCOL] {
                if let Some((mask, _)) = self.masks.get(place) {
                    self.forget(Messages { context, mask: *mask, bits });
                }
            }
        }
    }
}

/// What was given up, the latest of it.
#[derive(Default)]
pub(crate) struct GivenUp {
    /// What nobody here will receive.
    here: Register,
    /// What these peers will not send.
    by_peers: Register,
}

impl GivenUp {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.by_peers.is_empty()
    }

    /// Whether this message will not be received.
    #[inline]
    pub(crate) fn is_unwanted(&self, message: Key) -> bool {
        !self.here.is_empty() && self.here.of(message).next().is_some()
    }

    /// Whether the source of such messages has given them up.
    #[inline]
    pub(crate) fn will_not_come(&self, receive: Key) -> bool {
        !self.by_peers.is_empty() && self.by_peers.of(receive).any(|by| by.rank == receive.source)
    }
}

impl Core {
    /// A peer has given up messages: receives that wait for them fail. What it had sent before has come before.
    pub(crate) fn peer_gave_up(&mut self, by: u32, head: Head, body: &[u8]) {
        let lost = body.try_into().ok().map(u32::from_le_bytes);
        let what = Messages { context: head.context, mask: head.slot, bits: head.tag };
        self.given_up.by_peers.add(what, By { rank: by, lost });
        self.due.mark_all();
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
        let by_peers = &self.core.given_up.by_peers;
        if by_peers.is_empty() {
            return None;
        }
        let by = || by_peers.of(any).filter(|by| needs(by.rank));
        let lost = by().filter_map(|by| by.lost).min().map(|rank| Error::PeerLost { rank: rank as usize });
        lost.or_else(|| by().map(|by| by.rank).min().map(|rank| Error::GaveUp { rank: rank as usize }))
    }

    /// Gives up all messages of a context whose tags have these bits under the mask: those that are there, and those
    /// that will come, are thrown away, and senders that wait are told.
    pub fn give_up_messages(&mut self, context: u32, mask: u32, bits: u32) {
        let given_up = Messages { context, mask, bits };
        for id in self.core.waiting.select(|message| given_up.include(message.key)) {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what);
        }
        let by = By { rank: self.core.rank, lost: None };
        self.core.given_up.here.add(given_up, by);
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
        // A peer that is ahead may have given up what this rank begins only now.
        self.core.given_up.by_peers.forget_bits(context, far);
        self.core.given_up.here.forget_bits(context, far);
        self.core.given_up.here.forget_bits(context, next);
    }
}
