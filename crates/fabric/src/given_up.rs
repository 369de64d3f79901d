//! What ranks have given up: messages that nobody here will receive, and messages that a peer will not send.
//!
//! A collective operation that fails on one rank must not leave others waiting. Whoever still sends to that rank is
//! refused, and whoever waits for its messages is told. Both are known by bits of the tag: the number of the operation among
//! those of its communicator. All of them are remembered, however many they are: a rank may give up one operation after the
//! other while a peer is still in the first of them. What peers have given up is forgotten when this rank is past it; what it
//! has given up itself, when the numbers come round again ([`Endpoint::forget_given_up`]).

use std::collections::{HashMap, HashSet};

use treepie_base::{BuildNumberHasher, Error};

use crate::bins::{ANY_TAG, Key};
use crate::call::Call;
use crate::core::Core;
use crate::effort;
use crate::endpoint::Endpoint;
use crate::engine::Head;
use crate::heard::{GROUPS, PROTOCOL, Run, number_of};
use crate::kind::{self, words};
use crate::op::State;
use crate::slab::Id;

/// Operations before the one that begins which may not be over.
const STILL_GOING_ON: u32 = 16;

/// All messages of a context whose tags have these bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Messages {
    context: u32,
    mask: u64,
    bits: u64,
}

impl Messages {
    fn include(&self, key: Key) -> bool {
        key.context == self.context && key.tag != ANY_TAG && key.tag & self.mask == self.bits
    }
}

/// Why a rank has given something up, as far as others are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// For a reason of its own.
    #[default]
    Unsaid,
    /// This rank was lost.
    Lost(u32),
    /// A rank has called something else, so that nobody can expect the operation to end.
    Differs,
}

impl Why {
    /// What others are told about an error.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::PeerLost { rank } => Self::Lost(*rank as u32),
            Error::CallsDiffer { .. } | Error::Disagreement { .. } | Error::OtherOperation { .. } => Self::Differs,
            _ => Self::Unsaid,
        }
    }

    const DIFFERS: u64 = u64::MAX - 1;

    fn word(self) -> u64 {
        match self {
            Self::Unsaid => u64::MAX,
            Self::Lost(rank) => rank.into(),
            Self::Differs => Self::DIFFERS,
        }
    }

    fn of_word(word: u64) -> Self {
        match u32::try_from(word) {
            Ok(rank) => Self::Lost(rank),
            Err(_) if word == Self::DIFFERS => Self::Differs,
            Err(_) => Self::Unsaid,
        }
    }
}

/// Who has given something up, and why.
#[derive(Clone, Copy)]
struct By {
    peer: u32,
    why: Why,
}

/// What was given up.
#[derive(Default)]
pub(crate) struct GivenUp {
    /// The masks of all of it; few.
    masks: Vec<u64>,
    /// What nobody here will receive.
    here: HashSet<Messages, BuildNumberHasher>,
    /// What these peers will not send.
    by_peers: HashMap<Messages, Vec<By>, BuildNumberHasher>,
    /// Whether some of them have because calls differ.
    differs: bool,
}

impl GivenUp {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.by_peers.is_empty()
    }

    fn know(&mut self, mask: u64) {
        if !self.masks.contains(&mask) {
            self.masks.push(mask);
        }
    }

    /// Everything that could have been given up and to which messages of a key belong.
    fn around(&self, context: u32, tag: u64) -> impl Iterator<Item = Messages> {
        let masks = if tag == ANY_TAG { &[] } else { &self.masks[..] };
        masks.iter().map(move |&mask| {
            effort::look();
            Messages { context, mask, bits: tag & mask }
        })
    }

    /// Whether this message will not be received.
    #[inline]
    pub(crate) fn is_unwanted(&self, message: Key) -> bool {
        !self.here.is_empty() && self.around(message.context, message.tag).any(|what| self.here.contains(&what))
    }

    /// Whether the source of such messages has given them up.
    #[inline]
    pub(crate) fn will_not_come(&self, receive: Key) -> bool {
        !self.by_peers.is_empty() && self.by(receive.context, receive.tag).any(|by| by.peer == receive.source)
    }

    /// Whether somebody has given something up because calls differ.
    pub(crate) fn has_differing(&self) -> bool {
        self.differs && !self.by_peers.is_empty()
    }

    /// The first who has given up what such messages belong to because calls differ.
    pub(crate) fn differing(&self, context: u32, tag: u64) -> Option<u32> {
        let all = self.by(context, tag).chain(self.by(context, tag | PROTOCOL));
        all.filter(|by| by.why == Why::Differs).map(|by| by.peer).min()
    }

    /// Nobody asks for messages of these contexts any more. What was given up here is still refused: it may be on its way.
    pub(crate) fn forget_contexts(&mut self, which: impl Fn(u32) -> bool) {
        self.by_peers.retain(|what, _| !which(what.context));
        self.differs &= !self.by_peers.is_empty();
    }

    /// All who have given up what such messages belong to.
    fn by(&self, context: u32, tag: u64) -> impl Iterator<Item = By> {
        self.around(context, tag).filter_map(|what| self.by_peers.get(&what)).flatten().copied()
    }
}

impl Core {
    /// A peer has given up messages: receives that wait for them fail. What it had sent before has come before.
    pub(crate) fn peer_gave_up(&mut self, peer: u32, head: Head, body: &[u8]) {
        let [mask, why] = words(body);
        let what = Messages { context: head.context, mask, bits: head.whole_tag() };
        let by = By { peer, why: Why::of_word(why) };
        self.given_up.know(mask);
        self.given_up.differs |= by.why == Why::Differs;
        self.given_up.by_peers.entry(what).or_default().push(by);
        self.due.mark_all();
        let waits = |key: Key| key.source == peer && what.include(key);
        let hopeless = self.ops.iter().filter(|(_, op)| matches!(op.state, State::Posted(_)) && waits(op.key));
        for id in hopeless.map(|(id, _)| id).collect::<Vec<_>>() {
            self.fail_given_up(id, peer);
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
        let all = self.core.given_up.by(run.context, run.tag).filter(|by| needs(by.peer));
        let (mut lost, mut given_up) = (None::<u32>, None::<u32>);
        let least = |known: Option<u32>, rank: u32| Some(known.map_or(rank, |known| known.min(rank)));
        for by in all {
            match by.why {
                Why::Lost(rank) => lost = least(lost, rank),
                _ => given_up = least(given_up, by.peer),
            }
        }
        let lost = lost.map(|rank| Error::PeerLost { rank: rank as usize });
        lost.or_else(|| given_up.map(|rank| Error::GaveUp { rank: rank as usize }))
    }

    /// Gives up all messages of a context whose tags have these bits under the mask: those that are there, and those
    /// that will come, are thrown away, and senders that wait are told.
    pub fn give_up_messages(&mut self, context: u32, mask: u64, bits: u64) {
        let given_up = Messages { context, mask, bits };
        for id in self.core.waiting.select(|message| given_up.include(message.key)) {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what);
        }
        // Of ranks that run a protocol under that number, which this one does not.
        let run = Run { context, tag: bits | PROTOCOL };
        if bits & GROUPS == 0 && self.core.heard.is_unheard(run) {
            self.stop_listening(run);
        }
        self.core.given_up.know(mask);
        self.core.given_up.here.insert(given_up);
        self.core.differing.forget(context, bits);
        self.act();
    }

    /// Tells ranks that this one will send none of these messages any more: receives of theirs that wait for one fail
    /// with [`Error::GaveUp`]. What was sent before is received before.
    pub fn tell_gave_up(&mut self, context: u32, mask: u64, bits: u64, to: impl Iterator<Item = u32>) {
        self.tell_why_gave_up(context, mask, bits, Why::Unsaid, to);
    }

    /// The same, and why.
    pub fn tell_why_gave_up(&mut self, context: u32, mask: u64, bits: u64, why: Why, to: impl Iterator<Item = u32>) {
        let head = Head::of_message(kind::GAVE_UP, context, bits, Call::NONE, 0);
        let body = kind::body([mask, why.word()]);
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
    pub fn forget_given_up(&mut self, context: u32, next: u64, far: u64) {
        if !self.core.given_up.is_empty() {
            self.forget_given_up_now(context, next, far);
        }
    }

    #[cold]
    fn forget_given_up_now(&mut self, context: u32, next: u64, far: u64) {
        let heard = &self.core.heard;
        let GivenUp { masks, here, by_peers, differs } = &mut self.core.given_up;
        for &mask in masks.iter() {
            for bits in [far, far | PROTOCOL] {
                here.remove(&Messages { context, mask, bits });
                by_peers.remove(&Messages { context, mask, bits });
            }
            // A peer that is ahead may have given up what this rank begins only now.
            for bits in [next, next | PROTOCOL] {
                here.remove(&Messages { context, mask, bits });
            }
        }
        // Where nothing goes on beside the caller, everything before this operation is over here, but for runs of protocols that
        // are listened to, and for the last few: in checked mode a call takes its number before it is compared under the one
        // before.
        if self.tasks.is_empty() && !by_peers.is_empty() {
            let is_past = |what: &Messages| {
                let ahead = number_of(what.bits).wrapping_sub(number_of(next));
                let is_before = ahead > u32::MAX / 2 && ahead <= u32::MAX - STILL_GOING_ON;
                let run = Run { context, tag: what.bits | PROTOCOL };
                what.context == context && what.bits & GROUPS == 0 && is_before && !heard.has(run)
            };
            by_peers.retain(|what, _| !is_past(what));
            *differs &= !by_peers.is_empty();
        }
    }
}
