//! Proves a schedule: by running it on elements that know whose contributions they hold.
//!
//! No message is buffered: a send ends when its receive has begun. As nothing is received from just anybody, whether such
//! a run comes to an end does not depend on who is faster, so one run shows that there is no deadlock. What operations
//! read and write while they go on is compared for all that may go on at once, so one run also shows that there is no
//! race: within a round, and between the lanes of a phase that may be open together.
//!
//! A schedule may not write `In`: it is the caller's. In place, where `In` and `Out` are the same memory, it writes `Out`.
//! An all-to-all in place is no different from one that is not: the caller has to give it a copy of the input.
//!
//! A proof is for given block lengths, which should include 0, 1 and some that nothing divides.

mod batches;
mod contract;
mod memory;
mod named;
mod run;
mod staging;
mod value;

pub use value::MOST_RANKS;

use crate::layout::Layouts;
use crate::schedule::Schedule;

/// What is proved beyond the result itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Buffers are the same memory where callers may have them so.
    pub in_place: bool,
}

/// What was found out about a right schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Contributions are combined in the order of ranks, so that the operator need not commute.
    pub ordered: bool,
    /// Of an allreduce: each element was combined in the same way on all ranks, so that rounding gives all the same result.
    /// True of other operations.
    pub same: bool,
    /// Messages of all ranks.
    pub messages: u64,
    /// The most elements that a rank may have to hold at once of operands that it has received.
    pub staging: usize,
}

/// Where in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The rank.
    pub rank: u32,
    /// The phase.
    pub phase: u32,
    /// The lane.
    pub lane: u32,
    /// The round.
    pub round: u32,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, phase {}, lane {}, round {}", self.rank, self.phase, self.lane, self.round)
    }
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A message that the peer, which has ended, never takes or sends.
    #[error("{at}: a message {direction} rank {peer} ({what}) that rank {peer} knows nothing of")]
    Unpaired {
        /// Who waits.
        at: At,
        /// `to` or `from`.
        direction: &'static str,
        /// The peer.
        peer: u32,
        /// What it is about.
        what: String,
    },
    /// Ranks wait for each other.
    #[error("deadlock: {at} waits for a message {direction} rank {peer} ({what})")]
    Deadlock {
        /// One of those who wait.
        at: At,
        /// `to` or `from`.
        direction: &'static str,
        /// For whom.
        peer: u32,
        /// What the message is about.
        what: String,
    },
    /// Sender and receiver disagree about the length.
    #[error("{at}: {got} elements from rank {peer} for {room} ({what})")]
    Length {
        /// The receiver.
        at: At,
        /// The sender.
        peer: u32,
        /// Elements sent.
        got: usize,
        /// Elements expected.
        room: usize,
        /// Where to.
        what: String,
    },
    /// A message to or from nobody, or the rank itself, which has to copy instead.
    #[error("{at}: a message to or from rank {peer}, where another one of {ranks} ranks must be")]
    Peer {
        /// Where.
        at: At,
        /// The peer.
        peer: u32,
        /// How many ranks there are.
        ranks: u32,
    },
    /// A part that the buffer has no room for.
    #[error("{at}: block {block} is not in {buf}")]
    Outside {
        /// Where.
        at: At,
        /// The buffer.
        buf: String,
        /// The block, or the position of a view.
        block: u32,
    },
    /// The caller's input would be overwritten.
    #[error("{at}: writes block {block} of In, which is the caller's")]
    Input {
        /// Who writes.
        at: At,
        /// The block.
        block: u32,
    },
    /// The schedule writes other rounds, or another number of them, when it is asked for several at once.
    #[error("{at}: is written differently alone and together with other rounds")]
    Batches {
        /// The round.
        at: At,
    },
    /// Something is read that was never written.
    #[error("{at}: reads block {block} of {buf}, where nothing has been written")]
    Undefined {
        /// Who reads.
        at: At,
        /// The buffer.
        buf: String,
        /// The block.
        block: u32,
    },
    /// Two operations that may go on at once touch the same memory, and one writes.
    #[error("{at}: two operations at once on block {block} of {buf}")]
    Race {
        /// Where the second begins.
        at: At,
        /// The buffer.
        buf: String,
        /// The block.
        block: u32,
    },
    /// A contribution would be counted twice.
    #[error("{at}: rank {twice}'s contribution to block {block} is combined twice")]
    Twice {
        /// Where.
        at: At,
        /// Whose.
        twice: u32,
        /// The block.
        block: u32,
    },
    /// Different things are combined, or sides of a copy differ in length.
    #[error("{at}: combines different elements into block {block}")]
    Mixed {
        /// Where.
        at: At,
        /// The block.
        block: u32,
    },
    /// The result is wrong.
    #[error("rank {rank} ends with {what} in block {block}")]
    Result {
        /// Whose result.
        rank: u32,
        /// The block.
        block: u32,
        /// What is there instead of the right thing.
        what: String,
    },
    /// A rank leaves a barrier that another has not come to.
    #[error("rank {rank} leaves the barrier without knowing that rank {missing} has come")]
    Early {
        /// Who leaves.
        rank: u32,
        /// Who may not have come.
        missing: u32,
    },
}

/// Proves a schedule for given block lengths, or says what is wrong with it.
///
/// `layouts` gives the lengths for each rank; they are the same for all but an all-to-all of unequal counts.
pub fn check(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, mode: Mode) -> Result<Proof, Fault> {
    assert!(schedule.ranks() <= MOST_RANKS, "a proof can have {MOST_RANKS} ranks");
    run::Run::new(schedule, layouts, mode).prove()
}
