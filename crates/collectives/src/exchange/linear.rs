//! Linear allgather in one round: the core `direct`, sent from the input buffer.
//!
//! Cost: (P-1)(alpha + n beta).   Any P.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, Operation, RoundList, Schedule, ScheduleOp};

use crate::allgather_cores::Direct;

/// A linear allgather.
#[derive(Clone, Copy, Debug)]
pub struct AllgatherLinear {
    core: Direct,
}

impl AllgatherLinear {
    /// Over `ranks` ranks.
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

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let own = |buf| BlockRange::new(buf, rank, 1);
        for _ in rounds {
            into.push(ScheduleOp::Copy { from: own(Buf::In), to: own(Buf::Out) });
            self.core.emit_allgather(rank, Buf::In, Buf::Out, into);
            into.end_round();
        }
    }
}
