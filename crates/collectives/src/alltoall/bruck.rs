//! Bruck's all-to-all: a block for the rank at distance d takes a step of 2^k for each bit k of d.
//!
//! Cost: ceil(lg P)(alpha + n/2 beta); memory for 2n.   Any P; blocks of equal length.   [Bruck et al. 1997]
//!
//! Scratch memory is indexed by the distance from sender to receiver. In stage k a rank sends the blocks whose index
//! has bit k set, and receives others with the same indices.

use std::ops::Range;

use treepie_schedule::{BlockRange, BlockRun, Buf, Operation, RoundList, Schedule, ScheduleOp};

/// Bruck's all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Bruck {
    ranks: u32,
    stages: u32,
}

/// The blocks in order, twice: a rotation is a range.
const ROTATED: u8 = 1;
/// The same in descending order.
const REVERSED: u8 = 2;
/// From here on, one view per stage: the indices with its bit set.
const WITH_BIT: u8 = 3;

const LOAD: u32 = 0;
const STAGES: u32 = 1;

const BLOCKS: Buf = Buf::Tmp(0);
const INCOMING: Buf = Buf::Tmp(1);

impl Bruck {
    /// Over `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, stages: ranks.next_power_of_two().trailing_zeros() }
    }

    /// How many indices below P have this bit set.
    fn count_with_bit(&self, bit: u32) -> u32 {
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

    fn scratch_buffers(&self) -> u8 {
        2
    }

    fn phases(&self) -> u32 {
        3
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        if phase == STAGES { 2 * self.stages } else { 1 }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let ranks = self.ranks;
        let all = |buf| BlockRange::new(buf, 0, ranks);
        for round in rounds {
            match phase {
                LOAD => into.push(ScheduleOp::Copy {
                    from: BlockRange::in_view(Buf::In, ROTATED, rank, ranks),
                    to: all(BLOCKS),
                }),
                STAGES => {
                    let bit = round / 2;
                    let part = |buf| BlockRange::in_view(buf, WITH_BIT + bit as u8, 0, self.count_with_bit(bit));
                    if round % 2 == 0 {
                        into.push(ScheduleOp::Send { to: (rank + (1 << bit)) % ranks, part: part(BLOCKS) });
                        into.push(ScheduleOp::Recv { from: (rank + ranks - (1 << bit)) % ranks, part: part(INCOMING) });
                    } else {
                        into.push(ScheduleOp::Copy { from: part(INCOMING), to: part(BLOCKS) });
                    }
                }
                _ => {
                    let from = BlockRange::in_view(BLOCKS, REVERSED, ranks - rank, ranks);
                    into.push(ScheduleOp::Copy { from, to: all(Buf::Out) });
                }
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let ranks = self.ranks;
        match view {
            ROTATED => {
                let first = len.min(ranks - lo % ranks);
                run(BlockRun::whole_blocks(lo % ranks, first));
                if first < len {
                    run(BlockRun::whole_blocks(0, len - first));
                }
            }
            REVERSED => (lo..lo + len).for_each(|at| run(BlockRun::whole_blocks((2 * ranks - at) % ranks, 1))),
            view => {
                // Indices with the bit set come in runs of 2^bit.
                let bit = u32::from(view - WITH_BIT);
                let mut at = lo;
                while at < lo + len {
                    let within = at % (1 << bit);
                    let blocks = ((1 << bit) - within).min(lo + len - at);
                    run(BlockRun::whole_blocks((at >> bit << (bit + 1)) + (1 << bit) + within, blocks));
                    at += blocks;
                }
            }
        }
    }
}
