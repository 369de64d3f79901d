//! Broadcast down a tree, in segments: each rank passes a segment on as soon as it has it.
//!
//! Cost with s segments of a message that takes g: (s-1) gamma + lambda of the tree; along a mesh tree in step
//! (alpha + n delta) lg P.   Any P, any tree.   [P-LogP 3.1; thesis 3.2.1]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Buf, Op, Operation, Part, Phase, Rounds, Schedule};

use super::placed::{Placed, Turn};

/// A broadcast down a tree.
pub struct Bcast {
    tree: Arc<Placed>,
    segments: u32,
    window: u32,
}

impl Bcast {
    /// In so many segments, of which at most `window` are on the way on a rank at once: it must cover the time of a
    /// segment from the root to the last rank.
    pub fn new(tree: Arc<Placed>, segments: u32, window: u32) -> Self {
        Self { tree, segments: segments.max(1), window }
    }
}

impl Schedule for Bcast {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: self.tree.root() }
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::lanes(self.segments).window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.tree.stand(rank).down_rounds()
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        emit_bcast(&self.tree, Part::blocks(Buf::Out, 0, 1).segment(lane, self.segments), rank, rounds, into);
    }
}

/// Writes rounds in which a part comes from the root to all.
pub fn emit_bcast(tree: &Placed, part: Part, rank: u32, rounds: Range<u32>, into: &mut Rounds) {
    tree.stand(rank).down(rounds, into, |into, _, turn| match turn {
        Turn::Parent(from) => into.push(Op::Recv { from, part }),
        Turn::Children(places) => {
            places.iter().for_each(|place| into.push(Op::Send { to: tree.rank_at(*place), part }));
        }
    });
}
