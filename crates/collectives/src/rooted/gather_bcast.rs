//! Allgather over a root: a gather up a tree, then a broadcast of everything down it.
//!
//! Cost with a binomial tree: 2 alpha ceil(lg P) + n(P-1) beta + n P ceil(lg P) beta; few messages, for short blocks. Over
//! two layers, each slow link carries every block once or twice.   Any P, any tree.   [thesis 3.2.2]
//!
//! All is collected in the result itself. Any rank can be the root.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Operation, Part, Phase, Rounds, Run, Schedule};

use crate::trees::Placed;
use crate::trees::bcast::emit_bcast;
use crate::trees::blocks::emit_gather;

/// An allgather by a gather and a broadcast.
pub struct GatherBcast {
    tree: Arc<Placed>,
    segments: u32,
    window: u32,
}

impl GatherBcast {
    /// Along this tree; for the broadcast each block is cut into so many segments, of which at most `window` are on the
    /// way on a rank at once.
    pub fn new(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
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

    fn blocks(&self) -> u32 {
        self.tree.ranks()
    }

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 { Phase::ONE } else { Phase::lanes(self.segments).window(self.window) }
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let stand = self.tree.stand(rank);
        if phase == 0 { stand.up_rounds().max(1) } else { stand.down_rounds() }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        if phase == 0 {
            return emit_gather(&self.tree, Buf::Out, (0, 1), rank, rounds, into);
        }
        let all = Part::blocks(Buf::Out, 0, self.blocks()).segment(lane, self.segments);
        emit_bcast(&self.tree, all, rank, rounds, into);
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.tree.runs(lo, len, run);
    }
}
