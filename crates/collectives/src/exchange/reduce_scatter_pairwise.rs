//! Pairwise reduce-scatter: in step s each rank sends a block straight to the rank s after it.
//!
//! Cost: (P-1)(alpha + n beta); memory for two blocks.   Any P; keeps the order of ranks.   [thesis 3.2.2]
//!
//! Blocks come from the ranks before in falling order: first from the lower ones, nearest first, then from the higher
//! ones, the last rank first. Both are combined in order, each on its own, and put together at the end.

use std::ops::Range;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Rounds, Schedule, Side};

/// One block to one rank after the other.
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterPairwise {
    ranks: u32,
}

impl ReduceScatterPairwise {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for ReduceScatterPairwise {
    fn operation(&self) -> Operation {
        Operation::ReduceScatter
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn temporaries(&self) -> u8 {
        1
    }

    fn temporary(&self, _tmp: u8, _rank: u32) -> Held {
        Held::Own
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks + u32::from(rank + 1 < self.ranks)
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let own = Part::blocks(Buf::Out, rank, 1);
        let higher = own.of_buf(Buf::Tmp(0));
        for step in rounds {
            if step == 0 {
                into.push(Op::Copy { from: own.of_buf(Buf::In), to: own });
            } else if step < self.ranks {
                let (to, from) = ((rank + step) % self.ranks, (rank + self.ranks - step) % self.ranks);
                into.push(Op::Send { to, part: Part::blocks(Buf::In, to, 1) });
                into.push(match step.checked_sub(rank) {
                    None | Some(0) => Op::RecvReduce { from, part: own, side: Side::Left },
                    Some(1) => Op::Recv { from, part: higher },
                    Some(_) => Op::RecvReduce { from, part: higher, side: Side::Left },
                });
            } else {
                into.push(Op::Reduce { from: higher, into: own, side: Side::Right });
            }
            into.end();
        }
    }
}
