//! Reduction up a tree, in segments: each rank combines what its children send with its own and passes it on.
//!
//! Cost with s segments: (s-1) gamma + lambda of the tree, as a broadcast; a binomial tree in one piece takes
//! lg P (alpha + n beta), a chain in s segments (P-2+s)(alpha + n/s beta).   Any P, any tree.   [P-LogP 3.1; thesis 3.2.1]
//!
//! Children are combined nearest first, so an operator that does not commute is right if the ranks stand in order from 0
//! in the tree. For another root there is the form that goes up such a tree to rank 0, and from there to the root.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Phase, Rounds, Schedule, Side};

use super::placed::{Placed, Stand, Turn};

/// A reduction up a tree.
pub struct Reduce {
    tree: Arc<Placed>,
    root: u32,
    segments: u32,
    window: u32,
}

impl Reduce {
    /// To the root of the tree, in so many segments, of which at most `window` are on the way on a rank at once.
    pub fn new(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { root: tree.root(), tree, segments: segments.max(1), window }
    }

    /// The same in the order of ranks for any root: the ranks must stand in order from 0 in the tree.
    pub fn ordered(tree: Arc<Placed>, root: u32, segments: u32, window: u32) -> Self {
        assert!(tree.is_in_order(), "contributions keep their order only if the ranks stand in order in the tree");
        Self { root, tree, segments: segments.max(1), window }
    }

    /// Where a rank has what it passes on: those without children pass on what they are given.
    fn buffer(&self, rank: u32, stand: &Stand<'_>) -> Buf {
        match collects(stand) {
            false => Buf::In,
            true if rank == self.root => Buf::Out,
            true => Buf::Tmp(0),
        }
    }

    /// Rounds before those in the tree: of who collects, to begin with its own. All have one if they go in step.
    fn loads(&self, stand: &Stand<'_>) -> u32 {
        u32::from(self.tree.is_stepped() || collects(stand))
    }

    /// Whether a rank takes part in bringing the result from the tree's root to the operation's.
    fn relays(&self, rank: u32) -> bool {
        self.tree.root() != self.root && (rank == self.root || rank == self.tree.root())
    }
}

impl Schedule for Reduce {
    fn operation(&self) -> Operation {
        Operation::Reduce { root: self.root }
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn temporaries(&self) -> u8 {
        1
    }

    fn temporary(&self, _tmp: u8, rank: u32) -> Held {
        if self.buffer(rank, &self.tree.stand(rank)) == Buf::Tmp(0) { Held::all(1) } else { Held::Nothing }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::lanes(self.segments).window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        let stand = self.tree.stand(rank);
        self.loads(&stand) + stand.up_rounds() + u32::from(self.relays(rank))
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let of_buf = |buf| Part::blocks(buf, 0, 1).segment(lane, self.segments);
        let stand = self.tree.stand(rank);
        let part = of_buf(self.buffer(rank, &stand));
        let loads = self.loads(&stand);
        let last = loads + stand.up_rounds();
        // Of the rounds that are asked for, those of a stretch, counted from its beginning.
        let within = |from: u32, to: u32| rounds.start.clamp(from, to) - from..rounds.end.clamp(from, to) - from;
        for _ in within(0, loads) {
            if collects(&stand) {
                into.push(Op::Copy { from: of_buf(Buf::In), to: part });
            }
            into.end();
        }
        stand.up(within(loads, last), into, |into, _, turn| match turn {
            Turn::Parent(to) => into.push(Op::Send { to, part }),
            // Subtrees come after their root in the tree.
            Turn::Children(places) => places.iter().for_each(|place| {
                into.push(Op::RecvReduce { from: self.tree.rank_at(*place), part, side: Side::Right });
            }),
        });
        for _ in within(last, u32::MAX) {
            into.push(match rank == self.root {
                true => Op::Recv { from: self.tree.root(), part: of_buf(Buf::Out) },
                false => Op::Send { to: self.root, part },
            });
            into.end();
        }
    }
}

/// Whether a rank combines anything, or is the only one.
fn collects(stand: &Stand<'_>) -> bool {
    stand.place() == 0 || stand.has_children()
}
