//! Comparison of the calls of all ranks: a dissemination in ceil(lg P) rounds.
//!
//! In round k each rank sends to the rank 2^k ahead: the call of the lowest rank it knows of, and that of the lowest
//! rank with a different call, if any. After the last round every rank knows the same two. A message has at most two
//! short texts.
//!
//! A rank that finalizes before the end sends its call to all other ranks. A rank with a different call then knows of
//! the mismatch, and sends it to all others in turn, as it may finalize before they learn of the first.

#[cfg(test)]
mod tests;

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::digest::digest;

/// Maximum length of the text of a call, in bytes.
const MAX_TEXT: usize = 240;

/// The call of a rank, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankCall {
    pub(crate) rank: u32,
    pub(crate) call: String,
}

/// The calls of a set of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownCalls {
    /// Call of the lowest rank.
    first: RankCall,
    /// Call of the lowest rank that differs from the first.
    other: Option<RankCall>,
}

impl KnownCalls {
    /// The calls of the union of two sets of ranks, which may overlap.
    fn with(self, theirs: Self) -> Self {
        let (low, high) = if self.first.rank <= theirs.first.rank { (self, theirs) } else { (theirs, self) };
        let candidates = [low.other, Some(high.first), high.other].into_iter().flatten();
        let other =
            candidates.filter(|rank_call| rank_call.call != low.first.call).min_by_key(|rank_call| rank_call.rank);
        Self { first: low.first, other }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for RankCall { rank, call } in [Some(&self.first), self.other.as_ref()].into_iter().flatten() {
            bytes.extend_from_slice(&rank.to_le_bytes());
            bytes.push(call.len() as u8);
            bytes.extend_from_slice(call.as_bytes());
        }
        bytes
    }

    /// `None` if the bytes are not a message of a comparison.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let first = take(&mut bytes)?;
        let other = if bytes.is_empty() { None } else { Some(take(&mut bytes)?) };
        bytes.is_empty().then_some(Self { first, other })
    }
}

/// Decodes the call of one rank and advances the slice.
fn take(bytes: &mut &[u8]) -> Option<RankCall> {
    let (rank, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first()?;
    let (call, rest) = rest.split_at_checked(usize::from(*len))?;
    *bytes = rest;
    Some(RankCall { rank: u32::from_le_bytes(*rank), call: str::from_utf8(call).ok()?.to_owned() })
}

/// The text itself if it is short, otherwise a prefix of it and a digest, which almost surely differs for different
/// texts.
fn bounded(text: String) -> String {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let mark = format!("... (#{:016x})", digest(text.bytes().map(u64::from)));
    let mut end = MAX_TEXT - mark.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned() + &mark
}

/// The tag of the messages of a rank that finalizes; the tags of rounds are below.
const DEPARTURE_TAG: u32 = u32::BITS;

/// The comparison on one rank.
pub(crate) struct CallComparison {
    rank: u32,
    ranks: u32,
    known: KnownCalls,
    /// Number of rounds for which this rank has sent.
    sent: u32,
    /// One bit for each round whose message has arrived.
    received: u32,
    /// The call of this rank.
    own_call: String,
    /// Call of a rank that differs and has finalized.
    departed: Option<RankCall>,
}

impl CallComparison {
    pub(crate) fn new(rank: u32, ranks: u32, call: String) -> Self {
        let own_call = bounded(call);
        let first = RankCall { rank, call: own_call.clone() };
        Self { rank, ranks, known: KnownCalls { first, other: None }, sent: 0, received: 0, own_call, departed: None }
    }

    /// The messages to all other ranks if this rank ends before it has received all rounds.
    pub(crate) fn departure_messages(&self) -> impl Iterator<Item = Transmit> + use<> {
        let first = RankCall { rank: self.rank, call: self.own_call.clone() };
        let bytes = KnownCalls { first, other: self.departed.clone() }.to_bytes();
        let rank = self.rank;
        let others = (0..self.ranks).filter(move |to| *to != rank);
        others.map(move |to| Transmit::new(to, DEPARTURE_TAG, bytes.clone()))
    }

    /// Whether it is complete before all rounds were received, so that messages may still arrive.
    pub(crate) fn ended_early(&self) -> bool {
        self.departed.is_some() && self.received.trailing_ones() < self.rounds()
    }

    /// Marks the call of this rank as refused. Must precede the first send.
    pub(crate) fn refuse(&mut self) {
        debug_assert_eq!((self.sent, self.received), (0, 0));
        let RankCall { rank, call } = &self.known.first;
        self.own_call = bounded(format!("{call}, which is refused there"));
        self.known.first = RankCall { rank: *rank, call: self.own_call.clone() };
    }

    /// Two ranks with different calls, once it is complete: the lowest rank, and the lowest that differs from it.
    pub(crate) fn difference(&self) -> Option<[RankCall; 2]> {
        debug_assert!(self.is_done());
        let known = self.known.other.as_ref().map(|other| (&self.known.first, other));
        known.map(|(first, other)| [first.clone(), other.clone()]).or_else(|| {
            let mut both = [RankCall { rank: self.rank, call: self.own_call.clone() }, self.departed.clone()?];
            both.sort_unstable_by_key(|rank_call| rank_call.rank);
            Some(both)
        })
    }

    fn rounds(&self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }

    /// The rank that sends to this one in a round.
    fn source(&self, round: u32) -> u32 {
        let distance = 1 << round;
        if self.rank >= distance { self.rank - distance } else { self.ranks - (distance - self.rank) }
    }

    fn has_received(&self, round: u32) -> bool {
        self.received >> round & 1 == 1
    }
}

impl Reactor for CallComparison {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let round = self.sent;
        // Information of later rounds may be included; that of earlier rounds must be.
        if round == self.rounds() || self.received.trailing_ones() < round {
            return None;
        }
        self.sent += 1;
        let left = self.ranks - self.rank;
        let to = if 1 << round < left { self.rank + (1 << round) } else { (1 << round) - left };
        Some(Transmit::new(to, round, self.known.to_bytes()))
    }

    fn name(&self) -> &'static str {
        "a comparison of calls in checked mode"
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let is_expected = tag < self.rounds() && self.source(tag) == from && !self.has_received(tag);
        let theirs = KnownCalls::from_bytes(bytes.as_slice()).filter(|_| is_expected || tag == DEPARTURE_TAG);
        // The sender runs another operation.
        let Some(theirs) = theirs else { return Err(Error::CollectiveOrderMismatch { rank: from as usize }) };
        if tag == DEPARTURE_TAG {
            // A departed rank with the same call is a lost peer.
            let calls = [Some(theirs.first), theirs.other].into_iter().flatten();
            self.departed =
                self.departed.take().or_else(|| calls.into_iter().find(|rank_call| rank_call.call != self.own_call));
            return Ok(());
        }
        self.received |= 1 << tag;
        self.known = self.known.clone().with(theirs);
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        let waits = (0..self.rounds()).any(|round| !self.has_received(round) && self.source(round) == rank);
        if waits && self.departed.is_none() { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    fn is_done(&self) -> bool {
        self.departed.is_some() || self.sent == self.rounds() && self.received.trailing_ones() >= self.rounds()
    }
}
