//! The linear algorithms: each rank exchanges with all others in one round, from and to the caller's buffers.
//!
//! | operation | sends | cost |
//! |---|---|---|
//! | allgather | its block to all: the core `direct` | (P-1)(alpha + n beta) |
//! | reduce-scatter | to each its block, which it combines: the core's mirror image | (P-1)(alpha + n beta) |
//! | allreduce | its vector to all, which combine those of all ranks | (P-1)(alpha + n beta) |
//! | all-to-all | to each its block | (P-1)(alpha + n/P beta) |
//!
//! A reduce-scatter has memory for P-1 received blocks. An allreduce has scratch memory of one vector for each rank; in
//! its view every position is the whole vector.   Any P, any counts; in rank order.

use std::ops::Range;

use treepie_schedule::{
    BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, RoundList, Schedule, ScheduleOp,
};

use crate::allgather_cores::Direct;

/// A linear allgather, reduce-scatter, allreduce or all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    operation: Operation,
    core: Direct,
}

impl Linear {
    /// One of these operations over `ranks` ranks.
    pub fn new(operation: Operation, ranks: u32) -> Self {
        Self { operation, core: Direct { ranks } }
    }
}

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn ranks(&self) -> u32 {
        self.core.ranks
    }

    fn blocks(&self) -> u32 {
        if self.operation == Operation::Allreduce { 1 } else { self.core.ranks }
    }

    fn scratch_buffers(&self) -> u8 {
        u8::from(self.operation == Operation::Allreduce)
    }

    fn scratch_blocks(&self, _tmp: u8, _rank: u32) -> BufferBlocks {
        BufferBlocks::ViewRange { view: 1, lo: 0, len: self.core.ranks }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        match self.operation {
            Operation::ReduceScatter => 2,
            Operation::Allreduce => 3,
            _ => 1,
        }
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let block = |buf, rank| BlockRange::new(buf, rank, 1);
        let load_own = ScheduleOp::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) };
        let (given, result) = (block(Buf::In, 0), block(Buf::Out, 0));
        let vector_of = |rank| BlockRange::in_view(Buf::Tmp(0), 1, rank, 1);
        for round in rounds {
            match (self.operation, round) {
                (Operation::Allgather, _) => {
                    into.push(load_own);
                    self.core.emit_allgather(rank, Buf::In, Buf::Out, into);
                }
                (Operation::Alltoall, _) => {
                    into.push(load_own);
                    self.core.emit_exchange(rank, |to| block(Buf::In, to), |from| block(Buf::Out, from), into);
                }
                (Operation::ReduceScatter, 0) => into.push(load_own),
                (Operation::ReduceScatter, _) => self.core.emit_reduce_scatter(rank, Buf::In, Buf::Out, into),
                (Operation::Allreduce, 0) => {
                    into.push(ScheduleOp::Copy { from: given, to: vector_of(rank) });
                    self.core.emit_exchange(rank, |_| given, vector_of, into);
                }
                (Operation::Allreduce, 1) => into.push(ScheduleOp::Copy { from: vector_of(0), to: result }),
                (Operation::Allreduce, _) => {
                    let reduce = |from| ScheduleOp::Reduce { from, into: result, side: OperandSide::Right };
                    (1..self.core.ranks).for_each(|rank| into.push(reduce(vector_of(rank))));
                }
                _ => unreachable!("there is no linear {}", self.operation.name()),
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, _lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        (0..len).for_each(|_| run(BlockRun::whole_blocks(0, 1)));
    }
}
