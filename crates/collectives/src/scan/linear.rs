//! Linear scan, pipelined in segments: each rank combines the previous rank's result with its vector and forwards it.
//!
//! Cost with s segments: (P-2+s)(alpha + n/s beta).   Any P. In rank order.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, BufferBlocks, OperandSide, Phase, RoundList, Schedule, ScheduleOp};

use super::ScanKind;

/// A linear scan or exscan.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    kind: ScanKind,
    ranks: u32,
    segments: u32,
    window: u32,
}

impl Linear {
    /// Over `ranks` ranks in `segments` segments, of which at most `window` are in flight on a rank.
    pub fn new(kind: ScanKind, ranks: u32, segments: u32, window: u32) -> Self {
        Self { kind, ranks, segments: segments.max(1), window }
    }

    fn is_last(&self, rank: u32) -> bool {
        rank + 1 == self.ranks
    }

    /// A scan: copies the input, combines the received prefix with it, forwards the result.
    fn emit_scan(&self, rank: u32, part: impl Fn(Buf) -> BlockRange, round: u32, into: &mut RoundList) {
        // The first rank receives nothing.
        let step = if rank == 0 && round > 0 { round + 1 } else { round };
        into.push(match step {
            0 => ScheduleOp::Copy { from: part(Buf::In), to: part(Buf::Out) },
            1 => ScheduleOp::RecvReduce { from: rank - 1, part: part(Buf::Out), side: OperandSide::Left },
            _ => ScheduleOp::Send { to: rank + 1, part: part(Buf::Out) },
        });
    }

    /// An exscan: the received prefix is the result, and its combination with the input is forwarded. That is computed
    /// in scratch memory, since in place the result overwrites the input.
    fn emit_exscan(&self, rank: u32, part: impl Fn(Buf) -> BlockRange, round: u32, into: &mut RoundList) {
        if rank == 0 {
            return into.push(ScheduleOp::Send { to: 1, part: part(Buf::In) });
        }
        let sum = part(Buf::Tmp(0));
        into.push(match if self.is_last(rank) { round + 1 } else { round } {
            0 => ScheduleOp::Copy { from: part(Buf::In), to: sum },
            1 => ScheduleOp::Recv { from: rank - 1, part: part(Buf::Out) },
            2 => ScheduleOp::Reduce { from: part(Buf::Out), into: sum, side: OperandSide::Left },
            _ => ScheduleOp::Send { to: rank + 1, part: sum },
        });
    }
}

impl Schedule for Linear {
    fn operation(&self) -> treepie_schedule::Operation {
        self.kind.operation()
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn scratch_buffers(&self) -> u8 {
        u8::from(self.kind == ScanKind::Exclusive)
    }

    fn scratch_blocks(&self, _tmp: u8, rank: u32) -> BufferBlocks {
        if rank == 0 || self.is_last(rank) { BufferBlocks::Empty } else { BufferBlocks::all(1) }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::with_lanes(self.segments).with_window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        let (first, last) = (rank == 0, self.is_last(rank));
        match self.kind {
            ScanKind::Inclusive => 1 + u32::from(!first) + u32::from(!last),
            ScanKind::Exclusive if first => u32::from(!last),
            ScanKind::Exclusive => {
                if last {
                    1
                } else {
                    4
                }
            }
        }
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let part = |buf| BlockRange::new(buf, 0, 1).segment(lane, self.segments);
        for round in rounds {
            match self.kind {
                ScanKind::Inclusive => self.emit_scan(rank, part, round, into),
                ScanKind::Exclusive => self.emit_exscan(rank, part, round, into),
            }
            into.end_round();
        }
    }
}
