//! Aborted operations: messages that this rank will not receive, and messages that a peer will not send.
//!
//! A collective operation that fails on one rank must not leave others waiting. That rank rejects messages of the
//! operation and announces the abort, which fails the receives that wait for its messages. Tag bits identify the
//! operation: its number within the communicator. The tables are unbounded, since a rank may abort many operations in a
//! row while a peer is still in the first of them. A rank forgets aborts of peers when it has passed the operation, and
//! its local aborts when operation numbers wrap around ([`Endpoint::forget_aborts`](crate::Endpoint::forget_aborts)).

mod endpoint;
mod reason;

use std::collections::HashMap;

use treepie_base::{BuildNumberHasher, Error};

use crate::bins::{ANY_TAG, MatchKey};
use crate::protocol_queues::PROTOCOL_TAG_BIT;
use crate::search_depth;
pub use reason::AbortReason;

/// All messages of a context whose tags equal `bits` under `mask`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TagPattern {
    context: u32,
    mask: u64,
    bits: u64,
}

impl TagPattern {
    fn matches(&self, key: MatchKey) -> bool {
        key.context == self.context && key.tag != ANY_TAG && key.tag & self.mask == self.bits
    }
}

/// A peer that has aborted an operation, and why.
#[derive(Clone, Copy)]
struct PeerAbort {
    peer: u32,
    reason: AbortReason,
}

impl PeerAbort {
    fn to_error(self) -> Error {
        self.reason.to_error(self.peer)
    }
}

type AbortsByPattern = HashMap<TagPattern, Vec<PeerAbort>, BuildNumberHasher>;

/// The table of aborts.
#[derive(Default)]
pub(crate) struct Aborts {
    /// The masks of all patterns; few.
    masks: Vec<u64>,
    /// Messages that this rank rejects, and why.
    local: HashMap<TagPattern, AbortReason, BuildNumberHasher>,
    /// Messages that peers will not send, by context: starting an operation scans the aborts of its communicator.
    peers_by_context: HashMap<u32, AbortsByPattern, BuildNumberHasher>,
    /// Number of peer aborts that posted receives have not been checked against.
    unchecked: usize,
    /// Number of operations that this check may scan.
    scan_budget: usize,
    /// Whether a peer has aborted because of mismatched calls.
    any_mismatch: bool,
}

impl Aborts {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && self.peers_by_context.is_empty()
    }

    fn add_mask(&mut self, mask: u64) {
        if !self.masks.contains(&mask) {
            self.masks.push(mask);
        }
    }

    /// All patterns that messages of this tag can match.
    fn patterns(&self, context: u32, tag: u64) -> impl Iterator<Item = TagPattern> {
        let masks = if tag == ANY_TAG { &[] } else { &self.masks[..] };
        masks.iter().map(move |&mask| {
            search_depth::count_step();
            TagPattern { context, mask, bits: tag & mask }
        })
    }

    /// The reason why this rank rejects a message, if it does.
    #[inline]
    pub(crate) fn local_reason(&self, message: MatchKey) -> Option<AbortReason> {
        if self.local.is_empty() {
            return None;
        }
        self.patterns(message.context, message.tag).find_map(|pattern| self.local.get(&pattern).copied())
    }

    /// The error of a receive whose source has aborted the operation.
    #[inline]
    pub(crate) fn peer_abort_error(&self, receive: MatchKey) -> Option<Error> {
        if self.peers_by_context.is_empty() {
            return None;
        }
        self.peer_aborts(receive.context, receive.tag)
            .find(|abort| abort.peer == receive.source)
            .map(PeerAbort::to_error)
    }

    /// Whether a peer has aborted because of mismatched calls.
    pub(crate) fn has_mismatch(&self) -> bool {
        self.any_mismatch && !self.peers_by_context.is_empty()
    }

    /// The lowest rank that has aborted the operation of these messages because of mismatched calls.
    pub(crate) fn mismatch_peer(&self, context: u32, tag: u64) -> Option<u32> {
        let aborts = self.peer_aborts(context, tag).chain(self.peer_aborts(context, tag | PROTOCOL_TAG_BIT));
        aborts.filter(|abort| abort.reason == AbortReason::CallMismatch).map(|abort| abort.peer).min()
    }

    /// Forgets peer aborts of contexts no longer in use. Local aborts stay: their messages may still be in flight.
    pub(crate) fn forget_contexts(&mut self, which: impl Fn(u32) -> bool) {
        self.peers_by_context.retain(|context, _| !which(*context));
        self.any_mismatch &= !self.peers_by_context.is_empty();
    }

    /// All peers that have aborted the operation of these messages.
    fn peer_aborts(&self, context: u32, tag: u64) -> impl Iterator<Item = PeerAbort> {
        let of_context = self.peers_by_context.get(&context);
        let all = of_context
            .into_iter()
            .flat_map(move |known| self.patterns(context, tag).map(|pattern| known.get(&pattern)));
        all.flatten().flatten().copied()
    }
}
