//! Bruck's all-to-all: a block that has to go d ranks on takes a step of 2^k for each bit k of d.
//!
//! Cost: ceil(lg P)(alpha + n/2 beta); memory for 2n.   Any P; all blocks are equally long.   [Bruck et al. 1997]
//!
//! Scratch memory is ordered by how far a block has to go, and later by how far it has come: that is the same number. In
//! each stage the blocks whose number has bit k are sent on, and others with the same numbers come in.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Run, Schedule};

/// Bruck's all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Bruck {
    ranks: u32,
    stages: u32,
}

/// The blocks twice one after the other: a rotation is a range.
const ONWARDS: u8 = 1;
/// The same in falling order.
const BACKWARDS: u8 = 2;
/// From here on, for each stage the numbers with its bit.
const WITH_BIT: u8 = 3;

const LOAD: u32 = 0;
const STAGES: u32 = 1;

const BLOCKS: Buf = Buf::Tmp(0);
const COMING: Buf = Buf::Tmp(1);

impl Bruck {
    /// Over so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, stages: ranks.next_power_of_two().trailing_zeros() }
    }

    /// How many numbers below P have this bit.
    fn with_bit(&self, bit: u32) -> u32 {
        let half = 1 << bit;
        self.ranks / (2 * half) * half + (self.ranks % (2 * half)).saturating_sub(half)
    }
}

impl Schedule for Bruck {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn temporaries(&self) -> u8 {
        2
    }

    fn phases(&self) -> u32 {
        3
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        if phase == STAGES { 2 * self.stages } else { 1 }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let ranks = self.ranks;
        let all = |buf| Part::blocks(buf, 0, ranks);
        for round in rounds {
            match phase {
                LOAD => into.push(Op::Copy { from: Part::viewed(Buf::In, ONWARDS, rank, ranks), to: all(BLOCKS) }),
                STAGES => {
                    let bit = round / 2;
                    let part = |buf| Part::viewed(buf, WITH_BIT + bit as u8, 0, self.with_bit(bit));
                    if round % 2 == 0 {
                        into.push(Op::Send { to: (rank + (1 << bit)) % ranks, part: part(BLOCKS) });
                        into.push(Op::Recv { from: (rank + ranks - (1 << bit)) % ranks, part: part(COMING) });
                    } else {
                        into.push(Op::Copy { from: part(COMING), to: part(BLOCKS) });
                    }
                }
                _ => {
                    let from = Part::viewed(BLOCKS, BACKWARDS, ranks - rank, ranks);
                    into.push(Op::Copy { from, to: all(Buf::Out) });
                }
            }
            into.end();
        }
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let ranks = self.ranks;
        match view {
            ONWARDS => {
                let first = len.min(ranks - lo % ranks);
                run(Run::whole(lo % ranks, first));
                if first < len {
                    run(Run::whole(0, len - first));
                }
            }
            BACKWARDS => (lo..lo + len).for_each(|at| run(Run::whole((2 * ranks - at) % ranks, 1))),
            view => {
                // Numbers with the bit come in stretches of 2^bit.
                let bit = u32::from(view - WITH_BIT);
                let mut at = lo;
                while at < lo + len {
                    let within = at % (1 << bit);
                    let blocks = ((1 << bit) - within).min(lo + len - at);
                    run(Run::whole((at >> bit << (bit + 1)) + (1 << bit) + within, blocks));
                    at += blocks;
                }
            }
        }
    }
}
