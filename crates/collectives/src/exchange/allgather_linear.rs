//! Allgather in one round: the core `direct`, straight from what the ranks are given.
//!
//! Cost: (P-1)(alpha + n beta).   Any P.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

use crate::cores::Direct;

/// Each block straight to all ranks.
#[derive(Clone, Copy, Debug)]
pub struct AllgatherLinear {
    core: Direct,
}

impl AllgatherLinear {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { core: Direct { ranks } }
    }
}

impl Schedule for AllgatherLinear {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn ranks(&self) -> u32 {
        self.core.ranks
    }

    fn blocks(&self) -> u32 {
        self.core.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let own = |buf| Part::blocks(buf, rank, 1);
        for _ in rounds {
            into.push(Op::Copy { from: own(Buf::In), to: own(Buf::Out) });
            self.core.emit_spread(rank, Buf::In, Buf::Out, into);
            into.end();
        }
    }
}
