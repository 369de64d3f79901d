//! Van de Geijn's broadcast of long messages: a binomial scatter, then an allgather core.
//!
//! Cost: ceil(lg P) alpha + n(P-1)/P beta for the scatter, and the core's with n/P from each rank; in total about
//! 2n beta.   Any P that the core supports.   [Barnett, van de Geijn et al.; thesis 3.2.2]
//!
//! The scatter sends each rank the segments that it initially owns in the core, so no shuffle is needed. Scatter and
//! core work in the result itself.

use std::ops::Range;

use treepie_schedule::allgather_core::emit_on_buffer;
use treepie_schedule::{AllgatherCore, BlockRun, Buf, Operation, Phase, RoundList, Schedule, ScheduleOp};
use treepie_topology::TieBreak;

use super::initial_blocks;
use crate::trees::{RankTree, TreePeers};

/// A broadcast by a scatter and an allgather core.
pub struct ScatterAllgather<C> {
    core: C,
    tree: RankTree,
}

impl<C: AllgatherCore> ScatterAllgather<C> {
    /// By this core.
    pub fn new(core: C, root: u32) -> Self {
        Self { tree: initial_blocks::binomial(&core, root), core }
    }
}

impl<C: AllgatherCore> Schedule for ScatterAllgather<C> {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn phases(&self) -> u32 {
        1 + self.core.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 { Phase::SINGLE_LANE } else { self.core.phase(phase - 1) }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        if phase == 0 { self.tree.position(rank).down_rounds() } else { self.core.rounds(rank, phase - 1, lane) }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        if phase > 0 {
            return emit_on_buffer(&self.core, Buf::Out, rank, (phase - 1, lane), rounds, into);
        }
        let tree = &self.tree;
        let initial = |vrank| initial_blocks::subtree_range(tree, Buf::Out, vrank);
        let position = tree.position(rank);
        position.emit_down(rounds, into, |into, _, peers| match peers {
            TreePeers::Parent(from) => into.push(ScheduleOp::Recv { from, part: initial(position.vrank()) }),
            TreePeers::Children(children) => children.iter().for_each(|child| {
                into.push(ScheduleOp::Send { to: tree.rank_at(*child), part: initial(*child) });
            }),
        });
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        initial_blocks::resolve_view(&self.core, &self.tree, view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        if phase == 0 { TieBreak::Parity } else { self.core.tie_break(phase - 1, lane) }
    }
}
