//! Schedules: collective algorithms as phases, lanes and rounds of operations.

use std::ops::Range;

use treepie_topology::TieBreak;

use crate::op::{Buf, RoundList};

/// A collective operation, in terms of the blocks of `In` and `Out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// No rank leaves before all have entered.
    Barrier,
    /// The root's `Out` is copied to the `Out` of all ranks.
    Bcast {
        /// The sender.
        root: u32,
    },
    /// Block r of the root's `In` is copied to rank r's `Out`.
    Scatter {
        /// The sender.
        root: u32,
    },
    /// Rank r's `In` becomes block r of the root's `Out`.
    Gather {
        /// The receiver.
        root: u32,
    },
    /// Rank r's `In` becomes block r of the `Out` of all ranks.
    Allgather,
    /// The root's `Out` is the reduction of all `In`.
    Reduce {
        /// The receiver.
        root: u32,
    },
    /// The `Out` of all ranks is the reduction of all `In`.
    Allreduce,
    /// Rank r's `Out` is block r of the reduction of all `In`.
    ReduceScatter,
    /// Block j of rank i's `In` becomes block i of rank j's `Out`.
    Alltoall,
    /// Rank r's `Out` is the reduction of `In` of ranks 0 to r.
    Scan,
    /// Rank r's `Out` is the reduction of `In` of ranks 0 to r - 1; that of rank 0 is undefined.
    Exscan,
}

/// The blocks of a buffer, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferBlocks {
    /// None.
    Empty,
    /// Only block r of rank r.
    OwnBlock,
    /// Blocks with numbers of their own, only in scratch memory of operations on blocks of equal length: a rank that
    /// forwards blocks of others may have more of them than there are blocks in `In` and `Out`.
    Uniform {
        /// Their number.
        blocks: u32,
    },
    /// A range of positions of a view, in the order of that view.
    ViewRange {
        /// The view.
        view: u8,
        /// The first position.
        lo: u32,
        /// The number of positions.
        len: u32,
    },
}

impl BufferBlocks {
    /// All blocks in the order of block numbers.
    pub const fn all(blocks: u32) -> Self {
        BufferBlocks::ViewRange { view: 0, lo: 0, len: blocks }
    }
}

impl Operation {
    /// All operations; rooted ones with this root.
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

    /// The operation of this name, with this root if it is rooted.
    pub fn from_name(name: &str, root: u32) -> Option<Self> {
        Self::all(root).into_iter().find(|operation| operation.name() == name)
    }

    /// The name, which is the prefix of algorithm ids.
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

    /// The root of a rooted operation.
    pub const fn root(self) -> Option<u32> {
        match self {
            Operation::Bcast { root }
            | Operation::Scatter { root }
            | Operation::Gather { root }
            | Operation::Reduce { root } => Some(root),
            _ => None,
        }
    }

    /// Whether it combines contributions.
    pub const fn is_reduction(self) -> bool {
        matches!(
            self,
            Operation::Reduce { .. }
                | Operation::Allreduce
                | Operation::ReduceScatter
                | Operation::Scan
                | Operation::Exscan
        )
    }

    /// The blocks of a rank's `In`, out of `blocks`.
    pub fn input_blocks(self, rank: u32, blocks: u32) -> BufferBlocks {
        match self {
            Operation::Barrier | Operation::Bcast { .. } => BufferBlocks::Empty,
            Operation::Scatter { root } if rank != root => BufferBlocks::Empty,
            Operation::Gather { .. } | Operation::Allgather => BufferBlocks::OwnBlock,
            _ => BufferBlocks::all(blocks),
        }
    }

    /// The blocks of a rank's `Out`, out of `blocks`.
    pub fn output_blocks(self, rank: u32, blocks: u32) -> BufferBlocks {
        match self {
            Operation::Barrier => BufferBlocks::Empty,
            Operation::Gather { root } | Operation::Reduce { root } if rank != root => BufferBlocks::Empty,
            Operation::Scatter { .. } | Operation::ReduceScatter => BufferBlocks::OwnBlock,
            _ => BufferBlocks::all(blocks),
        }
    }
}

/// The synchronization at the end of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PhaseEnd {
    /// A rank continues when all its lanes are done.
    #[default]
    Local,
    /// For the cost model, a rank continues when the lanes of all ranks are done: the algorithm's authors have a
    /// barrier there.
    Global,
}

/// The maximum number of lanes that are open concurrently on a rank, even if the phase has a larger window: executors
/// have this many numbers to distinguish the messages of lanes.
pub const MAX_OPEN_LANES: u32 = 1 << 12;

/// Segments of each coordinator of a pipeline over clusters that are in flight: those that cross the wide area while
/// others are on their way up and down. Schedules have this window, and their times are predicted with it.
pub const SEGMENTS_IN_FLIGHT: u32 = 8;

/// A phase of a schedule: a set of independent lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The number of lanes.
    pub lanes: u32,
    /// Lane j opens when all lanes up to j - window are closed on this rank.
    pub window: u32,
    /// The synchronization at its end.
    pub end: PhaseEnd,
}

impl Phase {
    /// One lane.
    pub const SINGLE_LANE: Self = Self::with_lanes(1);

    /// A phase whose lanes are all open concurrently.
    pub const fn with_lanes(lanes: u32) -> Self {
        Self { lanes, window: u32::MAX, end: PhaseEnd::Local }
    }

    /// This phase with a window.
    pub const fn with_window(self, window: u32) -> Self {
        Self { window, ..self }
    }

    /// How many lanes can be open concurrently on a rank.
    pub fn max_open_lanes(self) -> u32 {
        self.lanes.min(self.window.clamp(1, MAX_OPEN_LANES))
    }

    /// This phase with [`PhaseEnd::Global`].
    pub const fn with_global_end(self) -> Self {
        Self { end: PhaseEnd::Global, ..self }
    }
}

/// Consecutive blocks, or one segment of each, to which a view maps positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The first block.
    pub block: u32,
    /// The number of blocks.
    pub blocks: u32,
    /// The segment of each block.
    pub segment: u32,
    /// The number of segments of each block.
    pub segments: u32,
}

impl BlockRun {
    /// Whole blocks.
    pub const fn whole_blocks(block: u32, blocks: u32) -> Self {
        Self { block, blocks, segment: 0, segments: 1 }
    }
}

/// A collective algorithm as the operations of each rank, without data, memory or communication.
///
/// A schedule is a sequence of phases; a phase has lanes; a lane has rounds; a round has operations. The operations of
/// a round are independent of each other. Round k + 1 of a lane starts on a rank when round k has finished there. The
/// lanes of a phase are independent of each other. A message belongs to its phase and lane: the k-th send of a rank to
/// another in one lane matches the k-th receive there, whatever their rounds are.
///
/// Implementations must be pure: equal calls give equal results. A simulation calls `emit` for millions of operations,
/// in batches of rounds, so costly work common to rounds belongs before its loop.
pub trait Schedule: Send + Sync {
    /// The operation it implements.
    fn operation(&self) -> Operation;

    /// The number of ranks.
    fn ranks(&self) -> u32;

    /// The number of blocks: often one per rank, but a broadcast may have a single one.
    fn blocks(&self) -> u32 {
        self.ranks()
    }

    /// The number of scratch buffers.
    fn scratch_buffers(&self) -> u8 {
        0
    }

    /// The blocks of a scratch buffer on a rank; all by default.
    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        let _ = (tmp, rank);
        BufferBlocks::all(self.blocks())
    }

    /// The number of phases.
    fn phases(&self) -> u32 {
        1
    }

    /// The shape of a phase; a single lane by default.
    fn phase(&self, phase: u32) -> Phase {
        let _ = phase;
        Phase::SINGLE_LANE
    }

    /// The number of rounds of a rank in a lane. Ranks may differ.
    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32;

    /// Appends some rounds of a rank in a lane to `into`.
    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList);

    /// Maps positions of a view to blocks; a position may have none. Never called for view 0.
    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let _ = (view, lo, len, run);
        unreachable!("a schedule that defines views resolves them");
    }

    /// The same on a rank, which is what callers use: where views differ between ranks, a schedule implements this. On
    /// all ranks a position has a block or has none, so that a range has the same length everywhere.
    fn resolve_view_on(&self, rank: u32, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let _ = rank;
        self.resolve_view(view, lo, len, run);
    }

    /// The direction of a lane's messages over exactly half a ring.
    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        let _ = (phase, lane);
        TieBreak::Parity
    }
}

/// The blocks of a buffer of a rank.
pub fn buffer_blocks(schedule: &dyn Schedule, rank: u32, buf: Buf) -> BufferBlocks {
    match buf {
        Buf::In => schedule.operation().input_blocks(rank, schedule.blocks()),
        Buf::Out => schedule.operation().output_blocks(rank, schedule.blocks()),
        Buf::Tmp(tmp) => schedule.scratch_blocks(tmp, rank),
    }
}

/// All rounds of each lane of each rank, with rank, phase and lane.
pub fn for_each_lane(schedule: &dyn Schedule, visit: impl FnMut(u32, u32, u32, &RoundList)) {
    for_each_lane_of(schedule, 0..schedule.ranks(), visit);
}

/// The same for these ranks.
pub fn for_each_lane_of(
    schedule: &dyn Schedule,
    ranks: impl IntoIterator<Item = u32>,
    mut visit: impl FnMut(u32, u32, u32, &RoundList),
) {
    let mut rounds = RoundList::new();
    for rank in ranks {
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                rounds.clear();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                visit(rank, phase, lane, &rounds);
            }
        }
    }
}
