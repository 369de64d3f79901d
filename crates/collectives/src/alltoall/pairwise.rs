//! Pairwise all-to-all: each rank exchanges with one other after the other.
//!
//! Cost: (P-1)(alpha + n/P beta).   Any P, any counts; for a power of two ranks are in pairs, otherwise each sends to the
//! rank s after it and receives from the one s before.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

/// One other rank after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pairwise {
    ranks: u32,
}

impl Pairwise {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for Pairwise {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let in_pairs = self.ranks.is_power_of_two();
        let block = |buf, peer| Part::blocks(buf, peer, 1);
        for step in rounds {
            let (to, from) = match in_pairs {
                true => (rank ^ step, rank ^ step),
                false => ((rank + step) % self.ranks, (rank + self.ranks - step) % self.ranks),
            };
            if step == 0 {
                into.push(Op::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) });
            } else {
                into.push(Op::Send { to, part: block(Buf::In, to) });
                into.push(Op::Recv { from, part: block(Buf::Out, from) });
            }
            into.end();
        }
    }
}
