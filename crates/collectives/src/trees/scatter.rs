//! Scatter down a tree: each rank gets the blocks of its subtree and passes on what belongs to its children.
//!
//! Cost: flat (P-1)(alpha + n beta); binomial ceil(lg P) alpha + n(P-1) beta. Flat in segments, with the links to clusters
//! used in turn: (s-1) gamma + lambda.   Any P, any tree.   [P-LogP 3.2]
//!
//! A rank between has only the blocks of its subtree in scratch memory. The root sends from what it was given, and those
//! without children receive into their result.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};

use super::placed::{Placed, Turn};

/// A scatter down a tree.
pub struct Scatter {
    tree: Arc<Placed>,
    segments: u32,
    window: u32,
}

impl Scatter {
    /// With each block in so many segments, of which at most `window` are on the way on a rank at once.
    pub fn new(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { tree, segments: segments.max(1), window }
    }
}

impl Schedule for Scatter {
    fn operation(&self) -> Operation {
        Operation::Scatter { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        self.tree.ranks()
    }

    fn temporaries(&self) -> u8 {
        1
    }

    fn temporary(&self, _tmp: u8, rank: u32) -> Held {
        held_between(&self.tree, rank)
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::lanes(self.segments).window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.tree.stand(rank).down_rounds().max(1)
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let tree = &*self.tree;
        let stand = tree.stand(rank);
        let (place, first) = (stand.place(), stand.serves_from());
        let own = Part::blocks(Buf::Out, rank, 1).segment(lane, self.segments);
        let subtree = |buf, place, len| Part::viewed(buf, 1, place, len).segment(lane, self.segments);
        let passes_on = place == 0 || stand.has_children();
        let has = if place == 0 { Buf::In } else { Buf::Tmp(0) };
        for round in rounds {
            match stand.down(round) {
                Turn::Nobody => {}
                Turn::Parent(from) => {
                    let part = if passes_on { subtree(has, place, tree.tree().size(place)) } else { own };
                    into.push(Op::Recv { from, part });
                }
                Turn::Children(places) => places.iter().for_each(|child| {
                    let part = subtree(has, *child, tree.tree().size(*child));
                    into.push(Op::Send { to: tree.rank_at(*child), part });
                }),
            }
            if passes_on && round == first {
                into.push(Op::Copy { from: subtree(has, place, 1), to: own });
            }
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.tree.runs(lo, len, run);
    }
}

/// The blocks of its subtree, of a rank that is neither the root nor without children.
pub(crate) fn held_between(tree: &Placed, rank: u32) -> Held {
    match tree.place(rank) {
        lo if lo > 0 && tree.has_children(rank) => Held::Positions { view: 1, lo, len: tree.tree().size(lo) },
        _ => Held::Nothing,
    }
}
