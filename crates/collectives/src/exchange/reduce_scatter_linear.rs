//! Reduce-scatter in one exchange: the core `direct` backwards, straight from what the ranks are given.
//!
//! Cost: (P-1)(alpha + n beta); memory for P-1 blocks that have been received.   Any P; keeps the order of ranks.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule};

use crate::cores::Direct;

/// Each block straight to its rank.
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterLinear {
    core: Direct,
}

impl ReduceScatterLinear {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { core: Direct { ranks } }
    }
}

impl Schedule for ReduceScatterLinear {
    fn operation(&self) -> Operation {
        Operation::ReduceScatter
    }

    fn ranks(&self) -> u32 {
        self.core.ranks
    }

    fn blocks(&self) -> u32 {
        self.core.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        2
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let own = |buf| Part::blocks(buf, rank, 1);
        for round in rounds {
            match round {
                0 => into.push(Op::Copy { from: own(Buf::In), to: own(Buf::Out) }),
                _ => self.core.emit_combine(rank, Buf::In, Buf::Out, into),
            }
            into.end();
        }
    }
}
