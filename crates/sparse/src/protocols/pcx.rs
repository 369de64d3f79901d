//! PCX, personalised census: a reduce-scatter of ones tells each rank how many messages come, and then they do.
//!
//! The table of ones is that of a rank's own row, by distance around the ring; in the round of distance 2^r, from the
//! largest on, its upper half goes to the rank so far ahead, which adds it. After ceil(lg P) rounds P - 1 numbers have been
//! sent and the one that is left is this rank's own.   [Bruck et al., backwards]
//!
//! Cost: T_RS(P) + T_DT.   Memory: 4 bytes a rank.   Any P.   [NBX paper, algorithm 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

use crate::census::Census;
use crate::protocol::{Exchange, Place, Post};
use crate::tags::Kind;

/// The exchange on one rank.
pub(crate) struct Pcx {
    at: Place,
    post: Post,
    /// Messages for the rank at each distance, as far as this one knows and has not told.
    table: Vec<u32>,
    /// Of the table at first.
    memory: usize,
    census: Census,
    /// Rounds that are still to be sent; the next one is the one below.
    unsent: u32,
    /// Rounds whose message has come, as bits.
    heard: u32,
}

impl Pcx {
    pub(crate) fn new(at: Place, post: Post) -> Self {
        let mut table = vec![0; at.ranks as usize];
        for (to, _) in &post.outgoing {
            table[at.distance_to(*to) as usize] += 1;
        }
        let memory = table.capacity() * size_of::<u32>();
        Self { at, census: post.census, post, table, memory, unsent: at.rounds(), heard: 0 }
    }

    fn has_heard(&self, round: u32) -> bool {
        self.heard & 1 << round != 0
    }

    /// Whether this rank knows how many messages come.
    fn knows(&self) -> bool {
        self.unsent == 0 && (0..self.at.rounds()).all(|round| self.has_heard(round))
    }

    /// The census, and numbers of distances from that of the round on.
    fn tell(&mut self, round: u32) -> Transmit {
        let distance = 1 << round;
        let mut bytes = self.census.bits().to_le_bytes().to_vec();
        bytes.extend(self.table.drain(distance as usize..).flat_map(u32::to_le_bytes));
        Transmit::new(self.at.ahead(distance), Kind::Meta.tag(round), bytes)
    }

    fn add(&mut self, round: u32, bytes: &[u8]) -> Result<()> {
        let count = (self.at.ranks - (1 << round)).min(1 << round) as usize;
        let expected = 8 + 4 * count;
        let wrong = Error::Disagreement { got: bytes.len() as u64, expected: expected as u64 };
        let Some((census, numbers)) = bytes.split_first_chunk::<8>().filter(|_| bytes.len() == expected) else {
            return Err(wrong);
        };
        self.census.add(u64::from_le_bytes(*census));
        let (numbers, _) = numbers.as_chunks::<4>();
        self.table.iter_mut().zip(numbers).for_each(|(sum, more)| *sum += u32::from_le_bytes(*more));
        self.heard |= 1 << round;
        Ok(())
    }
}

impl Reactor for Pcx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.unsent > 0 {
            // Those above have brought what is to be told in this one.
            let above_heard = self.unsent == self.at.rounds() || self.has_heard(self.unsent);
            if !above_heard {
                return None;
            }
            self.unsent -= 1;
            return Some(self.tell(self.unsent));
        }
        // All data is sent after the last round of numbers, whether they have come or not.
        let (to, bytes) = self.post.outgoing.pop_front()?;
        Some(Transmit::new(to, Kind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, _) => self.post.receive(from, bytes),
            (Kind::Meta, round) if round < self.at.rounds() && !self.has_heard(round) => {
                self.add(round, bytes.as_slice())?;
            }
            _ => return Err(Error::OtherOperation { rank: from as usize }),
        }
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        let unheard = |round: u32| !self.has_heard(round) && self.at.behind(1 << round) == rank;
        if (0..self.at.rounds()).any(unheard) { Needs::Message } else { Needs::Perhaps }
    }

    fn is_done(&self) -> bool {
        self.knows() && self.post.outgoing.is_empty() && self.post.came == u64::from(self.table[0])
    }
}

impl Exchange for Pcx {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.census
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>() + self.memory
    }
}
