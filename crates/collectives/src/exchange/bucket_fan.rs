//! Allreduce by buckets in one dimension and fan-in, fan-out in the other.
//!
//! Cost on X columns and Y rows: (2(X-1) + 2 lg Y) alpha + (2(X-1) + 2 lg Y) n/X delta; without congestion on a mesh if Y is
//! a power of two.   Any P = X Y.   [thesis 3.2.1]
//!
//! A ring along each row leaves every rank with one of X blocks, reduced over its row. Each column reduces its block to
//! its first rank and spreads it again. The ring brings all blocks to all ranks of a row.

use std::ops::Range;

use treepie_schedule::core::emit_on;
use treepie_schedule::{Buf, Core, Op, Operation, Part, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::fan::{emit_fan_in, emit_fan_out, stages, stages_in};
use crate::cores::Bucket;

/// Buckets along rows, fans along columns.
#[derive(Clone, Debug)]
pub struct BucketFan {
    ring: Bucket,
    columns: u32,
    rows: u32,
}

const LOAD: u32 = 0;
const RING_BACKWARDS: u32 = 1;
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
            FAN_IN => stages_in(self.rows, rank / self.columns),
            FAN_OUT => stages(self.rows),
            _ => self.columns - 1,
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let (column, row) = (rank % self.columns, rank / self.columns);
        let in_column = |row: u32| row * self.columns + column;
        let own = Part::blocks(Buf::Out, column, 1);
        match phase {
            LOAD => {
                let whole = |buf| Part::blocks(buf, 0, self.columns);
                into.push(Op::Copy { from: whole(Buf::In), to: whole(Buf::Out) });
                into.end();
            }
            FAN_IN => emit_fan_in(self.rows, row, rounds, own, in_column, into),
            FAN_OUT => emit_fan_out(self.rows, row, rounds, own, in_column, into),
            _ => {
                let mark = into.mark();
                match phase {
                    RING_BACKWARDS => self.ring.emit_mirrored(Buf::Out, column, (0, 0), rounds, into),
                    _ => emit_on(&self.ring, Buf::Out, column, (0, 0), rounds, into),
                }
                let first = rank - column;
                into.map_since(mark, |op| match op {
                    Op::Send { to, part } => Op::Send { to: first + to, part },
                    Op::Recv { from, part } => Op::Recv { from: first + from, part },
                    Op::RecvReduce { from, part, side } => Op::RecvReduce { from: first + from, part, side },
                    local => local,
                });
            }
        }
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.ring.runs(view, lo, len, run);
    }

    fn tie(&self, _phase: u32, _lane: u32) -> Tie {
        Tie::Plus
    }
}
