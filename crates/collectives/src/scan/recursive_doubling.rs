//! Scan by recursive doubling: in stage k ranks whose numbers differ in bit k exchange the totals of their 2^k ranks.
//!
//! Cost: ceil(lg P)(alpha + n beta).   Any P: partners that do not exist are left out, and nobody below needs them; totals
//! that nobody has a use for are neither sent nor made. In the order of ranks.   [Kogge and Stone 1973; MPICH]
//!
//! A rank has the total of its group in one scratch buffer, and receives that of the other group in a second one, from
//! where it is combined with the total and, if the other group is the lower one, with the result.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule, Side};

use super::Own;

/// A scan or exscan by recursive doubling.
#[derive(Clone, Copy, Debug)]
pub struct RecursiveDoubling {
    own: Own,
    ranks: u32,
}

const ALL: fn(Buf) -> Part = |buf| Part::blocks(buf, 0, 1);
const TOTAL: Buf = Buf::Tmp(0);
const OTHER: Buf = Buf::Tmp(1);

impl RecursiveDoubling {
    /// Over so many ranks.
    pub fn new(own: Own, ranks: u32) -> Self {
        Self { own, ranks }
    }

    /// Whether anybody has a use for a rank's total of its group of 2^bits: if there is a rank 2^bits after it. That is its
    /// partner if the partner is the upper one. A lower partner needs the total for that of both groups, and whether that
    /// is of use is asked 2^(bits+1) after the partner: at the same rank.
    fn is_of_use(&self, rank: u32, bits: u32) -> bool {
        u64::from(rank) + (1 << bits) < self.ranks.into()
    }

    fn load(&self, rank: u32, into: &mut Rounds) {
        if self.own == Own::Included {
            into.push(Op::Copy { from: ALL(Buf::In), to: ALL(Buf::Out) });
        }
        if self.is_of_use(rank, 0) {
            into.push(Op::Copy { from: ALL(Buf::In), to: ALL(TOTAL) });
        }
    }

    fn exchange(&self, rank: u32, stage: u32, into: &mut Rounds) {
        let peer = rank ^ 1 << stage;
        if self.is_of_use(rank, stage) {
            into.push(Op::Send { to: peer, part: ALL(TOTAL) });
        }
        // What the upper group has is for the total of both only.
        if peer < rank || self.is_of_use(rank, stage + 1) {
            into.push(Op::Recv { from: peer, part: ALL(OTHER) });
        }
    }

    fn combine(&self, rank: u32, stage: u32, into: &mut Rounds) {
        let peer = rank ^ 1 << stage;
        let (from, side) = (ALL(OTHER), Side::of(peer, rank));
        if self.is_of_use(rank, stage + 1) {
            into.push(Op::Reduce { from, into: ALL(TOTAL), side });
        }
        if peer < rank {
            // The first that comes to an exscan is all there is.
            let first = self.own == Own::Excluded && rank.trailing_zeros() == stage;
            let result = ALL(Buf::Out);
            into.push(if first { Op::Copy { from, to: result } } else { Op::Reduce { from, into: result, side } });
        }
    }
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        self.own.operation()
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn temporaries(&self) -> u8 {
        if self.ranks > 1 { 2 } else { 0 }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1 + 2 * self.ranks.next_power_of_two().trailing_zeros()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for round in rounds {
            match round {
                0 => self.load(rank, into),
                round if round % 2 == 1 => self.exchange(rank, round / 2, into),
                round => self.combine(rank, round / 2 - 1, into),
            }
            into.end();
        }
    }
}
