//! Linear reduce-scatter in one exchange: the mirror image of the core `direct`, sent from the input buffer.
//!
//! Cost: (P-1)(alpha + n beta); memory for P-1 received blocks.   Any P; in rank order.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, Operation, RoundList, Schedule, ScheduleOp};

use crate::allgather_cores::Direct;

/// A linear reduce-scatter.
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterLinear {
    core: Direct,
}

impl ReduceScatterLinear {
    /// Over `ranks` ranks.
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

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let own = |buf| BlockRange::new(buf, rank, 1);
        for round in rounds {
            match round {
                0 => into.push(ScheduleOp::Copy { from: own(Buf::In), to: own(Buf::Out) }),
                _ => self.core.emit_reduce_scatter(rank, Buf::In, Buf::Out, into),
            }
            into.end_round();
        }
    }
}
