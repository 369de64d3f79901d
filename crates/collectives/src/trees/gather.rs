//! Gather up a tree: each rank collects the blocks of its subtree and passes them on together.
//!
//! Cost: flat (P-1)(alpha + n beta); binomial ceil(lg P) alpha + n(P-1) beta. Flat in segments, with the links from
//! clusters used in turn: (s-1) gamma + lambda.   Any P, any tree.   [P-LogP 3.3]
//!
//! A rank between has only the blocks of its subtree in scratch memory. The root receives into its result, and those
//! without children send from what they were given.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};

use super::placed::{Placed, Turn};
use super::scatter::held_between;

/// A gather up a tree.
pub struct Gather {
    tree: Arc<Placed>,
    segments: u32,
    window: u32,
}

impl Gather {
    /// With each block in so many segments, of which at most `window` are on the way on a rank at once.
    pub fn new(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { tree, segments: segments.max(1), window }
    }
}

impl Schedule for Gather {
    fn operation(&self) -> Operation {
        Operation::Gather { root: self.tree.root() }
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
        self.tree.stand(rank).up_rounds().max(1)
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let has = if rank == self.tree.root() { Buf::Out } else { Buf::Tmp(0) };
        emit_gather(&self.tree, has, (lane, self.segments), rank, rounds, into);
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.tree.runs(lo, len, run);
    }
}

/// Writes rounds in which a segment of the blocks goes up a tree, whose places are view 1. Ranks with children collect
/// in the buffer `has`.
pub(crate) fn emit_gather(
    tree: &Placed,
    has: Buf,
    (seg, of): (u32, u32),
    rank: u32,
    rounds: Range<u32>,
    into: &mut Rounds,
) {
    let stand = tree.stand(rank);
    let place = stand.place();
    let own = Part::blocks(Buf::In, rank, 1).segment(seg, of);
    let subtree = |place, len| Part::viewed(has, 1, place, len).segment(seg, of);
    let collects = place == 0 || stand.has_children();
    let whole = if collects { subtree(place, tree.tree().size(place)) } else { own };
    for round in rounds {
        // Somebody alone has a round only for this.
        if collects && round == 0 {
            into.push(Op::Copy { from: own, to: subtree(place, 1) });
        }
        let turn = if tree.ranks() == 1 { Turn::Nobody } else { stand.up(round) };
        match turn {
            Turn::Nobody => {}
            Turn::Parent(to) => into.push(Op::Send { to, part: whole }),
            Turn::Children(places) => places.iter().for_each(|child| {
                let part = subtree(*child, tree.tree().size(*child));
                into.push(Op::Recv { from: tree.rank_at(*child), part });
            }),
        }
        into.end();
    }
}
