//! Pairwise-exchange reduce-scatter: in step s each rank r sends a block to rank r + s (mod P).
//!
//! Cost: (P-1)(alpha + n beta); memory for two blocks.   Any P; in rank order.   [thesis 3.2.2]
//!
//! A rank receives in descending order of ranks: first from the lower ones, nearest first, then from the higher ones,
//! the last rank first. Each group is combined in order, and the two are combined at the end.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, BufferBlocks, OperandSide, Operation, RoundList, Schedule, ScheduleOp};

/// A pairwise-exchange reduce-scatter.
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterPairwise {
    ranks: u32,
}

impl ReduceScatterPairwise {
    /// Over `ranks` ranks.
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

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, _rank: u32) -> BufferBlocks {
        BufferBlocks::OwnBlock
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks + u32::from(rank + 1 < self.ranks)
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let own = BlockRange::new(Buf::Out, rank, 1);
        let higher = own.with_buf(Buf::Tmp(0));
        for step in rounds {
            if step == 0 {
                into.push(ScheduleOp::Copy { from: own.with_buf(Buf::In), to: own });
            } else if step < self.ranks {
                let (to, from) = ((rank + step) % self.ranks, (rank + self.ranks - step) % self.ranks);
                into.push(ScheduleOp::Send { to, part: BlockRange::new(Buf::In, to, 1) });
                into.push(match step.checked_sub(rank) {
                    None | Some(0) => ScheduleOp::RecvReduce { from, part: own, side: OperandSide::Left },
                    Some(1) => ScheduleOp::Recv { from, part: higher },
                    Some(_) => ScheduleOp::RecvReduce { from, part: higher, side: OperandSide::Left },
                });
            } else {
                into.push(ScheduleOp::Reduce { from: higher, into: own, side: OperandSide::Right });
            }
            into.end_round();
        }
    }
}
