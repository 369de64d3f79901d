//! Reduce-scatter in one round: everybody sends each block straight to its rank.
//!
//! Cost: (P-1)(alpha + n beta); memory for P-1 blocks that have been received.   Any P; keeps the order of ranks.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule, Side};

/// Each block straight to its rank.
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterLinear {
    ranks: u32,
}

impl ReduceScatterLinear {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for ReduceScatterLinear {
    fn operation(&self) -> Operation {
        Operation::ReduceScatter
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        2
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let own = Part::blocks(Buf::Out, rank, 1);
        for round in rounds {
            if round == 0 {
                into.push(Op::Copy { from: own.of_buf(Buf::In), to: own });
            } else {
                // Nearest first on each side: what has been combined is always an interval of ranks.
                for from in (0..rank).rev() {
                    into.push(Op::RecvReduce { from, part: own, side: Side::Left });
                }
                for from in rank + 1..self.ranks {
                    into.push(Op::RecvReduce { from, part: own, side: Side::Right });
                }
                for to in (rank + 1..self.ranks).chain(0..rank) {
                    into.push(Op::Send { to, part: Part::blocks(Buf::In, to, 1) });
                }
            }
            into.end();
        }
    }
}
