//! Comparison of the calls of all ranks: a [dissemination](crate::dissemination).
//!
//! Each message has the call of the lowest rank that its sender knows of, and that of the lowest rank with a different
//! call, if any. After the last round every rank knows the same two. A message has at most two short texts.
//!
//! A rank that finalizes before the end sends its call to all other ranks. A rank with a different call then knows of
//! the mismatch, and sends it to all others in turn, as it may finalize before they learn of the first.

#[cfg(test)]
mod tests;

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::digest::digest;
use crate::dissemination::{Disseminated, Dissemination, RingPosition};

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

impl Disseminated for KnownCalls {
    type Message = Self;

    fn encode(&mut self, _round: u32) -> Bytes {
        Bytes::from(self.to_bytes())
    }

    fn decode(&self, _round: u32, bytes: Bytes) -> Option<Self> {
        Self::from_bytes(bytes.as_slice())
    }

    /// The calls of the union of two sets of ranks, which may overlap.
    fn combine(&mut self, _round: u32, mut theirs: Self) {
        if theirs.first.rank < self.first.rank {
            std::mem::swap(self, &mut theirs);
        }
        let candidates = [self.other.take(), Some(theirs.first), theirs.other].into_iter().flatten();
        self.other =
            candidates.filter(|rank_call| rank_call.call != self.first.call).min_by_key(|rank_call| rank_call.rank);
    }
}

/// How a call names the profile that its algorithm is chosen by.
pub(crate) fn name_profile(fingerprint: u64) -> String {
    format!("{BY_PROFILE}{fingerprint:016x}")
}

const BY_PROFILE: &str = " by profile ";

fn without_profile(call: &str) -> String {
    let named = call.rfind(BY_PROFILE).and_then(|start| call.get(start..start + BY_PROFILE.len() + 16));
    named.map_or_else(|| call.to_owned(), |named| call.replacen(named, "", 1))
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
    calls: Dissemination<KnownCalls>,
    /// The call of this rank.
    own: RankCall,
    /// Call of a rank that differs and has finalized.
    departed: Option<RankCall>,
}

impl CallComparison {
    pub(crate) fn new(rank: u32, ranks: u32, call: String) -> Self {
        let own = RankCall { rank, call: bounded(call) };
        let known = KnownCalls { first: own.clone(), other: None };
        Self { calls: Dissemination::new(RingPosition { rank, ranks }, known), own, departed: None }
    }

    /// The messages to all other ranks if this rank ends before it has received all rounds.
    pub(crate) fn departure_messages(&self) -> impl Iterator<Item = Transmit> + use<> {
        let bytes = KnownCalls { first: self.own.clone(), other: self.departed.clone() }.to_bytes();
        let RingPosition { rank, ranks } = self.calls.position;
        let others = (0..ranks).filter(move |to| *to != rank);
        others.map(move |to| Transmit::new(to, DEPARTURE_TAG, bytes.clone()))
    }

    /// Whether it is complete before all rounds were received, so that messages may still arrive.
    pub(crate) fn ended_early(&self) -> bool {
        self.departed.is_some() && self.calls.missing().next().is_some()
    }

    /// Marks the call of this rank as refused. Must precede the first send.
    pub(crate) fn refuse(&mut self) {
        debug_assert!(!self.calls.has_begun());
        self.own.call = bounded(format!("{}, which is refused there", self.own.call));
        self.calls.value.first = self.own.clone();
    }

    /// Two ranks with different calls, once it is complete: the lowest rank, and the lowest that differs from it. Their
    /// profile is named only if it is what differs.
    pub(crate) fn difference(&self) -> Option<[RankCall; 2]> {
        debug_assert!(self.is_done());
        let KnownCalls { first, other } = self.calls.value.clone();
        let mut both = match other {
            Some(other) => [first, other],
            None => [self.own.clone(), self.departed.clone()?],
        };
        both.sort_unstable_by_key(|rank_call| rank_call.rank);
        let [first, second] = both.each_ref().map(|rank_call| without_profile(&rank_call.call));
        if first != second {
            [both[0].call, both[1].call] = [first, second];
        }
        Some(both)
    }
}

impl Reactor for CallComparison {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.calls.begin();
        self.calls.poll_transmit()
    }

    fn name(&self) -> &'static str {
        "a comparison of calls in checked mode"
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if tag != DEPARTURE_TAG {
            return self.calls.on_message(now, from, tag, bytes);
        }
        let KnownCalls { first, other } =
            KnownCalls::from_bytes(bytes.as_slice()).ok_or(Error::CollectiveOrderMismatch { rank: from as usize })?;
        // A departed rank with the same call is a lost peer.
        let differs = |rank_call: &RankCall| rank_call.call != self.own.call;
        self.departed = self.departed.take().or_else(|| [Some(first), other].into_iter().flatten().find(differs));
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.departed.is_some() { PeerDependency::Nothing } else { self.calls.dependency_on(rank) }
    }

    fn is_done(&self) -> bool {
        self.departed.is_some() || self.calls.is_done()
    }
}
