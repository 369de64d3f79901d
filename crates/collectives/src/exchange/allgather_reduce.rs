//! Allreduce of tiny vectors: a linear allgather of the vectors, which each rank then combines in rank order.
//!
//! Cost: (P-1)(alpha + n beta), in one round; memory for P vectors.   Any P; in rank order.
//!
//! Scratch memory holds one vector per rank. In its view every position is the whole vector.

use std::ops::Range;

use treepie_schedule::{
    BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, RoundList, Schedule, ScheduleOp,
};

/// An allreduce by an allgather of the vectors.
#[derive(Clone, Copy, Debug)]
pub struct AllgatherReduce {
    ranks: u32,
}

impl AllgatherReduce {
    /// Over `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for AllgatherReduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, _rank: u32) -> BufferBlocks {
        BufferBlocks::ViewRange { view: 1, lo: 0, len: self.ranks }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        3
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let whole = |buf| BlockRange::new(buf, 0, 1);
        let of_rank = |rank| BlockRange::in_view(Buf::Tmp(0), 1, rank, 1);
        for round in rounds {
            match round {
                0 => {
                    into.push(ScheduleOp::Copy { from: whole(Buf::In), to: of_rank(rank) });
                    // Each rank begins with a different peer.
                    for peer in (rank + 1..self.ranks).chain(0..rank) {
                        into.push(ScheduleOp::Recv { from: peer, part: of_rank(peer) });
                        into.push(ScheduleOp::Send { to: peer, part: whole(Buf::In) });
                    }
                }
                1 => into.push(ScheduleOp::Copy { from: of_rank(0), to: whole(Buf::Out) }),
                _ => {
                    for rank in 1..self.ranks {
                        into.push(ScheduleOp::Reduce {
                            from: of_rank(rank),
                            into: whole(Buf::Out),
                            side: OperandSide::Right,
                        });
                    }
                }
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, _lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        (0..len).for_each(|_| run(BlockRun::whole_blocks(0, 1)));
    }
}
