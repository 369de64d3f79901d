//! The description of an algorithm.

use std::ops::Range;

use treepie_topology::Tie;

use crate::op::{Buf, Rounds};

/// What the ranks do together. Where it says how the blocks lie, `In` and `Out` are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// All wait for all.
    Barrier,
    /// The root's `Out` comes to everybody's `Out`.
    Bcast {
        /// Who has it.
        root: u32,
    },
    /// Block r of the root's `In` comes to rank r's `Out`.
    Scatter {
        /// Who has it.
        root: u32,
    },
    /// Rank r's `In` becomes block r of the root's `Out`.
    Gather {
        /// Who gets it.
        root: u32,
    },
    /// Rank r's `In` becomes block r of everybody's `Out`.
    Allgather,
    /// The combination of all `In` comes to the root's `Out`.
    Reduce {
        /// Who gets it.
        root: u32,
    },
    /// The combination of all `In` comes to everybody's `Out`.
    Allreduce,
    /// Block r of the combination of all `In` comes to rank r's `Out`.
    ReduceScatter,
    /// Block j of rank i's `In` becomes block i of rank j's `Out`.
    Alltoall,
    /// The combination of `In` of ranks 0 to r comes to rank r's `Out`.
    Scan,
    /// The combination of `In` of ranks 0 to r - 1 comes to rank r's `Out`; rank 0 gets nothing.
    Exscan,
}

/// Which blocks a buffer has room for, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// None.
    Nothing,
    /// Only the one with the number of the rank.
    Own,
    /// A range of positions of a view, in the order of that view.
    Positions {
        /// The view.
        view: u8,
        /// The first position.
        lo: u32,
        /// How many.
        len: u32,
    },
}

impl Held {
    /// All blocks in their own order.
    pub const fn all(blocks: u32) -> Self {
        Held::Positions { view: 0, lo: 0, len: blocks }
    }
}

impl Operation {
    /// All operations, with this root where they have one.
    pub const fn all(root: u32) -> [Self; 11] {
        [
            Operation::Barrier,
            Operation::Bcast { root },
            Operation::Scatter { root },
            Operation::Gather { root },
            Operation::Allgather,
            Operation::Reduce { root },
            Operation::Allreduce,
            Operation::ReduceScatter,
            Operation::Alltoall,
            Operation::Scan,
            Operation::Exscan,
        ]
    }

    /// The operation of this name, with this root if it has one.
    pub fn named(name: &str, root: u32) -> Option<Self> {
        Self::all(root).into_iter().find(|operation| operation.name() == name)
    }

    /// The name as it begins the ids of algorithms.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "barrier",
            Operation::Bcast { .. } => "bcast",
            Operation::Scatter { .. } => "scatter",
            Operation::Gather { .. } => "gather",
            Operation::Allgather => "allgather",
            Operation::Reduce { .. } => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Alltoall => "alltoall",
            Operation::Scan => "scan",
            Operation::Exscan => "exscan",
        }
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<u32> {
        match self {
            Operation::Bcast { root }
            | Operation::Scatter { root }
            | Operation::Gather { root }
            | Operation::Reduce { root } => Some(root),
            _ => None,
        }
    }

    /// Whether contributions are combined.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Operation::Reduce { .. }
                | Operation::Allreduce
                | Operation::ReduceScatter
                | Operation::Scan
                | Operation::Exscan
        )
    }

    /// Which of `blocks` blocks a rank's `In` has.
    pub fn input(self, rank: u32, blocks: u32) -> Held {
        match self {
            Operation::Barrier | Operation::Bcast { .. } => Held::Nothing,
            Operation::Scatter { root } if rank != root => Held::Nothing,
            Operation::Gather { .. } | Operation::Allgather => Held::Own,
            _ => Held::all(blocks),
        }
    }

    /// Which of `blocks` blocks a rank's `Out` has.
    pub fn output(self, rank: u32, blocks: u32) -> Held {
        match self {
            Operation::Barrier => Held::Nothing,
            Operation::Gather { root } | Operation::Reduce { root } if rank != root => Held::Nothing,
            Operation::Scatter { .. } | Operation::ReduceScatter => Held::Own,
            _ => Held::all(blocks),
        }
    }
}

/// Where a rank goes on after a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum End {
    /// When all lanes of this rank are done.
    #[default]
    Local,
    /// As a cost, when those of all ranks are: the algorithm's authors let all ranks wait for each other there.
    Global,
}

/// A part of a schedule whose lanes go on independently of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// How many lanes.
    pub lanes: u32,
    /// Lane j opens when all lanes up to j - window have closed on this rank.
    pub window: u32,
    /// How it ends.
    pub end: End,
}

impl Phase {
    /// One lane.
    pub const ONE: Self = Self::lanes(1);

    /// So many lanes, all open at once.
    pub const fn lanes(lanes: u32) -> Self {
        Self { lanes, window: u32::MAX, end: End::Local }
    }

    /// The same with a window.
    pub const fn window(self, window: u32) -> Self {
        Self { window, ..self }
    }

    /// The same with all ranks waiting for each other at its end.
    pub const fn global(self) -> Self {
        Self { end: End::Global, ..self }
    }
}

/// What a view turns positions into: consecutive blocks, or a segment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub block: u32,
    /// How many.
    pub blocks: u32,
    /// Which segment of each.
    pub seg: u32,
    /// Into how many segments they are cut.
    pub of: u32,
}

impl Run {
    /// Whole blocks.
    pub const fn whole(block: u32, blocks: u32) -> Self {
        Self { block, blocks, seg: 0, of: 1 }
    }
}

/// An algorithm for a collective operation, as what each rank does: no data, no memory, no communication.
///
/// A schedule is a sequence of phases; a phase has lanes; a lane has rounds; a round has operations. The operations of
/// a round are independent of each other. Round k + 1 of a lane begins on a rank when round k has ended there. The lanes
/// of a phase know nothing of each other. A message belongs to its phase and lane: the k-th send of a rank to another in
/// one lane meets the k-th receive there, whatever their rounds are.
///
/// Implementors must give the same answers whenever asked: nothing here changes. `emit` is called for millions of
/// operations in a simulation, in batches of rounds, so what is costly and common to rounds belongs before its loop.
pub trait Schedule: Send + Sync {
    /// What it does.
    fn operation(&self) -> Operation;

    /// How many ranks do it.
    fn ranks(&self) -> u32;

    /// How many blocks there are: often one for each rank, but a broadcast may have a single one.
    fn blocks(&self) -> u32;

    /// How many scratch buffers it needs.
    fn temporaries(&self) -> u8 {
        0
    }

    /// Which blocks a scratch buffer has on a rank. All of them unless said otherwise.
    fn temporary(&self, tmp: u8, rank: u32) -> Held {
        let _ = (tmp, rank);
        Held::all(self.blocks())
    }

    /// How many phases.
    fn phases(&self) -> u32 {
        1
    }

    /// A phase; a single lane unless said otherwise.
    fn phase(&self, phase: u32) -> Phase {
        let _ = phase;
        Phase::ONE
    }

    /// How many rounds a rank has in a lane. Ranks may differ.
    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32;

    /// Writes some rounds of a rank in a lane.
    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds);

    /// Turns positions of a view into blocks. Positions may be empty: those yield nothing. View 0 is never asked for.
    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let _ = (view, lo, len, run);
        unreachable!("a schedule that defines views turns them into blocks");
    }

    /// Which way messages of a lane go at exactly half a ring.
    fn tie(&self, phase: u32, lane: u32) -> Tie {
        let _ = (phase, lane);
        Tie::Parity
    }
}

/// Which blocks a buffer of a rank has room for.
pub fn held(schedule: &dyn Schedule, rank: u32, buf: Buf) -> Held {
    match buf {
        Buf::In => schedule.operation().input(rank, schedule.blocks()),
        Buf::Out => schedule.operation().output(rank, schedule.blocks()),
        Buf::Tmp(tmp) => schedule.temporary(tmp, rank),
    }
}
