//! Pairwise-exchange all-to-all: in step s each rank exchanges blocks with one other rank.
//!
//! Cost: (P-1)(alpha + n/P beta).   Any P, any counts. If P is a power of two, rank r exchanges with r xor s; otherwise
//! it sends to r + s and receives from r - s (mod P).

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, Operation, RoundList, Schedule, ScheduleOp};

/// A pairwise-exchange all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Pairwise {
    ranks: u32,
}

impl Pairwise {
    /// Over `ranks` ranks.
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

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let in_pairs = self.ranks.is_power_of_two();
        let block = |buf, peer| BlockRange::new(buf, peer, 1);
        for step in rounds {
            let (to, from) = match in_pairs {
                true => (rank ^ step, rank ^ step),
                false => ((rank + step) % self.ranks, (rank + self.ranks - step) % self.ranks),
            };
            if step == 0 {
                into.push(ScheduleOp::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) });
            } else {
                into.push(ScheduleOp::Send { to, part: block(Buf::In, to) });
                into.push(ScheduleOp::Recv { from, part: block(Buf::Out, from) });
            }
            into.end_round();
        }
    }
}
