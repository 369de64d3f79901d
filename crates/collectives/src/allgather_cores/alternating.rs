//! Recursive doubling on a grid with alternating dimensions: half of the ranks take them in another order.
//!
//! Cost on a p x p mesh: lg P alpha + (9/8 - 3/(4p)) n P delta; as an allreduce of n, 2 lg P alpha + (9/4 - 3/(2p)) n
//! delta. All sides are powers of two.   [thesis 3.2.1]
//!
//! The two classes of ranks collect in different orders, but the last stages are the same for both, and until then a
//! rank has only blocks of its class. So there is one view, in which the order of the lower bits depends on the higher
//! ones.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, RoundList, ScheduleOp};

use super::bits::StageBits;

/// Recursive doubling with alternating dimensions.
#[derive(Clone, Debug)]
pub struct Alternating {
    bits: StageBits,
    /// The position of each rank, and the rank at each position.
    positions: Vec<u32>,
    rank_at: Vec<u32>,
    shuffled: bool,
}

impl Alternating {
    /// Over ranks numbered with the first of `dims` fastest. `None` if a side is not a power of two.
    pub fn new(dims: &[u32], shuffled: bool) -> Option<Self> {
        let bits = StageBits::grid(dims)?;
        let positions: Vec<u32> = (0..1 << bits.len()).map(|rank| bits.position(rank, bits.len())).collect();
        let mut rank_at = vec![0; positions.len()];
        positions.iter().zip(0..).for_each(|(position, rank)| rank_at[*position as usize] = rank);
        Some(Self { bits, positions, rank_at, shuffled })
    }
}

impl AllgatherCore for Alternating {
    fn ranks(&self) -> u32 {
        self.positions.len() as u32
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        each(if self.shuffled { self.positions[rank as usize] } else { rank }, 0);
    }

    fn owner(&self, block: u32, _segment: u32) -> u32 {
        if self.shuffled { self.rank_at[block as usize] } else { block }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.bits.len()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for stage in rounds {
            let peer = self.bits.partner(rank, stage);
            let has = |rank: u32| {
                BlockRange::in_view(Buf::Out, 1, self.positions[rank as usize] >> stage << stage, 1 << stage)
            };
            into.push(ScheduleOp::Send { to: peer, part: has(rank) });
            into.push(ScheduleOp::Recv { from: peer, part: has(peer) });
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        if self.shuffled {
            return run(BlockRun::whole_blocks(lo, len));
        }
        self.rank_at[lo as usize..][..len as usize].iter().for_each(|block| run(BlockRun::whole_blocks(*block, 1)));
    }
}
