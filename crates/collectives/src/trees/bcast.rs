//! Tree broadcast, pipelined in segments: each rank forwards a segment as soon as it has received it.
//!
//! Cost with s segments: (s-1) gamma + lambda, with gamma and lambda of the tree in P-LogP; along a mesh tree in
//! lockstep (alpha + n delta) lg P.   Any P, any tree.   [P-LogP 3.1; thesis 3.2.1]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, Buf, Operation, Phase, RoundList, Schedule, ScheduleOp};

use super::rank_tree::{RankTree, TreePeers};

/// A broadcast down a tree, or down several with the same root that carry the segments in turn.
pub struct Bcast {
    trees: Vec<Arc<RankTree>>,
    segments: u32,
    window: u32,
}

impl Bcast {
    /// In `segments` segments, of which at most `window` are in flight on a rank: the window must cover the time of a
    /// segment from the root to the last rank.
    pub fn new(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { trees: vec![tree], segments: segments.max(1), window }
    }

    /// Down several trees, in `segments` segments, rounded up to a multiple of the trees. A segment may be ahead of
    /// earlier ones in other trees, so all are in flight at once unless there is a window of each tree.
    pub fn along_trees(trees: Vec<Arc<RankTree>>, segments: u32, window: Option<u32>) -> Self {
        let window = window.map_or(u32::MAX, |window| window.saturating_mul(trees.len() as u32));
        let segments = segments.max(1).next_multiple_of(trees.len() as u32);
        Self { trees, segments, window }
    }

    fn tree(&self, lane: u32) -> &RankTree {
        &self.trees[lane as usize % self.trees.len()]
    }
}

impl Schedule for Bcast {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: self.tree(0).root() }
    }

    fn ranks(&self) -> u32 {
        self.tree(0).ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::with_lanes(self.segments).with_window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, lane: u32) -> u32 {
        self.tree(lane).position(rank).down_rounds()
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        emit_bcast(self.tree(lane), BlockRange::new(Buf::Out, 0, 1).segment(lane, self.segments), rank, rounds, into);
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
