//! Tree barrier: fan-in of notifications to the root, then fan-out of the release.
//!
//! Cost: twice that of an empty broadcast down the tree, 2 alpha lg P for a binomial tree. With a flat tree it is the
//! central barrier; with a mesh tree messages never share a link of a mesh or torus.   Any P, any tree.
//! [thesis 3.2.1]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, Operation, RoundList, Schedule, ScheduleOp};

use crate::trees::bcast::emit_bcast;
use crate::trees::{RankTree, TreePeers};

/// A fan-in, fan-out barrier along a tree.
pub struct TreeBarrier {
    tree: Arc<RankTree>,
}

impl TreeBarrier {
    /// Along this tree.
    pub fn new(tree: Arc<RankTree>) -> Self {
        Self { tree }
    }
}

impl Schedule for TreeBarrier {
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
        let position = self.tree.position(rank);
        if phase == 0 { position.up_rounds() } else { position.down_rounds() }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let (tree, part) = (&*self.tree, BlockRange::EMPTY);
        if phase == 1 {
            return emit_bcast(tree, part, rank, rounds, into);
        }
        tree.position(rank).emit_up(rounds, into, |into, _, peers| match peers {
            TreePeers::Parent(to) => into.push(ScheduleOp::Send { to, part }),
            TreePeers::Children(children) => {
                children.iter().for_each(|child| into.push(ScheduleOp::Recv { from: tree.rank_at(*child), part }));
            }
        });
    }
}
