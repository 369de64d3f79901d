//! Allreduce of tiny vectors: everybody sends its vector to all others, and combines all of them in order.
//!
//! Cost: (P-1)(alpha + n beta), in one round; memory for P vectors.   Any P; keeps the order of ranks.
//!
//! Scratch memory has a place for each rank's vector. In its view every position is the whole vector.

use std::ops::Range;

use treepie_schedule::{Buf, Held, Op, Operation, Part, Rounds, Run, Schedule, Side};

/// All vectors to all ranks.
#[derive(Clone, Copy, Debug)]
pub struct AllgatherReduce {
    ranks: u32,
}

impl AllgatherReduce {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for AllgatherReduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn temporaries(&self) -> u8 {
        1
    }

    fn temporary(&self, _tmp: u8, _rank: u32) -> Held {
        Held::Positions { view: 1, lo: 0, len: self.ranks }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        3
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let whole = |buf| Part::blocks(buf, 0, 1);
        let of_rank = |rank| Part::viewed(Buf::Tmp(0), 1, rank, 1);
        for round in rounds {
            match round {
                0 => {
                    into.push(Op::Copy { from: whole(Buf::In), to: of_rank(rank) });
                    // Everybody begins with somebody else.
                    for peer in (rank + 1..self.ranks).chain(0..rank) {
                        into.push(Op::Recv { from: peer, part: of_rank(peer) });
                        into.push(Op::Send { to: peer, part: whole(Buf::In) });
                    }
                }
                1 => into.push(Op::Copy { from: of_rank(0), to: whole(Buf::Out) }),
                _ => {
                    for rank in 1..self.ranks {
                        into.push(Op::Reduce { from: of_rank(rank), into: whole(Buf::Out), side: Side::Right });
                    }
                }
            }
            into.end();
        }
    }

    fn runs(&self, _view: u8, _lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        (0..len).for_each(|_| run(Run::whole(0, 1)));
    }
}
