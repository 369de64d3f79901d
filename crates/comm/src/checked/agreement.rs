//! Compares what ranks call, as a protocol: a dissemination in ceil(lg P) rounds.
//!
//! In round k a rank tells the one 2^k ahead what it knows: what the lowest rank that it has heard of calls, and the lowest
//! rank that calls something else, if it knows of any. At the end each has heard of all, so all know the same. A message has
//! two short texts at most.
//!
//! A rank that leaves before the end tells all others what it calls. Who calls something else knows enough then, and tells
//! all others in turn, as it may leave before they hear of the first.

#[cfg(test)]
mod tests;

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

use crate::digest::digest;

/// Bytes of a text at most.
const MOST: usize = 240;

/// What a rank calls, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) rank: u32,
    pub(crate) call: String,
}

/// What some ranks call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The lowest of them.
    first: Said,
    /// The lowest that calls something else.
    other: Option<Said>,
}

impl Known {
    /// What these and others call; ranks may be among both.
    fn with(self, theirs: Self) -> Self {
        let (low, high) = if self.first.rank <= theirs.first.rank { (self, theirs) } else { (theirs, self) };
        let candidates = [low.other, Some(high.first), high.other].into_iter().flatten();
        let other = candidates.filter(|said| said.call != low.first.call).min_by_key(|said| said.rank);
        Self { first: low.first, other }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Said { rank, call } in [Some(&self.first), self.other.as_ref()].into_iter().flatten() {
            bytes.extend_from_slice(&rank.to_le_bytes());
            bytes.push(call.len() as u8);
            bytes.extend_from_slice(call.as_bytes());
        }
        bytes
    }

    /// Nothing if that is no message of an agreement.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let first = take(&mut bytes)?;
        let other = if bytes.is_empty() { None } else { Some(take(&mut bytes)?) };
        bytes.is_empty().then_some(Self { first, other })
    }
}

/// Takes the call of one rank from the front.
fn take(bytes: &mut &[u8]) -> Option<Said> {
    let (rank, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first()?;
    let (call, rest) = rest.split_at_checked(usize::from(*len))?;
    *bytes = rest;
    Some(Said { rank: u32::from_le_bytes(*rank), call: str::from_utf8(call).ok()?.to_owned() })
}

/// The text itself if it is short, or else its front and a number that differs for different texts, as good as always.
fn bounded(text: String) -> String {
    if text.len() <= MOST {
        return text;
    }
    let mark = format!("... (#{:016x})", digest(text.bytes().map(u64::from)));
    let mut end = MOST - mark.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned() + &mark
}

/// The tag of what a rank says that leaves; those of rounds are below it.
const LAST: u32 = u32::BITS;

/// The comparison on one rank.
pub(crate) struct Agreement {
    rank: u32,
    ranks: u32,
    known: Known,
    /// Rounds for which this rank has sent.
    sent: u32,
    /// A bit for each round whose message has come.
    heard: u32,
    /// What this rank calls.
    own: String,
    /// A rank that calls something else, and has left.
    left: Option<Said>,
}

impl Agreement {
    pub(crate) fn new(rank: u32, ranks: u32, call: String) -> Self {
        let own = bounded(call);
        let first = Said { rank, call: own.clone() };
        Self { rank, ranks, known: Known { first, other: None }, sent: 0, heard: 0, own, left: None }
    }

    /// What this rank tells all others if it ends before it has heard of all.
    pub(crate) fn last_words(&self) -> impl Iterator<Item = Transmit> + use<> {
        let first = Said { rank: self.rank, call: self.own.clone() };
        let own = Known { first, other: self.left.clone() }.to_bytes();
        let rank = self.rank;
        let others = (0..self.ranks).filter(move |to| *to != rank);
        others.map(move |to| Transmit::new(to, LAST, own.clone()))
    }

    /// Whether it has ended before all have been heard of, so that messages may still come.
    pub(crate) fn ended_early(&self) -> bool {
        self.left.is_some() && self.heard.trailing_ones() < self.rounds()
    }

    /// Says that this rank's call is refused. Only before anything was sent.
    pub(crate) fn refuse(&mut self) {
        debug_assert_eq!((self.sent, self.heard), (0, 0));
        let Said { rank, call } = &self.known.first;
        self.own = bounded(format!("{call}, which is refused there"));
        self.known.first = Said { rank: *rank, call: self.own.clone() };
    }

    /// Two ranks that call different things, once it is done: the first rank, and the first of those that differ from it.
    pub(crate) fn difference(&self) -> Option<[Said; 2]> {
        debug_assert!(self.is_done());
        let known = self.known.other.as_ref().map(|other| (&self.known.first, other));
        known.map(|(first, other)| [first.clone(), other.clone()]).or_else(|| {
            let mut both = [Said { rank: self.rank, call: self.own.clone() }, self.left.clone()?];
            both.sort_unstable_by_key(|said| said.rank);
            Some(both)
        })
    }

    fn rounds(&self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }

    /// Who tells this rank something in a round.
    fn source(&self, round: u32) -> u32 {
        let distance = 1 << round;
        if self.rank >= distance { self.rank - distance } else { self.ranks - (distance - self.rank) }
    }

    fn has_heard(&self, round: u32) -> bool {
        self.heard >> round & 1 == 1
    }
}

impl Reactor for Agreement {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let round = self.sent;
        // What came in later rounds may be said, too; what is to come in earlier ones must be.
        if round == self.rounds() || self.heard.trailing_ones() < round {
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
        let is_expected = tag < self.rounds() && self.source(tag) == from && !self.has_heard(tag);
        let theirs = Known::from_bytes(bytes.as_slice()).filter(|_| is_expected || tag == LAST);
        // A rank that runs something else.
        let Some(theirs) = theirs else { return Err(Error::OtherOperation { rank: from as usize }) };
        if tag == LAST {
            // One that calls the same is lost.
            let said = [Some(theirs.first), theirs.other].into_iter().flatten();
            self.left = self.left.take().or_else(|| said.into_iter().find(|said| said.call != self.own));
            return Ok(());
        }
        self.heard |= 1 << tag;
        self.known = self.known.clone().with(theirs);
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        let waits = (0..self.rounds()).any(|round| !self.has_heard(round) && self.source(round) == rank);
        if waits && self.left.is_none() { Needs::Message } else { Needs::Nothing }
    }

    fn is_done(&self) -> bool {
        self.left.is_some() || self.sent == self.rounds() && self.heard.trailing_ones() >= self.rounds()
    }
}
