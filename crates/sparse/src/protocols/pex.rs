//! PEX, personalised exchange: an all-to-all exchange tells each rank what comes from each other one, and then it does.
//!
//! The exchange of sizes is that of Bruck et al.: what is for the rank at some distance goes there by the powers of two
//! that make it up, in ceil(lg P) rounds of P/2 sizes. A size is the number of messages and that of their bytes in a word,
//! by which what comes is checked.
//!
//! Cost: T_PE(P) + T_DT.   Memory: 8 bytes a rank.   Any P.   [NBX paper 3.1]

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

use crate::census::Census;
use crate::protocol::{Exchange, Place, Post};
use crate::tags::Kind;

/// A word has the number of bytes in its lower half, as far as it fits, and that of messages above.
const BYTE_BITS: u32 = 32;
const ONE: u64 = 1 << BYTE_BITS;

/// Adds the bytes of a message to a word, or takes them off it: the number of bytes is only to be the same in the end.
fn with_bytes(word: u64, bytes: u64, add: bool) -> u64 {
    let low = word as u32;
    let low = if add { low.wrapping_add(bytes as u32) } else { low.wrapping_sub(bytes as u32) };
    word & !(ONE - 1) | u64::from(low)
}

/// Adds a message of so many bytes to a word.
fn with_message(word: u64, bytes: u64) -> u64 {
    let counted = word.checked_add(ONE).expect("a rank sends at most 2^32 - 1 messages to another");
    with_bytes(counted, bytes, true)
}

/// The exchange on one rank.
pub(crate) struct Pex {
    at: Place,
    post: Post,
    /// At first the sizes for the rank at each distance ahead, in the end those from the rank at each distance behind.
    /// What comes then is taken off.
    sizes: Vec<u64>,
    /// Messages of later rounds that came early.
    early: Vec<(u32, Bytes)>,
    census: Census,
    /// Those before it have been heard, and it has been told.
    round: u32,
    /// What is to be told.
    telling: VecDeque<Transmit>,
    /// Messages that are still to come, once that is known.
    missing: u64,
    /// Data that came before its size was known.
    unknown: Vec<(u32, u64)>,
}

impl Pex {
    pub(crate) fn new(at: Place, post: Post) -> Self {
        let mut sizes = vec![0; at.ranks as usize];
        for (to, bytes) in &post.outgoing {
            let size = &mut sizes[at.distance_to(*to) as usize];
            *size = with_message(*size, bytes.as_slice().len() as u64);
        }
        let mut this = Self {
            at,
            census: post.census,
            post,
            sizes,
            early: Vec::new(),
            round: 0,
            telling: VecDeque::new(),
            missing: 0,
            unknown: Vec::new(),
        };
        this.tell();
        this
    }

    fn knows(&self) -> bool {
        self.round == self.at.rounds()
    }

    /// Distances that go a round's way, those next to each other together.
    fn distances(&self, round: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bit, ranks) = (1 << round, self.at.ranks as usize);
        (bit..ranks).step_by(2 * bit).map(move |first| first..ranks.min(first + bit))
    }

    fn tell(&mut self) {
        if self.knows() {
            return;
        }
        let count: usize = self.distances(self.round).map(|distances| distances.len()).sum();
        let mut words = Vec::with_capacity(1 + count);
        words.push(self.census.bits());
        self.distances(self.round).for_each(|distances| words.extend_from_slice(&self.sizes[distances]));
        let to = self.at.ahead(1 << self.round);
        self.telling.push_back(Transmit::new(to, Kind::Meta.tag(self.round), words));
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<()> {
        let (words, rest) = bytes.as_chunks::<8>();
        let expected = 1 + self.distances(self.round).map(|distances| distances.len()).sum::<usize>();
        if words.len() != expected || !rest.is_empty() {
            return Err(Error::Disagreement { got: bytes.len() as u64, expected: 8 * expected as u64 });
        }
        let (census, mut words) = words.split_first().expect("there is at least one");
        self.census.add(u64::from_ne_bytes(*census));
        for distances in self.distances(self.round) {
            let (here, rest) = words.split_at(distances.len());
            self.sizes[distances].iter_mut().zip(here).for_each(|(size, word)| *size = u64::from_ne_bytes(*word));
            words = rest;
        }
        self.round += 1;
        self.tell();
        if self.knows() {
            self.missing = self.sizes.iter().map(|size| size >> BYTE_BITS).sum();
            for (from, bytes) in std::mem::take(&mut self.unknown) {
                self.count(from, bytes)?;
            }
        }
        Ok(())
    }

    /// A message of so many bytes has come, of what was told.
    fn count(&mut self, from: u32, bytes: u64) -> Result<()> {
        let size = &mut self.sizes[(self.at.ranks - self.at.distance_to(from)) as usize];
        let left = size.checked_sub(ONE).map(|left| with_bytes(left, bytes, false));
        let Some(left) = left.filter(|left| *left == 0 || *left >= ONE) else {
            return Err(Error::Disagreement { got: bytes, expected: *size % ONE });
        };
        *size = left;
        self.missing -= 1;
        Ok(())
    }

    /// Takes in the messages of rounds in their order.
    fn go_on(&mut self) -> Result<()> {
        while let Some(place) = self.early.iter().position(|(round, _)| *round == self.round) {
            let (_, bytes) = self.early.swap_remove(place);
            self.hear(bytes.as_slice())?;
        }
        Ok(())
    }
}

impl Reactor for Pex {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if !self.knows() || !self.telling.is_empty() {
            return self.telling.pop_front();
        }
        let (to, bytes) = self.post.outgoing.pop_front()?;
        Some(Transmit::new(to, Kind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, _) => {
                let len = bytes.as_slice().len() as u64;
                self.post.receive(from, bytes);
                if !self.knows() {
                    self.unknown.push((from, len));
                    return Ok(());
                }
                self.count(from, len)
            }
            (Kind::Meta, round) if (self.round..self.at.rounds()).contains(&round) => {
                self.early.push((round, bytes));
                self.go_on()
            }
            _ => Err(Error::OtherOperation { rank: from as usize }),
        }
    }

    fn needs(&self, rank: u32) -> Needs {
        let is_early = |round: u32| self.early.iter().any(|(early, _)| *early == round);
        let unheard = |round: u32| !is_early(round) && self.at.behind(1 << round) == rank;
        if (self.round..self.at.rounds()).any(unheard) {
            Needs::Message
        } else if !self.knows() {
            Needs::Perhaps
        } else if rank != self.at.rank && self.sizes[(self.at.ranks - self.at.distance_to(rank)) as usize] != 0 {
            Needs::Message
        } else {
            Needs::Nothing
        }
    }

    fn is_done(&self) -> bool {
        self.knows() && self.telling.is_empty() && self.post.outgoing.is_empty() && self.missing == 0
    }
}

impl Exchange for Pex {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.census
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>() + self.sizes.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_up_to_the_bound() {
        let word = with_message(with_message(0, 5), u64::from(u32::MAX));
        assert_eq!(word, 2 * ONE + 4);
        let most = with_message(u64::MAX - ONE, 0);
        assert_eq!(most >> BYTE_BITS, (1 << 32) - 1);
        assert!(std::panic::catch_unwind(|| with_message(most, 0)).is_err());
    }
}
