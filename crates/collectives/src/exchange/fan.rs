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

/// Writes rounds of a fan-in, on the part that is reduced. `name` gives the ranks of those who take part.
pub(super) fn emit_fan_in(
    ranks: u32,
    rank: u32,
    rounds: Range<u32>,
    part: Part,
    name: impl Fn(u32) -> u32,
    into: &mut Rounds,
) {
    for stage in rounds {
        match fan_in(ranks, rank, stage) {
            Fan::Takes(from) => into.push(Op::RecvReduce { from: name(from), part, side: Side::Right }),
            Fan::Gives(to) => into.push(Op::Send { to: name(to), part }),
            Fan::Idle => {}
        }
        into.end();
    }
}

/// Writes rounds of a fan-out, whose stages are those of the fan-in backwards.
pub(super) fn emit_fan_out(
    ranks: u32,
    rank: u32,
    rounds: Range<u32>,
    part: Part,
    name: impl Fn(u32) -> u32,
    into: &mut Rounds,
) {
    // Nothing to do before the stage in which it gave what it had.
    let stages = stages(ranks);
    let begins = (stages - stages_in(ranks, rank)).clamp(rounds.start, rounds.end);
    into.idle(begins - rounds.start);
    for round in begins..rounds.end {
        match fan_in(ranks, rank, stages - 1 - round) {
            Fan::Takes(to) => into.push(Op::Send { to: name(to), part }),
            Fan::Gives(from) => into.push(Op::Recv { from: name(from), part }),
            Fan::Idle => {}
        }
        into.end();
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
        let (ranks, part) = (self.ranks, whole(Buf::Out));
        match phase {
            0 => {
                into.push(Op::Copy { from: whole(Buf::In), to: part });
                into.end();
            }
            1 => emit_fan_in(ranks, rank, rounds, part, |rank| rank, into),
            _ => emit_fan_out(ranks, rank, rounds, part, |rank| rank, into),
        }
    }
}
