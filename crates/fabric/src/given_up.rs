//! What ranks have given up: messages that nobody here will receive, and messages that a peer will not send.
//!
//! A collective operation that fails on one rank must not leave others waiting. Whoever still sends to that rank is
//! refused, and whoever waits for its messages is told. Both are known by bits of the tag: the number of the operation among
//! those of its communicator. All of them are remembered, however many they are: a rank may give up one operation after the
//! other while a peer is still in the first of them. What peers have given up is forgotten when this rank is past it; what it
//! has given up itself, when the numbers come round again ([`Endpoint::forget_given_up`]).

use std::collections::HashMap;

use treepie_base::{BuildNumberHasher, Error};

use crate::bins::{ANY_TAG, Key};
use crate::call::Call;
use crate::core::{Action, Core};
use crate::effort;
use crate::endpoint::Endpoint;
use crate::engine::Head;
use crate::heard::{GROUPS, PROTOCOL, Run, number_of};
use crate::kind::{self, words};
use crate::op::State;
use crate::slab::Id;

/// So many operations are looked at when nothing more has come.
const AT_ONCE: usize = 16;

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
    /// This rank had given it up before.
    After(u32),
    /// A rank has called something else, so that nobody can expect the operation to end.
    Differs,
}

impl Why {
    /// What others are told about an error.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::PeerLost { rank } => Self::Lost(*rank as u32),
            Error::GaveUp { rank } => Self::After(*rank as u32),
            Error::CallsDiffer { .. } | Error::Disagreement { .. } | Error::OtherOperation { .. } => Self::Differs,
            _ => Self::Unsaid,
        }
    }

    /// What is said to others of something that a rank has given up for this reason: with which rank it began, and whether that
    /// was lost.
    pub(crate) fn by(self, rank: u32) -> Self {
        if let Self::Lost(_) | Self::After(_) = self { self } else { Self::After(rank) }
    }

    /// The error of those who wait for what a rank has given up for this reason: it names the rank with which it began, not the one
    /// that passed it on.
    pub fn error(self, by: u32) -> Error {
        match self {
            Self::Lost(rank) => Error::PeerLost { rank: rank as usize },
            Self::After(rank) => Error::GaveUp { rank: rank as usize },
            Self::Unsaid | Self::Differs => Error::GaveUp { rank: by as usize },
        }
    }

    /// A number for the reason, and below it that of the rank.
    pub fn word(self) -> u64 {
        let (reason, rank) = match self {
            Self::Unsaid => (0, 0),
            Self::Lost(rank) => (1, rank),
            Self::After(rank) => (2, rank),
            Self::Differs => (3, 0),
        };
        reason << 32 | u64::from(rank)
    }

    /// The reason that has this number.
    pub fn of_word(word: u64) -> Self {
        match (word >> 32, word as u32) {
            (1, rank) => Self::Lost(rank),
            (2, rank) => Self::After(rank),
            (3, _) => Self::Differs,
            _ => Self::Unsaid,
        }
    }
}

/// Who has given something up, and why.
#[derive(Clone, Copy)]
struct By {
    peer: u32,
    why: Why,
}

impl By {
    fn error(self) -> Error {
        self.why.error(self.peer)
    }
}

type ByPeers = HashMap<Messages, Vec<By>, BuildNumberHasher>;

/// What was given up.
#[derive(Default)]
pub(crate) struct GivenUp {
    /// The masks of all of it; few.
    masks: Vec<u64>,
    /// What nobody here will receive, and why.
    here: HashMap<Messages, Why, BuildNumberHasher>,
    /// What these peers will not send, by context: whoever begins an operation looks through those of its communicator.
    by_peers: HashMap<u32, ByPeers, BuildNumberHasher>,
    /// Of how much of it receives may still wait for messages.
    news: usize,
    /// How many operations may be looked at for that.
    allowed: usize,
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

    /// Why this message will not be received, if that is so.
    #[inline]
    pub(crate) fn unwanted(&self, message: Key) -> Option<Why> {
        if self.here.is_empty() {
            return None;
        }
        self.around(message.context, message.tag).find_map(|what| self.here.get(&what).copied())
    }

    /// The error of a receive whose source has given up such messages.
    #[inline]
    pub(crate) fn will_not_come(&self, receive: Key) -> Option<Error> {
        if self.by_peers.is_empty() {
            return None;
        }
        self.by(receive.context, receive.tag).find(|by| by.peer == receive.source).map(By::error)
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
        self.by_peers.retain(|context, _| !which(*context));
        self.differs &= !self.by_peers.is_empty();
    }

    /// All who have given up what such messages belong to.
    fn by(&self, context: u32, tag: u64) -> impl Iterator<Item = By> {
        let of_context = self.by_peers.get(&context);
        let all = of_context.into_iter().flat_map(move |known| self.around(context, tag).map(|what| known.get(&what)));
        all.flatten().flatten().copied()
    }
}

impl Core {
    /// A peer has given up messages. What it had sent before has come before.
    pub(crate) fn peer_gave_up(&mut self, peer: u32, head: Head, body: &[u8]) {
        let [mask, why] = words(body);
        let what = Messages { context: head.context, mask, bits: head.whole_tag() };
        let by = By { peer, why: Why::of_word(why) };
        self.given_up.know(mask);
        self.given_up.differs |= by.why == Why::Differs;
        self.given_up.by_peers.entry(what.context).or_default().entry(what).or_default().push(by);
        self.given_up.news += 1;
        // The run of a protocol asks by itself; other tasks have receives that fail.
        let run = Run { context: what.context, tag: what.bits | PROTOCOL };
        match self.heard.task_of(run) {
            _ if what.bits & GROUPS != 0 => self.due.mark_all(),
            Some(task) => self.due.mark(task),
            None => {}
        }
        self.actions.push(Action::LookWhetherBoardIsClosed);
    }

    /// Fails receives that wait for what peers have given up: once for all that they have said since the last time, as whoever fails
    /// in one operation mostly fails in all that are under way.
    #[cold]
    fn fail_all_given_up(&mut self) {
        (self.given_up.news, self.given_up.allowed) = (0, 0);
        let posted = self.ops.iter().filter(|(_, op)| matches!(op.state, State::Posted(_)));
        let hopeless = posted.filter_map(|(id, op)| {
            effort::look();
            Some((id, self.given_up.will_not_come(op.key)?))
        });
        for (id, error) in hopeless.collect::<Vec<_>>() {
            self.unpost(id);
            self.fail(id, error);
        }
    }

    /// Fails a receive that was just begun if its source has given up what it waits for.
    #[inline]
    pub(crate) fn fail_if_given_up(&mut self, id: Id, key: Key) {
        if let Some(error) = self.given_up.will_not_come(key) {
            self.unpost(id);
            self.fail(id, error);
        }
    }
}

impl Endpoint {
    /// Looks after receives that wait for what peers have given up, if they have said so: when so much was given up, or nothing more
    /// has come so often, that it is worth looking at all operations; and before this rank waits ([`Endpoint::has_new_given_up`]).
    #[inline]
    pub(crate) fn look_at_given_up(&mut self, is_all: bool) {
        let GivenUp { news, allowed, .. } = &mut self.core.given_up;
        if *news > 0 {
            *allowed += if is_all { AT_ONCE } else { 0 };
            if *news + *allowed >= self.core.ops.looks() {
                self.core.fail_all_given_up();
            }
        }
    }

    /// Looks after them in any case. Returns whether anything was said.
    pub(crate) fn has_new_given_up(&mut self) -> bool {
        let any = self.core.given_up.news > 0;
        if any {
            self.core.fail_all_given_up();
        }
        any
    }

    /// Why nothing more comes of a run of a protocol: the first rank that was lost, as those of `needs` say who have given it
    /// up, or else the first of them.
    pub fn given_up_by(&self, run: Run, needs: impl Fn(u32) -> bool) -> Option<Error> {
        let errors = self.core.given_up.by(run.context, run.tag).filter(|by| needs(by.peer)).map(By::error);
        errors.min_by_key(|error| match error {
            Error::PeerLost { rank } => (false, *rank),
            Error::GaveUp { rank } => (true, *rank),
            _ => unreachable!("it was given up"),
        })
    }

    /// Gives up all messages of a context whose tags have these bits under the mask: those that are there, and those
    /// that will come, are thrown away, and senders that wait are told why.
    pub fn give_up_messages(&mut self, context: u32, mask: u64, bits: u64, why: Why) {
        let given_up = Messages { context, mask, bits };
        for id in self.core.waiting.select(|message| given_up.include(message.key)) {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what, why);
        }
        self.core.given_up.know(mask);
        self.core.given_up.here.insert(given_up, why);
        // Of ranks that run a protocol under that number, which this one does not.
        let run = Run { context, tag: bits | PROTOCOL };
        if bits & GROUPS == 0 && self.core.heard.is_unheard(run) {
            self.stop_listening(run);
        }
        self.core.differing.forget(context, bits);
        self.act();
    }

    /// Tells ranks that this one will send none of these messages any more: receives of theirs that wait for one fail
    /// as `why` says. What was sent before is received before.
    pub fn tell_gave_up(&mut self, context: u32, mask: u64, bits: u64, why: Why, to: impl Iterator<Item = u32>) {
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
        let GivenUp { masks, here, by_peers, differs, .. } = &mut self.core.given_up;
        let mut of_context = by_peers.remove(&context).unwrap_or_default();
        for &mask in masks.iter() {
            for bits in [far, far | PROTOCOL] {
                here.remove(&Messages { context, mask, bits });
                of_context.remove(&Messages { context, mask, bits });
            }
            // A peer that is ahead may have given up what this rank begins only now.
            for bits in [next, next | PROTOCOL] {
                here.remove(&Messages { context, mask, bits });
            }
        }
        // Where nothing goes on beside the caller, everything before this operation is over here, but for runs of protocols that
        // are listened to, and for the last few: in checked mode a call takes its number before it is compared under the one
        // before.
        if self.tasks.is_empty() && !of_context.is_empty() {
            let is_past = |what: &Messages| {
                effort::look();
                let ahead = number_of(what.bits).wrapping_sub(number_of(next));
                let is_before = ahead > u32::MAX / 2 && ahead <= u32::MAX - STILL_GOING_ON;
                let run = Run { context, tag: what.bits | PROTOCOL };
                what.bits & GROUPS == 0 && is_before && !heard.has(run)
            };
            of_context.retain(|what, _| !is_past(what));
        }
        if !of_context.is_empty() {
            by_peers.insert(context, of_context);
        }
        *differs &= !by_peers.is_empty();
    }
}
