//! Recursive-doubling barrier: in stage k each rank exchanges empty messages with the rank that differs in bit k.
//!
//! Cost: alpha lg P if P is a power of two; otherwise there are ceil(lg P) stages, and in some of them a rank has two
//! partners.   Any P: 2^ceil(lg P) virtual ranks are folded (`fold.rs`) onto the ranks.
//! [bidirectional exchange, thesis 3.2.1]

use std::ops::Range;

use treepie_schedule::{BlockRange, Operation, RoundList, Schedule, ScheduleOp};

use crate::fold::Fold;

/// A barrier by recursive doubling.
#[derive(Clone, Copy, Debug)]
pub struct RecursiveDoubling {
    ranks: u32,
    fold: Fold,
}

impl RecursiveDoubling {
    /// Over `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, fold: Fold::of_virtual_ranks(ranks) }
    }
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks.next_power_of_two().trailing_zeros()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let vrank = self.fold.first(rank);
        for stage in rounds {
            let partner = |vrank: u32| self.fold.folded(vrank ^ 1 << stage);
            let first = partner(vrank);
            let second = if rank < self.fold.pairs { partner(vrank + 1) } else { first };
            // Two ranks with two virtual ranks each exchange only one message.
            let both = [Some(first), (second != first).then_some(second)];
            for peer in both.into_iter().flatten().filter(|peer| *peer != rank) {
                into.push(ScheduleOp::Send { to: peer, part: BlockRange::EMPTY });
                into.push(ScheduleOp::Recv { from: peer, part: BlockRange::EMPTY });
            }
            into.end_round();
        }
    }
}
