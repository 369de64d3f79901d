//! What comes out of a split, and what it has cost.

use std::time::Duration;

use super::entry::Notes;
use super::finding::Place;
use super::line::Line;

/// What a rank knows after a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The highest notes that any rank has brought.
    pub notes: Notes,
    /// Where the rank belongs, unless it stays out.
    pub place: Option<Place>,
    /// Whether the ranks of the communicator follow a formula, where tables are shared.
    pub line: Option<Line>,
    /// Which ranks are where.
    pub table: Table,
}

/// Which ranks are where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// Those of the own communicator, as ranks of the world.
    Whole(Vec<u32>),
    /// Those of all communicators, one behind the other, in parts.
    Shared {
        /// The part that is here.
        rows: Vec<u32>,
        /// The row with which each part begins, and the number of all.
        starts: Vec<u32>,
        /// The ranks, of the communicator that was split, who hold the parts.
        holders: Vec<u32>,
    },
}

/// What a split consists of, as the thesis counts, and what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until those who sort have their entries.
    Collect,
    /// Until they know which entries are whose. Of a quicksort all of it.
    Splitters,
    /// Until they have those.
    Exchange,
    /// Until those are in order.
    Merge,
    /// Until all know their places.
    Find,
    /// Until all have the whole table.
    Copy,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [Self::Collect, Self::Splitters, Self::Exchange, Self::Merge, Self::Find, Self::Copy];
}

/// What a phase has cost a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries moved or looked at.
    pub work: u64,
    /// When the message came that ended it, if it is over. What was computed then takes its time after that.
    pub until: Option<Duration>,
}
