//! Recursive doubling: in every stage pairs of ranks exchange all their blocks, which doubles their number.
//!
//! Cost: ceil(lg P) alpha + n(P-1) beta without congestion. The order of pairs determines the congestion: with the
//! nearest first (distance doubling) the longest messages go farthest; with the farthest first (distance halving) they
//! go to neighbors. On a torus, distance halving uses the Morton order of the nodes.   Any P.   [thesis 3.3.1, 3.4.1]
//!
//! The ranks have positions in an order. If P is not a power of two, V = 2^ceil(lg P) virtual ranks are
//! folded (`fold.rs`) onto them: the second of a pair initially has no block, and the exchange between the two needs
//! no message.
//!
//! After s stages of distance halving a virtual rank has the blocks of those with the same lg V - s low bits: a range
//! in the bit-reversed order of virtual ranks, which is this core's view. After s stages of distance doubling it is a
//! range of virtual ranks.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, RoundList, ScheduleOp};

use crate::fold::Fold;

/// Which partners come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// The nearest.
    Doubling,
    /// The farthest.
    Halving,
}

/// Recursive doubling over an order of the ranks.
#[derive(Clone, Debug)]
pub struct Doubling {
    distance: Distance,
    /// The ranks in order, and the position of each rank.
    order: Vec<u32>,
    position_of: Vec<u32>,
    /// lg of the number of virtual ranks.
    stages: u32,
    fold: Fold,
    /// The number of blocks before each position of the view.
    blocks_before: Vec<u32>,
    /// Whether the blocks are shuffled to the order of the view; otherwise each rank owns its block.
    shuffled: bool,
}

impl Doubling {
    /// Over ranks in this order. If `shuffled`, ranks begin with other ranks' blocks, such that the blocks they collect
    /// are consecutive in memory; otherwise each begins with its own, and they are scattered.
    pub fn new(distance: Distance, order: Vec<u32>, shuffled: bool) -> Self {
        let ranks = order.len() as u32;
        let stages = ranks.next_power_of_two().trailing_zeros();
        let mut position_of = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(rank, at)| position_of[*rank as usize] = at);
        let fold = Fold::of_virtual_ranks(ranks);
        let mut core = Self { distance, order, position_of, stages, fold, blocks_before: Vec::new(), shuffled };
        let mut count = 0;
        core.blocks_before.push(0);
        for position in 0..1 << stages {
            count += u32::from(!fold.is_second(core.vrank_at(position)));
            core.blocks_before.push(count);
        }
        core
    }

    /// The number of positions of the view.
    pub(super) fn view_len(&self) -> u32 {
        1 << self.stages
    }

    /// The virtual rank at a position of the view; the mapping is an involution.
    fn vrank_at(&self, position: u32) -> u32 {
        match self.distance {
            Distance::Doubling => position,
            Distance::Halving if self.stages == 0 => position,
            Distance::Halving => position.reverse_bits() >> (32 - self.stages),
        }
    }

    /// The blocks of a virtual rank before a stage, as a range of the view.
    fn blocks_of(&self, vrank: u32, stage: u32) -> (u32, u32) {
        let lo = match self.distance {
            Distance::Doubling => vrank >> stage << stage,
            Distance::Halving => self.vrank_at(vrank & ((1u32 << (self.stages - stage)) - 1)),
        };
        (lo, 1 << stage)
    }

    /// The block at a position of the view, if its virtual rank has one.
    fn block_at(&self, position: u32) -> Option<u32> {
        let vrank = self.vrank_at(position);
        if self.fold.is_second(vrank) {
            return None;
        }
        Some(if self.shuffled {
            self.blocks_before[position as usize]
        } else {
            self.order[self.fold.folded(vrank) as usize]
        })
    }

    fn is_empty(&self, (lo, len): (u32, u32)) -> bool {
        self.blocks_before[lo as usize] == self.blocks_before[(lo + len) as usize]
    }

    fn exchange(&self, vrank: u32, stage: u32, into: &mut RoundList) {
        let bit = match self.distance {
            Distance::Doubling => stage,
            Distance::Halving => self.stages - 1 - stage,
        };
        let partner = vrank ^ 1 << bit;
        let (position, other) = (self.fold.folded(vrank), self.fold.folded(partner));
        if position == other {
            return;
        }
        let peer = self.order[other as usize];
        // In distance doubling both virtual ranks of a rank have the same blocks after the first stage: only one
        // receives.
        let receives = |vrank: u32| self.distance == Distance::Halving || !self.fold.is_second(vrank);
        let (local, remote) = (self.blocks_of(vrank, stage), self.blocks_of(partner, stage));
        if receives(partner) && !self.is_empty(local) {
            into.push(ScheduleOp::Send { to: peer, part: BlockRange::in_view(Buf::Out, 1, local.0, local.1) });
        }
        if receives(vrank) && !self.is_empty(remote) {
            into.push(ScheduleOp::Recv { from: peer, part: BlockRange::in_view(Buf::Out, 1, remote.0, remote.1) });
        }
    }
}

impl AllgatherCore for Doubling {
    fn ranks(&self) -> u32 {
        self.order.len() as u32
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        let vrank = self.fold.first(self.position_of[rank as usize]);
        each(self.block_at(self.vrank_at(vrank)).expect("the first virtual rank of a rank has a block"), 0);
    }

    fn owner(&self, block: u32, _segment: u32) -> u32 {
        if !self.shuffled {
            return block;
        }
        // The position of the block: `block` others are before it.
        let position = self.blocks_before.partition_point(|before| *before <= block) as u32 - 1;
        self.order[self.fold.folded(self.vrank_at(position)) as usize]
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.stages
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let position = self.position_of[rank as usize];
        let first = self.fold.first(position);
        for stage in rounds {
            self.exchange(first, stage, into);
            if position < self.fold.pairs {
                self.exchange(first + 1, stage, into);
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        if self.shuffled {
            let (begin, end) = (self.blocks_before[lo as usize], self.blocks_before[(lo + len) as usize]);
            if begin < end {
                run(BlockRun::whole_blocks(begin, end - begin));
            }
            return;
        }
        let mut joined = BlockRun::whole_blocks(0, 0);
        for block in (lo..lo + len).filter_map(|position| self.block_at(position)) {
            if joined.blocks > 0 && joined.block + joined.blocks == block {
                joined.blocks += 1;
            } else {
                if joined.blocks > 0 {
                    run(joined);
                }
                joined = BlockRun::whole_blocks(block, 1);
            }
        }
        if joined.blocks > 0 {
            run(joined);
        }
    }
}
