//! The result of a split, and its costs.

use std::time::Duration;

use super::affine_ranks::AffineRanks;
use super::entry::Piggyback;
use super::placement::SplitPlacement;

/// The result of a split on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitResult {
    /// The elementwise maximum of the piggybacks of all ranks.
    pub piggyback: Piggyback,
    /// The placement of the rank, if it has a color.
    pub placement: Option<SplitPlacement>,
    /// The sequence of the communicator's ranks, where the table is distributed.
    pub affine: Option<AffineRanks>,
    /// The rank table.
    pub table: RankTable,
}

/// The world ranks of the new communicators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankTable {
    /// Those of the own communicator.
    Full(Vec<u32>),
    /// Those of all communicators, one after the other, distributed over the holders.
    Shared {
        /// The part of this rank.
        rows: Vec<u32>,
        /// The first row of each part, and the total number of rows.
        starts: Vec<u32>,
        /// The ranks that hold the parts, in the communicator that was split.
        holders: Vec<u32>,
    },
}

/// The phases of a split, as in the thesis, and those after the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPhase {
    /// Until the sorters have their entries.
    Collect,
    /// Until the splitters are known. For a quicksort, the whole sort.
    Splitters,
    /// Until the sorters have received their runs.
    Exchange,
    /// Until the runs are merged.
    Merge,
    /// Until all ranks know their placement.
    Find,
    /// Until all ranks have the full table.
    Copy,
}

impl SplitPhase {
    /// All phases, in order.
    pub const ALL: [Self; 6] = [Self::Collect, Self::Splitters, Self::Exchange, Self::Merge, Self::Find, Self::Copy];
}

/// The cost of a phase on a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitPhaseCost {
    /// Messages sent.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Entries moved or compared.
    pub work: u64,
    /// Arrival time of the message that completed it, if it is complete. The computation that this message triggers
    /// comes after that.
    pub end_time: Option<Duration>,
}
