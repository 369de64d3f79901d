//! What a machine is told, and what it tells.

use treepie_topology::Tie;

use crate::time::Time;

/// A message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub from: u32,
    /// Who gets it.
    pub to: u32,
    /// How long it is.
    pub bytes: u64,
    /// Messages of a pair of ranks in one channel keep their order when there is noise, or on demand.
    pub channel: u32,
    /// What the caller knows it by.
    pub token: u64,
    /// Which way it goes at exactly half a ring.
    pub tie: Tie,
}

/// A send that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// When the sender's CPU is free again; at the earliest, if the end of the send is not known.
    pub free: Time,
    /// When the send is over, if that is known. Otherwise [`What::Sent`] will tell.
    pub over: Option<Time>,
}

/// Something that happens to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When: never before the one before.
    pub time: Time,
    /// To whom.
    pub rank: u32,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message is there. The CPU has not done anything about it yet: see [`Machine::receive`](super::Machine::receive).
    Delivered {
        /// The sender.
        from: u32,
        /// Its length.
        bytes: u64,
        /// Its channel.
        channel: u32,
        /// Its token.
        token: u64,
    },
    /// A send whose end was not known is over.
    Sent {
        /// The message's token.
        token: u64,
    },
    /// The time has come that a rank wanted to be woken at.
    Woken {
        /// What it gave then.
        token: u64,
    },
    /// The rank is dead: nothing else will happen to it.
    Died,
}

/// What has gone over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries of the queue that were worked off.
    pub steps: u64,
    /// The most messages that were on the way at once.
    pub most_in_flight: u64,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// For ranks.
    pub ranks: usize,
    /// For links.
    pub links: usize,
    /// For messages on the way, at the time when there were most.
    pub in_flight: usize,
}
