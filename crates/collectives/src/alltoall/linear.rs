//! Linear all-to-all: all sends and receives in one round, beginning with the next rank.
//!
//! Cost: (P-1)(alpha + n/P beta).   Any P, any counts.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, Operation, RoundList, Schedule, ScheduleOp};

use crate::allgather_cores::Direct;

/// A linear all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    ranks: u32,
}

impl Linear {
    /// Over `ranks` ranks.
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

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, _rounds: Range<u32>, into: &mut RoundList) {
        let block = |buf, peer| BlockRange::new(buf, peer, 1);
        into.push(ScheduleOp::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) });
        let peers = || Direct { ranks: self.ranks }.peers(rank);
        peers().rev().for_each(|from| into.push(ScheduleOp::Recv { from, part: block(Buf::Out, from) }));
        peers().for_each(|to| into.push(ScheduleOp::Send { to, part: block(Buf::In, to) }));
        into.end_round();
    }
}
