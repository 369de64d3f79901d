//! Scatter and gather along a tree. On the way down each rank gets the blocks of its subtree and passes on what belongs to
//! its children; on the way up it collects the blocks of its subtree and passes them on together.
//!
//! Cost: flat (P-1)(alpha + n beta); binomial ceil(lg P) alpha + n(P-1) beta. Flat in segments, with the links to or from
//! clusters used in turn: (s-1) gamma + lambda.   Any P, any tree.   [P-LogP 3.2, 3.3]
//!
//! A rank between has only the blocks of its subtree in scratch memory. The root has them in what it was given, or in its
//! result; those without children have but their own block.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};

use super::placed::{Placed, Turn};

/// A scatter or gather along a tree.
pub struct Blocks {
    way: Way,
    tree: Arc<Placed>,
    segments: u32,
    window: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

impl Blocks {
    /// From the root to all, with each block in so many segments, of which at most `window` are on the way on a rank at
    /// once.
    pub fn scatter(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { way: Way::Down, tree, segments: segments.max(1), window }
    }

    /// From all to the root, likewise.
    pub fn gather(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { way: Way::Up, tree, segments: segments.max(1), window }
    }
}

impl Schedule for Blocks {
    fn operation(&self) -> Operation {
        let root = self.tree.root();
        match self.way {
            Way::Down => Operation::Scatter { root },
            Way::Up => Operation::Gather { root },
        }
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
        match self.tree.place(rank) {
            lo if lo > 0 && self.tree.has_children(rank) => {
                Held::Positions { view: 1, lo, len: self.tree.tree().size(lo) }
            }
            _ => Held::Nothing,
        }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::lanes(self.segments).window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        let stand = self.tree.stand(rank);
        // Somebody alone has a round for its copy.
        match self.way {
            Way::Down => stand.down_rounds().max(1),
            Way::Up => stand.up_rounds().max(1),
        }
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let is_root = rank == self.tree.root();
        let segment = (lane, self.segments);
        match self.way {
            Way::Down => {
                let has = if is_root { Buf::In } else { Buf::Tmp(0) };
                emit_scatter(&self.tree, has, segment, rank, rounds, into);
            }
            Way::Up => {
                let has = if is_root { Buf::Out } else { Buf::Tmp(0) };
                emit_gather(&self.tree, has, segment, rank, rounds, into);
            }
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.tree.runs(lo, len, run);
    }
}

/// Writes rounds in which a segment of the blocks goes down a tree, whose places are view 1. The root and those with
/// children have the blocks of their subtree in the buffer `has`.
fn emit_scatter(tree: &Placed, has: Buf, (seg, of): (u32, u32), rank: u32, rounds: Range<u32>, into: &mut Rounds) {
    let stand = tree.stand(rank);
    let (place, first) = (stand.place(), stand.serves_from());
    let own = Part::blocks(Buf::Out, rank, 1).segment(seg, of);
    let positions = |place, len| Part::viewed(has, 1, place, len).segment(seg, of);
    let passes_on = place == 0 || stand.has_children();
    stand.down(rounds, into, |into, round, turn| {
        match turn {
            Turn::Parent(from) => {
                let part = if passes_on { positions(place, tree.tree().size(place)) } else { own };
                into.push(Op::Recv { from, part });
            }
            Turn::Children(places) => places.iter().for_each(|child| {
                let part = positions(*child, tree.tree().size(*child));
                into.push(Op::Send { to: tree.rank_at(*child), part });
            }),
        }
        if passes_on && round == first {
            into.push(Op::Copy { from: positions(place, 1), to: own });
        }
    });
}

/// Writes rounds in which a segment of the blocks goes up a tree, likewise.
pub(crate) fn emit_gather(
    tree: &Placed,
    has: Buf,
    (seg, of): (u32, u32),
    rank: u32,
    rounds: Range<u32>,
    into: &mut Rounds,
) {
    let stand = tree.stand(rank);
    let (place, first) = (stand.place(), stand.collects_from());
    let own = Part::blocks(Buf::In, rank, 1).segment(seg, of);
    let positions = |place, len| Part::viewed(has, 1, place, len).segment(seg, of);
    let collects = place == 0 || stand.has_children();
    stand.up(rounds, into, |into, round, turn| {
        if collects && round == first {
            into.push(Op::Copy { from: own, to: positions(place, 1) });
        }
        match turn {
            Turn::Parent(to) => {
                let part = if collects { positions(place, tree.tree().size(place)) } else { own };
                into.push(Op::Send { to, part });
            }
            Turn::Children(places) => places.iter().for_each(|child| {
                let part = positions(*child, tree.tree().size(*child));
                into.push(Op::Recv { from: tree.rank_at(*child), part });
            }),
        }
    });
}
