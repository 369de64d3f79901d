//! All-to-all in one round: all sends and receives at once, beginning with the next rank.
//!
//! Cost: (P-1)(alpha + n/P beta).   Any P, any counts.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

use crate::cores::Direct;

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
        let others = || Direct { ranks: self.ranks }.others(rank);
        others().rev().for_each(|from| into.push(Op::Recv { from, part: block(Buf::Out, from) }));
        others().for_each(|to| into.push(Op::Send { to, part: block(Buf::In, to) }));
        into.end();
    }
}
