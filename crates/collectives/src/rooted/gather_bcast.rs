//! Allgather by a gather up a tree and a broadcast of all blocks down it.
//!
//! Cost with a binomial tree: 2 alpha ceil(lg P) + n(P-1) beta + n P ceil(lg P) beta; few messages, for short blocks.
//! Over two layers, each slow link carries every block once or twice.   Any P, any tree.   [thesis 3.2.2]
//!
//! The gather collects in the result itself. Any rank can be the root of the tree.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, BlockRun, Buf, Operation, Phase, RoundList, Schedule};

use crate::trees::RankTree;
use crate::trees::bcast::emit_bcast;
use crate::trees::scatter_gather::emit_gather;

/// An allgather by a gather and a broadcast.
pub struct GatherBcast {
    tree: Arc<RankTree>,
    segments: u32,
    window: u32,
}

impl GatherBcast {
    /// Along this tree; the broadcast is in `segments` segments of each block, of which at most `window` are in flight
    /// on a rank.
    pub fn new(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { tree, segments: segments.max(1), window }
    }
}

impl Schedule for GatherBcast {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 { Phase::SINGLE_LANE } else { Phase::with_lanes(self.segments).with_window(self.window) }
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let position = self.tree.position(rank);
        if phase == 0 { position.up_rounds().max(1) } else { position.down_rounds() }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        if phase == 0 {
            return emit_gather(&self.tree, Buf::Out, (0, 1), rank, rounds, into);
        }
        let all = BlockRange::new(Buf::Out, 0, self.blocks()).segment(lane, self.segments);
        emit_bcast(&self.tree, all, rank, rounds, into);
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.tree.resolve_view(lo, len, run);
    }
}
