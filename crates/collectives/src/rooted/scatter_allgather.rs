//! Broadcast of a long message: its pieces are scattered, then all ranks collect all of them by an allgather core.
//!
//! Cost: ceil(lg P) alpha + n(P-1)/P beta for the scatter, and the core's with n/P from each rank; all in all about
//! 2n beta.   Any P that the core can do.   [van de Geijn; thesis 3.2.2]
//!
//! The scatter brings each rank at once the pieces that it keeps at first in the core, wherever they lie in the message,
//! so nothing has to be moved before the core. All of it works in the result itself.

use std::ops::Range;

use treepie_schedule::core::emit_on;
use treepie_schedule::{Buf, Core, Op, Operation, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::kept;
use crate::trees::{Placed, Turn};

/// A broadcast by a scatter and an allgather core.
pub struct ScatterAllgather<C> {
    core: C,
    tree: Placed,
}

impl<C: Core> ScatterAllgather<C> {
    /// By this core.
    pub fn new(core: C, root: u32) -> Self {
        Self { tree: kept::binomial(&core, root), core }
    }
}

impl<C: Core> Schedule for ScatterAllgather<C> {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn blocks(&self) -> u32 {
        self.core.ranks()
    }

    fn phases(&self) -> u32 {
        1 + self.core.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 { Phase::ONE } else { self.core.phase(phase - 1) }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        if phase == 0 { self.tree.stand(rank).down_rounds() } else { self.core.rounds(rank, phase - 1, lane) }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        if phase > 0 {
            return emit_on(&self.core, Buf::Out, rank, (phase - 1, lane), rounds, into);
        }
        let tree = &self.tree;
        let share = |place| kept::subtree(tree, Buf::Out, place);
        let stand = tree.stand(rank);
        stand.down(rounds, into, |into, _, turn| match turn {
            Turn::Parent(from) => into.push(Op::Recv { from, part: share(stand.place()) }),
            Turn::Children(places) => places.iter().for_each(|place| {
                into.push(Op::Send { to: tree.rank_at(*place), part: share(*place) });
            }),
        });
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        kept::runs(&self.core, &self.tree, view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        if phase == 0 { Tie::Parity } else { self.core.tie(phase - 1, lane) }
    }
}
