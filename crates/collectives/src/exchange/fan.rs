//! Allreduce by fan-in and fan-out: up a binomial tree to rank 0, and down again.
//!
//! Cost: 2 lg P (alpha + n beta); on a mesh whose sides are powers of two without congestion.   Any P.   [thesis 3.2.1]
//!
//! In each stage of the fan-in the ranks that are left take what their upper neighbour among them has: an interval of
//! ranks is reduced in order. The fan-out is the same backwards.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule, Side};

/// Up a binomial tree, and down.
#[derive(Clone, Copy, Debug)]
pub struct FanInFanOut {
    ranks: u32,
}

impl FanInFanOut {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

/// How many stages a fan has.
pub(super) fn stages(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

/// How many stages of a fan-in a rank has: it has nothing to do after it has given what it has.
pub(super) fn stages_in(ranks: u32, rank: u32) -> u32 {
    stages(ranks).min(rank.trailing_zeros() + 1)
}

/// What a rank does in a stage of a fan-in.
pub(super) enum Fan {
    Takes(u32),
    Gives(u32),
    Idle,
}

/// In stage k of a fan-in those ranks are left whose k low bits are zero.
pub(super) fn fan_in(ranks: u32, rank: u32, stage: u32) -> Fan {
    let (low, bit) = (rank & ((2u64 << stage) - 1) as u32, 1 << stage);
    if low == bit {
        Fan::Gives(rank - bit)
    } else if low == 0 && rank + bit < ranks {
        Fan::Takes(rank + bit)
    } else {
        Fan::Idle
    }
}

/// The round of a fan-in, on the part that is reduced.
pub(super) fn emit_fan_in(ranks: u32, rank: u32, stage: u32, part: Part, name: impl Fn(u32) -> u32) -> Option<Op> {
    match fan_in(ranks, rank, stage) {
        Fan::Takes(from) => Some(Op::RecvReduce { from: name(from), part, side: Side::Right }),
        Fan::Gives(to) => Some(Op::Send { to: name(to), part }),
        Fan::Idle => None,
    }
}

/// The round of a fan-out, whose stages are those of the fan-in backwards.
pub(super) fn emit_fan_out(ranks: u32, rank: u32, round: u32, part: Part, name: impl Fn(u32) -> u32) -> Option<Op> {
    match fan_in(ranks, rank, stages(ranks) - 1 - round) {
        Fan::Takes(to) => Some(Op::Send { to: name(to), part }),
        Fan::Gives(from) => Some(Op::Recv { from: name(from), part }),
        Fan::Idle => None,
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

    // On the way down ranks also have the rounds before their own, so that rounds of the same number go on at once.
    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        match phase {
            0 => 1,
            1 => stages_in(self.ranks, rank),
            _ => stages(self.ranks),
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let whole = |buf| Part::blocks(buf, 0, 1);
        for round in rounds {
            let op = match phase {
                0 => Some(Op::Copy { from: whole(Buf::In), to: whole(Buf::Out) }),
                1 => emit_fan_in(self.ranks, rank, round, whole(Buf::Out), |rank| rank),
                _ => emit_fan_out(self.ranks, rank, round, whole(Buf::Out), |rank| rank),
            };
            op.into_iter().for_each(|op| into.push(op));
            into.end();
        }
    }
}
