//! Each block straight from its rank to all others, in one round.
//!
//! Cost: (P-1)(alpha + n beta). Backwards everybody sends each block straight to its rank, which combines all of them,
//! nearest first: the order of ranks is kept.   Any P.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Rounds};

/// Blocks straight to all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// How many ranks.
    pub ranks: u32,
}

impl Core for Direct {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let block = |rank| Part::blocks(Buf::Out, rank, 1);
        for _ in rounds {
            // Everybody begins with somebody else.
            for peer in (rank + 1..self.ranks).chain(0..rank) {
                into.push(Op::Send { to: peer, part: block(rank) });
                into.push(Op::Recv { from: peer, part: block(peer) });
            }
            into.end();
        }
    }
}
