//! Where a rank is in its schedule.

/// A rank: its phase and its lanes there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) phase: u32,
    /// Lanes of the phase that have been opened.
    pub(crate) opened: u32,
    /// Lanes that are open.
    pub(crate) open: u32,
    /// The first of its open lanes.
    pub(crate) head: u32,
}

/// An open lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) rank: u32,
    pub(crate) lane: u32,
    /// The round that goes on.
    pub(crate) round: u32,
    pub(crate) rounds: u32,
    /// What the round waits for whose end is not known: receives, and sends on shared links.
    pub(crate) waits: u32,
    /// The next open lane of the rank.
    pub(crate) next: u32,
    /// When all of the round is over whose end is known.
    pub(crate) known: u64,
}
