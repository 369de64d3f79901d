//! Reduction of a long vector: the core backwards, so that each rank has some pieces of the result, then a gather.
//!
//! Cost: that of the core with n/P from each rank, and ceil(lg P) alpha + n(P-1)/P beta for the gather; all in all about
//! 2n beta.   Any P that the core can do; in the order of ranks if the core backwards is.   [Rabenseifner; thesis 3.2.2]
//!
//! The gather takes the pieces from those who kept them in the core, so nothing has to be moved before it.

use std::ops::Range;

use treepie_schedule::core::mirrored_phase;
use treepie_schedule::{Buf, Core, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::kept;
use crate::trees::{Placed, Turn};

/// A reduction by a core backwards and a gather.
pub struct ReduceScatterGather<C> {
    core: C,
    tree: Placed,
}

impl<C: Core> ReduceScatterGather<C> {
    /// By this core.
    pub fn new(core: C, root: u32) -> Self {
        Self { tree: kept::binomial(&core, root), core }
    }

    /// The core's phase that is mirrored in this one.
    fn mirrored(&self, phase: u32) -> Option<u32> {
        self.core.phases().checked_sub(phase).filter(|_| phase > 0)
    }

    /// Where a rank works.
    fn work(&self, rank: u32) -> Buf {
        if rank == self.tree.root() { Buf::Out } else { Buf::Tmp(0) }
    }
}

impl<C: Core> Schedule for ReduceScatterGather<C> {
    fn operation(&self) -> Operation {
        Operation::Reduce { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn blocks(&self) -> u32 {
        self.core.ranks()
    }

    fn temporaries(&self) -> u8 {
        1
    }

    fn temporary(&self, _tmp: u8, rank: u32) -> Held {
        if rank == self.tree.root() { Held::Nothing } else { Held::all(self.blocks()) }
    }

    fn phases(&self) -> u32 {
        self.core.phases() + 2
    }

    fn phase(&self, phase: u32) -> Phase {
        self.mirrored(phase).map_or(Phase::ONE, |phase| mirrored_phase(&self.core, phase))
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        match self.mirrored(phase) {
            Some(phase) => self.core.rounds(rank, phase, lane),
            None if phase == 0 => 1,
            None => self.tree.stand(rank).up_rounds(),
        }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let work = self.work(rank);
        if let Some(phase) = self.mirrored(phase) {
            return self.core.emit_mirrored(work, rank, (phase, lane), rounds, into);
        }
        if phase == 0 {
            let all = |buf| Part::blocks(buf, 0, self.blocks());
            into.push(Op::Copy { from: all(Buf::In), to: all(work) });
            return into.end();
        }
        let tree = &self.tree;
        let share = |place| kept::subtree(tree, work, place);
        let stand = tree.stand(rank);
        stand.up(rounds, into, |into, _, turn| match turn {
            Turn::Parent(to) => into.push(Op::Send { to, part: share(stand.place()) }),
            Turn::Children(places) => places.iter().for_each(|place| {
                into.push(Op::Recv { from: tree.rank_at(*place), part: share(*place) });
            }),
        });
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        kept::runs(&self.core, &self.tree, view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        self.mirrored(phase).map_or(Tie::Parity, |phase| self.core.tie(phase, lane))
    }
}
