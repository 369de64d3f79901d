//! Fan-in, fan-out allreduce: a binomial-tree reduction to rank 0, then a binomial-tree broadcast.
//!
//! Cost: 2 lg P (alpha + n beta); without congestion on a mesh whose sides are powers of two.   Any P.   [thesis 3.2.1]
//!
//! In each stage of the fan-in every second remaining rank receives from the next one, so it has the reduction of an
//! interval of ranks in order. The fan-out is the fan-in in reverse.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, OperandSide, Operation, RoundList, Schedule, ScheduleOp};

/// A fan-in, fan-out allreduce.
#[derive(Clone, Copy, Debug)]
pub struct FanInFanOut {
    ranks: u32,
}

impl FanInFanOut {
    /// Over `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

/// The number of stages of a fan-in or fan-out.
pub(super) fn num_stages(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

/// The number of stages of a fan-in that a rank takes part in: those until it sends.
pub(super) fn fan_in_stages(ranks: u32, rank: u32) -> u32 {
    num_stages(ranks).min(rank.trailing_zeros() + 1)
}

/// The role of a rank in a stage of a fan-in.
pub(super) enum FanInRole {
    Recv(u32),
    Send(u32),
    Idle,
}

/// In stage k of a fan-in the remaining ranks are those whose k low bits are zero.
pub(super) fn fan_in_role(ranks: u32, rank: u32, stage: u32) -> FanInRole {
    let (low, bit) = (rank & ((2u64 << stage) - 1) as u32, 1 << stage);
    if low == bit {
        FanInRole::Send(rank - bit)
    } else if low == 0 && rank + bit < ranks {
        FanInRole::Recv(rank + bit)
    } else {
        FanInRole::Idle
    }
}

/// Appends rounds of a fan-in of a block range. `rank_of` maps members of the fan to ranks.
pub(super) fn emit_fan_in(
    ranks: u32,
    rank: u32,
    rounds: Range<u32>,
    part: BlockRange,
    rank_of: impl Fn(u32) -> u32,
    into: &mut RoundList,
) {
    for stage in rounds {
        match fan_in_role(ranks, rank, stage) {
            FanInRole::Recv(from) => {
                into.push(ScheduleOp::RecvReduce { from: rank_of(from), part, side: OperandSide::Right })
            }
            FanInRole::Send(to) => into.push(ScheduleOp::Send { to: rank_of(to), part }),
            FanInRole::Idle => {}
        }
        into.end_round();
    }
}

/// Appends rounds of a fan-out, the fan-in in reverse.
pub(super) fn emit_fan_out(
    ranks: u32,
    rank: u32,
    rounds: Range<u32>,
    part: BlockRange,
    rank_of: impl Fn(u32) -> u32,
    into: &mut RoundList,
) {
    // Idle until the stage in which it sent.
    let stages = num_stages(ranks);
    let first = (stages - fan_in_stages(ranks, rank)).clamp(rounds.start, rounds.end);
    into.push_idle(first - rounds.start);
    for round in first..rounds.end {
        match fan_in_role(ranks, rank, stages - 1 - round) {
            FanInRole::Recv(to) => into.push(ScheduleOp::Send { to: rank_of(to), part }),
            FanInRole::Send(from) => into.push(ScheduleOp::Recv { from: rank_of(from), part }),
            FanInRole::Idle => {}
        }
        into.end_round();
    }
}

impl Schedule for FanInFanOut {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn phases(&self) -> u32 {
        3
    }

    // In the fan-out ranks also have the idle rounds before their first, so rounds of the same number are simultaneous.
    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        match phase {
            0 => 1,
            1 => fan_in_stages(self.ranks, rank),
            _ => num_stages(self.ranks),
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let whole = |buf| BlockRange::new(buf, 0, 1);
        let (ranks, part) = (self.ranks, whole(Buf::Out));
        match phase {
            0 => {
                into.push(ScheduleOp::Copy { from: whole(Buf::In), to: part });
                into.end_round();
            }
            1 => emit_fan_in(ranks, rank, rounds, part, |rank| rank, into),
            _ => emit_fan_out(ranks, rank, rounds, part, |rank| rank, into),
        }
    }
}
