//! Scan along the ranks, in segments: each rank adds its own to what the one before it sends and passes it on.
//!
//! Cost with s segments: (P-2+s)(alpha + n/s beta).   Any P. In the order of ranks.

use std::ops::Range;

use treepie_schedule::{Buf, Held, Op, Part, Phase, Rounds, Schedule, Side};

use super::Own;

/// A scan or exscan along the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    own: Own,
    ranks: u32,
    segments: u32,
    window: u32,
}

impl Linear {
    /// In so many segments, of which at most `window` are on the way on a rank at once.
    pub fn new(own: Own, ranks: u32, segments: u32, window: u32) -> Self {
        Self { own, ranks, segments: segments.max(1), window }
    }

    fn is_last(&self, rank: u32) -> bool {
        rank + 1 == self.ranks
    }

    /// A scan: its own, then what comes is combined with it, then both go on.
    fn scan(&self, rank: u32, part: impl Fn(Buf) -> Part, round: u32, into: &mut Rounds) {
        // The first has nothing to wait for.
        let step = if rank == 0 && round > 0 { round + 1 } else { round };
        into.push(match step {
            0 => Op::Copy { from: part(Buf::In), to: part(Buf::Out) },
            1 => Op::RecvReduce { from: rank - 1, part: part(Buf::Out), side: Side::Left },
            _ => Op::Send { to: rank + 1, part: part(Buf::Out) },
        });
    }

    /// An exscan: what comes is the result; it goes on with its own behind it, which is kept apart, as the result may be
    /// received where it was given.
    fn exscan(&self, rank: u32, part: impl Fn(Buf) -> Part, round: u32, into: &mut Rounds) {
        if rank == 0 {
            return into.push(Op::Send { to: 1, part: part(Buf::In) });
        }
        let sum = part(Buf::Tmp(0));
        into.push(match if self.is_last(rank) { round + 1 } else { round } {
            0 => Op::Copy { from: part(Buf::In), to: sum },
            1 => Op::Recv { from: rank - 1, part: part(Buf::Out) },
            2 => Op::Reduce { from: part(Buf::Out), into: sum, side: Side::Left },
            _ => Op::Send { to: rank + 1, part: sum },
        });
    }
}

impl Schedule for Linear {
    fn operation(&self) -> treepie_schedule::Operation {
        self.own.operation()
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn temporaries(&self) -> u8 {
        u8::from(self.own == Own::Excluded)
    }

    fn temporary(&self, _tmp: u8, rank: u32) -> Held {
        if rank == 0 || self.is_last(rank) { Held::Nothing } else { Held::all(1) }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::lanes(self.segments).window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        let (first, last) = (rank == 0, self.is_last(rank));
        match self.own {
            Own::Included => 1 + u32::from(!first) + u32::from(!last),
            Own::Excluded if first => u32::from(!last),
            Own::Excluded => {
                if last {
                    1
                } else {
                    4
                }
            }
        }
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let part = |buf| Part::blocks(buf, 0, 1).segment(lane, self.segments);
        for round in rounds {
            match self.own {
                Own::Included => self.scan(rank, part, round, into),
                Own::Excluded => self.exscan(rank, part, round, into),
            }
            into.end();
        }
    }
}
