//! All-to-all in one round: all sends and receives at once, beginning with the next rank.
//!
//! Cost: (P-1)(alpha + n/P beta).   Any P, any counts.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

/// Everything at once.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    ranks: u32,
}

impl Linear {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for Linear {
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
        1
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, _rounds: Range<u32>, into: &mut Rounds) {
        let block = |buf, peer| Part::blocks(buf, peer, 1);
        into.push(Op::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) });
        for from in (0..rank).rev().chain((rank + 1..self.ranks).rev()) {
            into.push(Op::Recv { from, part: block(Buf::Out, from) });
        }
        for to in (rank + 1..self.ranks).chain(0..rank) {
            into.push(Op::Send { to, part: block(Buf::In, to) });
        }
        into.end();
    }
}
