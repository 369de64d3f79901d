//! Tree broadcast, pipelined in segments: each rank forwards a segment as soon as it has received it.
//!
//! Cost with s segments: (s-1) gamma + lambda, with gamma and lambda of the tree in P-LogP; along a mesh tree in
//! lockstep (alpha + n delta) lg P.   Any P, any tree.   [P-LogP 3.1; thesis 3.2.1]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, Buf, Operation, Phase, RoundList, Schedule, ScheduleOp};

use super::rank_tree::{RankTree, TreePeers};

/// A broadcast down a tree.
pub struct Bcast {
    tree: Arc<RankTree>,
    segments: u32,
    window: u32,
}

impl Bcast {
    /// In `segments` segments, of which at most `window` are in flight on a rank: the window must cover the time of a
    /// segment from the root to the last rank.
    pub fn new(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { tree, segments: segments.max(1), window }
    }
}

impl Schedule for Bcast {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::with_lanes(self.segments).with_window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.tree.position(rank).down_rounds()
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        emit_bcast(&self.tree, BlockRange::new(Buf::Out, 0, 1).segment(lane, self.segments), rank, rounds, into);
    }
}

/// Appends rounds of a broadcast of a block range from the root.
pub fn emit_bcast(tree: &RankTree, part: BlockRange, rank: u32, rounds: Range<u32>, into: &mut RoundList) {
    tree.position(rank).emit_down(rounds, into, |into, _, peers| match peers {
        TreePeers::Parent(from) => into.push(ScheduleOp::Recv { from, part }),
        TreePeers::Children(children) => {
            children.iter().for_each(|child| into.push(ScheduleOp::Send { to: tree.rank_at(*child), part }));
        }
    });
}
