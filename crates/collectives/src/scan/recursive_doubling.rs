//! Recursive-doubling scan: in stage k ranks that differ in bit k exchange the totals of their groups of 2^k ranks.
//!
//! Cost: ceil(lg P)(alpha + n beta).   Any P: partners that do not exist are skipped, since no lower rank needs them;
//! unneeded totals are neither sent nor computed. In rank order.   [Kogge and Stone 1973; MPICH]
//!
//! A rank has the total of its group in one scratch buffer, and receives that of the partner's group in a second one.
//! It combines that with the total and, if the partner's group is the lower one, with the result.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, OperandSide, Operation, RoundList, Schedule, ScheduleOp};

use super::ScanKind;

/// A scan or exscan by recursive doubling.
#[derive(Clone, Copy, Debug)]
pub struct RecursiveDoubling {
    kind: ScanKind,
    ranks: u32,
}

const ALL: fn(Buf) -> BlockRange = |buf| BlockRange::new(buf, 0, 1);
const TOTAL: Buf = Buf::Tmp(0);
const OTHER: Buf = Buf::Tmp(1);

impl RecursiveDoubling {
    /// Over `ranks` ranks.
    pub fn new(kind: ScanKind, ranks: u32) -> Self {
        Self { kind, ranks }
    }

    /// Whether any rank needs a rank's total of its group of 2^bits: if rank + 2^bits exists. That is its partner if
    /// the partner is the upper one. A lower partner needs the total for that of both groups, which is needed if the
    /// rank 2^(bits+1) after the partner exists: the same rank.
    fn is_total_needed(&self, rank: u32, bits: u32) -> bool {
        u64::from(rank) + (1 << bits) < self.ranks.into()
    }

    fn emit_load(&self, rank: u32, into: &mut RoundList) {
        if self.kind == ScanKind::Inclusive {
            into.push(ScheduleOp::Copy { from: ALL(Buf::In), to: ALL(Buf::Out) });
        }
        if self.is_total_needed(rank, 0) {
            into.push(ScheduleOp::Copy { from: ALL(Buf::In), to: ALL(TOTAL) });
        }
    }

    fn emit_exchange(&self, rank: u32, stage: u32, into: &mut RoundList) {
        let peer = rank ^ 1 << stage;
        if self.is_total_needed(rank, stage) {
            into.push(ScheduleOp::Send { to: peer, part: ALL(TOTAL) });
        }
        // The total of the upper group is needed only for the total of both.
        if peer < rank || self.is_total_needed(rank, stage + 1) {
            into.push(ScheduleOp::Recv { from: peer, part: ALL(OTHER) });
        }
    }

    fn emit_combine(&self, rank: u32, stage: u32, into: &mut RoundList) {
        let peer = rank ^ 1 << stage;
        let (from, side) = (ALL(OTHER), OperandSide::of_peer(peer, rank));
        if self.is_total_needed(rank, stage + 1) {
            into.push(ScheduleOp::Reduce { from, into: ALL(TOTAL), side });
        }
        if peer < rank {
            // The first operand of an exscan is copied.
            let first = self.kind == ScanKind::Exclusive && rank.trailing_zeros() == stage;
            let result = ALL(Buf::Out);
            into.push(if first {
                ScheduleOp::Copy { from, to: result }
            } else {
                ScheduleOp::Reduce { from, into: result, side }
            });
        }
    }
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        self.kind.operation()
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn scratch_buffers(&self) -> u8 {
        if self.ranks > 1 { 2 } else { 0 }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1 + 2 * self.ranks.next_power_of_two().trailing_zeros()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            match round {
                0 => self.emit_load(rank, into),
                round if round % 2 == 1 => self.emit_exchange(rank, round / 2, into),
                round => self.emit_combine(rank, round / 2 - 1, into),
            }
            into.end_round();
        }
    }
}
