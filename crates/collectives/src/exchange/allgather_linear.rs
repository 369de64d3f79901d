//! Allgather in one round: everybody sends its block to all others, beginning with the next rank.
//!
//! Cost: (P-1)(alpha + n beta).   Any P.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

/// Each block straight to all ranks.
#[derive(Clone, Copy, Debug)]
pub struct AllgatherLinear {
    ranks: u32,
}

impl AllgatherLinear {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for AllgatherLinear {
    fn operation(&self) -> Operation {
        Operation::Allgather
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
        let own = |buf| Part::blocks(buf, rank, 1);
        into.push(Op::Copy { from: own(Buf::In), to: own(Buf::Out) });
        for peer in (0..rank).rev().chain((rank + 1..self.ranks).rev()) {
            into.push(Op::Recv { from: peer, part: Part::blocks(Buf::Out, peer, 1) });
        }
        for peer in (rank + 1..self.ranks).chain(0..rank) {
            into.push(Op::Send { to: peer, part: own(Buf::In) });
        }
        into.end();
    }
}
