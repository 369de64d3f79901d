//! NBX whose barrier goes over all channels: every rank sends at least one message to every other, and the tag of each says
//! how many there are from its sender. So nobody needs an answer, and there is only one step; but P - 1 messages.
//!
//! Cost: (P-1) o + T_DT.   Memory: a bit for each rank.   Any P; best for few ranks.
//! [NBX paper 3.4, consistency condition 2; as messages carry the number, it holds without their order as well]

use std::collections::HashMap;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

use crate::census::{Census, PACKED_BITS};
use crate::closing::word;
use crate::protocol::{Exchange, Place, Post};
use crate::tags::{Kind, NUMBER_BITS};

/// Tags have the sender's census, and above it how many messages it sends; of so many or more, another message tells.
const MANY: u32 = (1 << (NUMBER_BITS - PACKED_BITS)) - 1;

/// The exchange on one rank.
pub(crate) struct NbxAllChannels {
    at: Place,
    post: Post,
    /// Of all that have been heard.
    census: Census,
    /// Messages to those who get several.
    several: HashMap<u32, u64>,
    /// Those who get any, as bits; then, those to whom everything has been sent.
    served: Bits,
    /// The distance of the next rank to be looked at for whether it gets nothing.
    next: u32,
    /// Numbers that do not fit into a tag, to be sent.
    counts: Vec<(u32, u64)>,
    /// Those of whom everything has come.
    complete: Bits,
    /// What has come, and how much there is if that is known, of those who send several.
    coming: HashMap<u32, (u64, Option<u64>)>,
    missing: u32,
}

impl NbxAllChannels {
    pub(crate) fn new(at: Place, post: Post) -> Self {
        let mut served = Bits::new(at.ranks);
        let mut several = HashMap::new();
        for (to, _) in &post.outgoing {
            if served.set(*to) {
                *several.entry(*to).or_insert(1) += 1;
            }
        }
        let many = several.iter().filter(|(_, count)| **count >= u64::from(MANY)).map(|(to, count)| (*to, *count));
        let mut counts: Vec<(u32, u64)> = many.collect();
        // In an order that is the same each time.
        counts.sort_unstable();
        Self {
            counts,
            at,
            census: post.census,
            post,
            several,
            served,
            next: 1,
            complete: Bits::new(at.ranks),
            coming: HashMap::new(),
            missing: at.ranks - 1,
        }
    }

    fn tag(&self, count: u32) -> u32 {
        Kind::Data.tag(count << PACKED_BITS | self.post.census.packed())
    }

    /// So many more messages have come from a rank, of so many if that is known.
    fn came(&mut self, from: u32, more: u64, of: Option<u64>) -> Result<()> {
        let (got, all) = self.coming.remove(&from).unwrap_or_default();
        let (got, all) = (got + more, all.or(of));
        let is_all = all == Some(got);
        if all.is_some_and(|all| got > all) || is_all && self.complete.set(from) {
            return Err(Error::Disagreement { got, expected: all.unwrap_or(0) });
        }
        if is_all {
            self.missing -= 1;
        } else {
            self.coming.insert(from, (got, all));
        }
        Ok(())
    }
}

impl Reactor for NbxAllChannels {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((to, count)) = self.counts.pop() {
            return Some(Transmit::new(to, Kind::Count.tag(0), vec![count]));
        }
        if let Some((to, bytes)) = self.post.outgoing.pop_front() {
            let count = self.several.get(&to).copied().unwrap_or(1).min(MANY.into()) as u32;
            return Some(Transmit::new(to, self.tag(count), bytes));
        }
        while self.next < self.at.ranks {
            let to = self.at.ahead(self.next);
            self.next += 1;
            if !self.served.has(to) {
                return Some(Transmit::new(to, self.tag(0), Vec::<u8>::new()));
            }
        }
        None
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, number) => {
                self.census.add(Census::unpacked(number).bits());
                let count = number >> PACKED_BITS;
                if count > 0 {
                    self.post.receive(from, bytes);
                }
                self.came(from, u64::from(count > 0), (count < MANY).then_some(count.into()))
            }
            (Kind::Count, _) => self.came(from, 0, Some(word(&bytes)?)),
            _ => Err(Error::OtherOperation { rank: from as usize }),
        }
    }

    fn needs(&self, rank: u32) -> Needs {
        if self.complete.has(rank) || rank == self.at.rank { Needs::Nothing } else { Needs::Message }
    }

    fn is_done(&self) -> bool {
        self.missing == 0 && self.next == self.at.ranks && self.post.outgoing.is_empty()
    }
}

impl Exchange for NbxAllChannels {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.census
    }

    fn memory(&self) -> usize {
        // A hashed table has some places that stay free, and a byte for each.
        let hashed = |capacity: usize, entry: usize| {
            if capacity == 0 { 0 } else { capacity.next_power_of_two() * (entry + 1) }
        };
        size_of::<Self>() - size_of::<Post>()
            + 2 * self.served.bytes()
            + hashed(self.several.capacity(), size_of::<(u32, u64)>())
            + hashed(self.coming.capacity(), size_of::<(u32, (u64, Option<u64>))>())
            + self.counts.capacity() * size_of::<(u32, u64)>()
    }
}

/// A set of ranks.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(ranks: u32) -> Self {
        Self(vec![0; ranks.div_ceil(64) as usize])
    }

    /// Puts a rank in, and returns whether it was.
    fn set(&mut self, rank: u32) -> bool {
        let had = self.has(rank);
        self.0[rank as usize / 64] |= 1 << (rank % 64);
        had
    }

    fn has(&self, rank: u32) -> bool {
        self.0[rank as usize / 64] & 1 << (rank % 64) != 0
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
