//! Allreduce by the hybrid of buckets in one dimension and fan-in, fan-out in the other.
//!
//! Cost on X columns and Y rows: (2(X-1) + 2 lg Y) alpha + (2(X-1) + 2 lg Y) n/X delta; without congestion on a mesh if
//! Y is a power of two.   Any P = X Y.   [thesis 3.2.1]
//!
//! A ring reduce-scatter along each row leaves every rank with one of X blocks, reduced over its row. Each column
//! reduces its block to its first rank and broadcasts it. A ring allgather along each row distributes all blocks.

use std::ops::Range;

use treepie_schedule::allgather_core::emit_on_buffer;
use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::TieBreak;

use super::fan::{emit_fan_in, emit_fan_out, fan_in_stages, num_stages};
use crate::allgather_cores::Bucket;

/// Buckets along rows, fans along columns.
#[derive(Clone, Debug)]
pub struct BucketFan {
    ring: Bucket,
    columns: u32,
    rows: u32,
}

const LOAD: u32 = 0;
const REDUCE_SCATTER: u32 = 1;
const FAN_IN: u32 = 2;
const FAN_OUT: u32 = 3;

impl BucketFan {
    /// Over rows of `columns` consecutive ranks.
    pub fn new(columns: u32, rows: u32) -> Self {
        Self { ring: Bucket::ring(columns), columns, rows }
    }
}

impl Schedule for BucketFan {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.columns * self.rows
    }

    fn blocks(&self) -> u32 {
        self.columns
    }

    fn phases(&self) -> u32 {
        5
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        match phase {
            LOAD => 1,
            FAN_IN => fan_in_stages(self.rows, rank / self.columns),
            FAN_OUT => num_stages(self.rows),
            _ => self.columns - 1,
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let (column, row) = (rank % self.columns, rank / self.columns);
        let in_column = |row: u32| row * self.columns + column;
        let own = BlockRange::new(Buf::Out, column, 1);
        match phase {
            LOAD => {
                let whole = |buf| BlockRange::new(buf, 0, self.columns);
                into.push(ScheduleOp::Copy { from: whole(Buf::In), to: whole(Buf::Out) });
                into.end_round();
            }
            FAN_IN => emit_fan_in(self.rows, row, rounds, own, in_column, into),
            FAN_OUT => emit_fan_out(self.rows, row, rounds, own, in_column, into),
            _ => {
                let mark = into.mark();
                match phase {
                    REDUCE_SCATTER => self.ring.emit_mirrored(Buf::Out, column, (0, 0), rounds, into),
                    _ => emit_on_buffer(&self.ring, Buf::Out, column, (0, 0), rounds, into),
                }
                let first = rank - column;
                into.map_since(mark, |op| match op {
                    ScheduleOp::Send { to, part } => ScheduleOp::Send { to: first + to, part },
                    ScheduleOp::Recv { from, part } => ScheduleOp::Recv { from: first + from, part },
                    ScheduleOp::RecvReduce { from, part, side } => {
                        ScheduleOp::RecvReduce { from: first + from, part, side }
                    }
                    local => local,
                });
            }
        }
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.ring.resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, _phase: u32, _lane: u32) -> TieBreak {
        TieBreak::Plus
    }
}
