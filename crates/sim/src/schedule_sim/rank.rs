//! Position of a rank in its schedule.

/// A rank: its phase, and its lanes there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankState {
    pub(crate) phase: u32,
    /// Lanes of the phase opened so far.
    pub(crate) opened: u32,
    /// Lanes currently open.
    pub(crate) open: u32,
    /// Head of the list of its open lanes.
    pub(crate) head: u32,
}

/// An open lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneState {
    pub(crate) rank: u32,
    pub(crate) lane: u32,
    /// The current round.
    pub(crate) round: u32,
    pub(crate) rounds: u32,
    /// Operations of the round whose completion is not known in advance: receives, and sends on shared links.
    pub(crate) pending: u32,
    /// The next open lane of the rank.
    pub(crate) next: u32,
    /// Latest known completion of the other operations.
    pub(crate) known_completion: u64,
}
