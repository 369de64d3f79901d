//! Errors in schedules, and where they are.

/// A location in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleLocation {
    /// The rank.
    pub rank: u32,
    /// The phase.
    pub phase: u32,
    /// The lane.
    pub lane: u32,
    /// The round.
    pub round: u32,
}

impl std::fmt::Display for ScheduleLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, phase {}, lane {}, round {}", self.rank, self.phase, self.lane, self.round)
    }
}

/// An error in a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A message that its peer, which has finished, never receives or sends.
    #[error("{at}: unmatched message {direction} rank {peer} ({what})")]
    UnmatchedMessage {
        /// The waiting operation.
        at: ScheduleLocation,
        /// `to` or `from`.
        direction: &'static str,
        /// The peer.
        peer: u32,
        /// The block.
        what: String,
    },
    /// Ranks wait for each other.
    #[error("deadlock: {at} waits for a message {direction} rank {peer} ({what})")]
    Deadlock {
        /// One of the waiting operations.
        at: ScheduleLocation,
        /// `to` or `from`.
        direction: &'static str,
        /// The peer.
        peer: u32,
        /// The block.
        what: String,
    },
    /// Sender and receiver disagree about the length.
    #[error("{at}: received {got} elements from rank {peer}, expected {expected} ({what})")]
    LengthMismatch {
        /// The receiver.
        at: ScheduleLocation,
        /// The sender.
        peer: u32,
        /// Elements sent.
        got: usize,
        /// Elements expected.
        expected: usize,
        /// The block.
        what: String,
    },
    /// A message to or from a rank that does not exist, or the rank itself, which has to copy instead.
    #[error("{at}: invalid peer {peer}: expected another one of {ranks} ranks")]
    InvalidPeer {
        /// Where.
        at: ScheduleLocation,
        /// The peer.
        peer: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A block range that is not in the buffer.
    #[error("{at}: block {block} is not in {buf}")]
    OutOfBounds {
        /// Where.
        at: ScheduleLocation,
        /// The buffer.
        buf: String,
        /// The block, or the position of a view.
        block: u32,
    },
    /// The caller's send buffer would be overwritten.
    #[error("{at}: writes block {block} of In, the caller's send buffer")]
    InputWritten {
        /// The writing operation.
        at: ScheduleLocation,
        /// The block.
        block: u32,
    },
    /// The schedule emits other rounds, or another number of them, when several are requested at once.
    #[error("{at}: emitted differently alone and in a batch of rounds")]
    BatchMismatch {
        /// The round.
        at: ScheduleLocation,
    },
    /// A read of elements that were never written.
    #[error("{at}: reads uninitialized block {block} of {buf}")]
    UninitializedRead {
        /// The reading operation.
        at: ScheduleLocation,
        /// The buffer.
        buf: String,
        /// The block.
        block: u32,
    },
    /// Two operations that may be concurrent access the same memory, and one writes.
    #[error("{at}: data race on block {block} of {buf}")]
    Race {
        /// The second operation.
        at: ScheduleLocation,
        /// The buffer.
        buf: String,
        /// The block.
        block: u32,
    },
    /// A contribution would be combined twice.
    #[error("{at}: rank {contributor}'s contribution to block {block} is combined twice")]
    DuplicateContribution {
        /// Where.
        at: ScheduleLocation,
        /// The rank that contributed it.
        contributor: u32,
        /// The block.
        block: u32,
    },
    /// Operands are different elements, or the two ranges of a copy differ in length.
    #[error("{at}: combines different elements into block {block}")]
    ElementMismatch {
        /// Where.
        at: ScheduleLocation,
        /// The block.
        block: u32,
    },
    /// The result is wrong.
    #[error("rank {rank} ends with {what} in block {block}")]
    WrongResult {
        /// The rank.
        rank: u32,
        /// The block.
        block: u32,
        /// What the block holds instead of the result.
        what: String,
    },
    /// A rank leaves a barrier that another may not have entered.
    #[error("rank {rank} may leave the barrier before rank {missing} enters it")]
    EarlyExit {
        /// The rank that leaves.
        rank: u32,
        /// The rank that may not have entered.
        missing: u32,
    },
}
