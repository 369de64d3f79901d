//! Each block straight from its rank to all others, in one round.
//!
//! Cost: (P-1)(alpha + n beta). Backwards everybody sends each block straight to its rank, which combines all of them,
//! nearest first: the order of ranks is kept.   Any P.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Rounds, Side};

/// Blocks straight to all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// How many ranks.
    pub ranks: u32,
}

impl Direct {
    /// All other ranks, in the order in which a rank sends to them: everybody begins with another one. Backwards it is
    /// the order in which messages come.
    pub(crate) fn others(self, rank: u32) -> impl DoubleEndedIterator<Item = u32> {
        (rank + 1..self.ranks).chain(0..rank)
    }

    /// Writes what brings a rank's block of `given` to all others, and theirs to `result`.
    pub(crate) fn emit_spread(self, rank: u32, given: Buf, result: Buf, into: &mut Rounds) {
        let part = Part::blocks(given, rank, 1);
        self.others(rank).rev().for_each(|from| into.push(Op::Recv { from, part: Part::blocks(result, from, 1) }));
        self.others(rank).for_each(|to| into.push(Op::Send { to, part }));
    }

    /// Writes the same backwards: the others' blocks of `given` go to them, and what they have of a rank's own block is
    /// combined with that in `result`.
    pub(crate) fn emit_combine(self, rank: u32, given: Buf, result: Buf, into: &mut Rounds) {
        let part = Part::blocks(result, rank, 1);
        // Nearest first on each side: what has been combined is always an interval of ranks.
        (0..rank).rev().for_each(|from| into.push(Op::RecvReduce { from, part, side: Side::Left }));
        (rank + 1..self.ranks).for_each(|from| into.push(Op::RecvReduce { from, part, side: Side::Right }));
        self.others(rank).for_each(|to| into.push(Op::Send { to, part: Part::blocks(given, to, 1) }));
    }
}

impl Core for Direct {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for _ in rounds {
            self.emit_spread(rank, Buf::Out, Buf::Out, into);
            into.end();
        }
    }

    fn emit_mirrored(&self, buf: Buf, rank: u32, _lane: (u32, u32), rounds: Range<u32>, into: &mut Rounds) {
        for _ in rounds {
            self.emit_combine(rank, buf, buf, into);
            into.end();
        }
    }
}
