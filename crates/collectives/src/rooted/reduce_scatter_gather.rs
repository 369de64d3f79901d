//! Reduction of long vectors: a reduce-scatter by the mirror image of a core, then a binomial gather to the root.
//!
//! Cost: that of the core with n/P from each rank, and ceil(lg P) alpha + n(P-1)/P beta for the gather; in total about
//! 2n beta.   Any P that the core supports; rank-ordered if the core's mirror image is.   [Rabenseifner; thesis 3.2.2]
//!
//! The gather collects the segments from their owners in the core, so no unshuffle is needed.

use std::ops::Range;

use treepie_schedule::allgather_core::mirrored_phase;
use treepie_schedule::{
    AllgatherCore, BlockRange, BlockRun, Buf, BufferBlocks, Operation, Phase, RoundList, Schedule, ScheduleOp,
};
use treepie_topology::TieBreak;

use super::initial_blocks;
use crate::trees::{RankTree, TreePeers};

/// A reduction by the mirror image of a core and a gather.
pub struct ReduceScatterGather<C> {
    core: C,
    tree: RankTree,
}

impl<C: AllgatherCore> ReduceScatterGather<C> {
    /// By this core.
    pub fn new(core: C, root: u32) -> Self {
        Self { tree: initial_blocks::binomial(&core, root), core }
    }

    /// The phase of the core whose mirror image is this phase.
    fn core_phase(&self, phase: u32) -> Option<u32> {
        self.core.phases().checked_sub(phase).filter(|_| phase > 0)
    }

    /// The buffer in which a rank reduces.
    fn work_buf(&self, rank: u32) -> Buf {
        if rank == self.tree.root() { Buf::Out } else { Buf::Tmp(0) }
    }
}

impl<C: AllgatherCore> Schedule for ReduceScatterGather<C> {
    fn operation(&self) -> Operation {
        Operation::Reduce { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, rank: u32) -> BufferBlocks {
        if rank == self.tree.root() { BufferBlocks::Empty } else { BufferBlocks::all(self.blocks()) }
    }

    fn phases(&self) -> u32 {
        self.core.phases() + 2
    }

    fn phase(&self, phase: u32) -> Phase {
        self.core_phase(phase).map_or(Phase::SINGLE_LANE, |phase| mirrored_phase(&self.core, phase))
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        match self.core_phase(phase) {
            Some(phase) => self.core.rounds(rank, phase, lane),
            None if phase == 0 => 1,
            None => self.tree.position(rank).up_rounds(),
        }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let work = self.work_buf(rank);
        if let Some(phase) = self.core_phase(phase) {
            return self.core.emit_mirrored(work, rank, (phase, lane), rounds, into);
        }
        if phase == 0 {
            let all = |buf| BlockRange::new(buf, 0, self.blocks());
            into.push(ScheduleOp::Copy { from: all(Buf::In), to: all(work) });
            return into.end_round();
        }
        let tree = &self.tree;
        let initial = |vrank| initial_blocks::subtree_range(tree, work, vrank);
        let position = tree.position(rank);
        position.emit_up(rounds, into, |into, _, peers| match peers {
            TreePeers::Parent(to) => into.push(ScheduleOp::Send { to, part: initial(position.vrank()) }),
            TreePeers::Children(children) => children.iter().for_each(|child| {
                into.push(ScheduleOp::Recv { from: tree.rank_at(*child), part: initial(*child) });
            }),
        });
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        initial_blocks::resolve_view(&self.core, &self.tree, view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        self.core_phase(phase).map_or(TieBreak::Parity, |phase| self.core.tie_break(phase, lane))
    }
}
