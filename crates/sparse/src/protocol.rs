//! What all protocols for sparse exchanges have in common: how they are called, what they are given and what they give.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use treepie_base::{Bytes, Error};
use treepie_comm::protocol::Means;
use treepie_fabric::Reactor;

use crate::census::Census;
use crate::named::Named;
use crate::protocols::{Crystal, Nbx, NbxAllChannels, NbxBehind, Pcx, Pex, Rsx};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Personalised exchange of sizes.
    Pex,
    /// Personalised census of numbers of messages.
    Pcx,
    /// Remote summation of numbers of messages.
    Rsx,
    /// Nonblocking consensus with synchronous sends: the consistency condition 4 of the paper.
    Nbx,
    /// Nonblocking consensus where the barrier is behind all messages: condition 1.
    NbxBehind,
    /// Nonblocking consensus with a barrier over all channels, in which messages do not overtake it: condition 2.
    NbxAllChannels,
    /// Store and forward.
    Crystal,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Pex, Self::Pcx, Self::Rsx, Self::Nbx, Self::NbxBehind, Self::NbxAllChannels, Self::Crystal];

    /// As `exchange/nbx`.
    pub fn id(self) -> &'static str {
        match self {
            Protocol::Pex => "exchange/pex",
            Protocol::Pcx => "exchange/pcx",
            Protocol::Rsx => "exchange/rsx",
            Protocol::Nbx => "exchange/nbx",
            Protocol::NbxBehind => "exchange/nbx:condition=1",
            Protocol::NbxAllChannels => "exchange/nbx:condition=2",
            Protocol::Crystal => "exchange/crystal",
        }
    }

    /// Whether it needs more than messages, and there is no such thing.
    pub fn lacks(self, means: Means) -> Option<&'static str> {
        (self == Protocol::NbxBehind && !means.arrives_last).then_some("a barrier that is behind all messages")
    }

    /// The protocol on one rank, with these messages.
    pub fn begin(self, at: Place, means: Means, messages: Vec<(u32, Bytes)>) -> Box<dyn Exchange> {
        let post = Post::new(at, messages);
        match self {
            Protocol::Pex => Box::new(Named::new(self, Pex::new(at, post))),
            Protocol::Pcx => Box::new(Named::new(self, Pcx::new(at, post))),
            Protocol::Rsx => Box::new(Named::new(self, Rsx::new(at, means, post))),
            Protocol::Nbx => Box::new(Named::new(self, Nbx::new(at, means, post))),
            Protocol::NbxBehind => Box::new(Named::new(self, NbxBehind::new(post))),
            Protocol::NbxAllChannels => Box::new(Named::new(self, NbxAllChannels::new(at, post))),
            Protocol::Crystal => Box::new(Named::new(self, Crystal::new(at, post))),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Protocol {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self, Error> {
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.id() == id);
        found.ok_or_else(|| Error::Algorithm(format!("there is no protocol `{id}` for exchanges")))
    }
}

/// A rank among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// This rank.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
}

impl Place {
    /// The rank so far ahead around the ring of all.
    pub(crate) fn ahead(self, distance: u32) -> u32 {
        (self.rank + distance) % self.ranks
    }

    /// The rank so far behind.
    pub(crate) fn behind(self, distance: u32) -> u32 {
        (self.rank + self.ranks - distance) % self.ranks
    }

    /// How far ahead a rank is.
    pub(crate) fn distance_to(self, rank: u32) -> u32 {
        (rank + self.ranks - self.rank) % self.ranks
    }

    /// ceil(lg P).
    pub(crate) fn rounds(self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }
}

/// An exchange on one rank, by some protocol.
pub trait Exchange: Reactor {
    /// The messages: those to be sent, and those that have come.
    fn post(&mut self) -> &mut Post;

    /// What all ranks together have seen, once it is done.
    fn census(&self) -> Census;

    /// Bytes that the protocol itself holds on this rank, at most; messages are not counted, nor their queues.
    fn memory(&self) -> usize;
}

/// Messages of a rank in an exchange.
#[derive(Debug)]
pub struct Post {
    /// Those to others that are still to be sent.
    pub(crate) outgoing: VecDeque<(u32, Bytes)>,
    received: Vec<(u32, Bytes)>,
    /// How many have come from others.
    pub(crate) came: u64,
    /// Of what this rank sends.
    pub(crate) census: Census,
}

impl Post {
    /// Those to oneself have arrived.
    pub(crate) fn new(at: Place, messages: Vec<(u32, Bytes)>) -> Self {
        let longest = messages.iter().map(|(_, bytes)| bytes.as_slice().len()).max().unwrap_or(0);
        let census = Census::of(messages.len(), longest);
        let (received, outgoing) = if messages.iter().any(|(to, _)| *to == at.rank) {
            messages.into_iter().partition(|(to, _)| *to == at.rank)
        } else {
            (Vec::new(), messages)
        };
        Self { outgoing: outgoing.into(), received, came: 0, census }
    }

    pub(crate) fn receive(&mut self, from: u32, bytes: Bytes) {
        self.came += 1;
        self.received.push((from, bytes));
    }

    /// Takes what has come so far, in the order in which it came.
    pub fn take_received(&mut self) -> Vec<(u32, Bytes)> {
        std::mem::take(&mut self.received)
    }

    /// Takes all that has come, in the order of ranks, and of one rank in the order in which it was sent.
    pub fn take_sorted(&mut self) -> Vec<(u32, Bytes)> {
        let mut received = self.take_received();
        received.sort_by_key(|(from, _)| *from);
        received
    }
}

#[cfg(test)]
mod tests {
    use treepie_comm::protocol::PROTOCOLS;

    use super::*;

    #[test]
    fn names_are_those_that_handles_and_the_environment_know() {
        let ids = PROTOCOLS.iter().map(|(id, _)| *id);
        let known = ids.filter(|id| id.starts_with("exchange/") && *id != "exchange/auto");
        assert_eq!(known.collect::<Vec<_>>(), Protocol::ALL.map(Protocol::id));
        Protocol::ALL.into_iter().for_each(|protocol| assert_eq!(protocol.id().parse(), Ok(protocol)));
    }
}
