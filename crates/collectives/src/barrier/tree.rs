//! Barrier along a tree: who has heard of all its children tells its parent; when the root has heard of all, it lets them go.
//!
//! Cost: twice that of an empty broadcast down the tree, 2 alpha lg P for a binomial one. With a flat tree it is the
//! central barrier, with a mesh tree messages never share a link of a mesh or torus.   Any P, any tree.   [thesis 3.2.1]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Op, Operation, Part, Rounds, Schedule};

use crate::trees::bcast::emit_bcast;
use crate::trees::{Placed, Turn};

/// A barrier along a tree, in to its root and out again.
pub struct FanInOut {
    tree: Arc<Placed>,
}

impl FanInOut {
    /// Along this tree.
    pub fn new(tree: Arc<Placed>) -> Self {
        Self { tree }
    }
}

impl Schedule for FanInOut {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn phases(&self) -> u32 {
        2
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let stand = self.tree.stand(rank);
        if phase == 0 { stand.up_rounds() } else { stand.down_rounds() }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let (tree, part) = (&*self.tree, Part::NOTHING);
        if phase == 1 {
            return emit_bcast(tree, part, rank, rounds, into);
        }
        tree.stand(rank).up(rounds, into, |into, _, turn| match turn {
            Turn::Parent(to) => into.push(Op::Send { to, part }),
            Turn::Children(places) => {
                places.iter().for_each(|place| into.push(Op::Recv { from: tree.rank_at(*place), part }));
            }
        });
    }
}
