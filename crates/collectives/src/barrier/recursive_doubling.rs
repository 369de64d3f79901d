//! Barrier by recursive doubling: in stage k each rank exchanges empty messages with the one whose number differs in bit k.
//!
//! Cost: alpha lg P if P is a power of two; otherwise some ranks have two partners in a stage, and there are ceil(lg P).
//! Any P: the 2^ceil(lg P) players are folded onto the ranks, the first of which play two neighbours each.   [thesis 3.2.1]

use std::ops::Range;

use treepie_schedule::{Op, Operation, Part, Rounds, Schedule};

/// A barrier by recursive doubling.
#[derive(Clone, Copy, Debug)]
pub struct RecursiveDoubling {
    ranks: u32,
    /// Ranks that play two.
    folded: u32,
}

impl RecursiveDoubling {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, folded: ranks.next_power_of_two() - ranks }
    }

    /// The rank that plays this one.
    fn rank_of(&self, player: u32) -> u32 {
        if player < 2 * self.folded { player / 2 } else { player - self.folded }
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

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let plays_two = rank < self.folded;
        let player = if plays_two { 2 * rank } else { rank + self.folded };
        for stage in rounds {
            let first = self.rank_of(player ^ 1 << stage);
            let second = if plays_two { self.rank_of((player + 1) ^ 1 << stage) } else { first };
            // Two that play two each need to tell each other once.
            let both = [Some(first), (second != first).then_some(second)];
            for peer in both.into_iter().flatten().filter(|peer| *peer != rank) {
                into.push(Op::Send { to: peer, part: Part::NOTHING });
                into.push(Op::Recv { from: peer, part: Part::NOTHING });
            }
            into.end();
        }
    }
}
