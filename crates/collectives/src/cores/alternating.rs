//! Recursive doubling on a grid, where half of the ranks take the dimensions in another order than the others.
//!
//! Cost on a p x p mesh: lg P alpha + (9/8 - 3/(4p)) n P delta; as an allreduce of n, 2 lg P alpha + (9/4 - 3/(2p)) n delta.
//! All sides are powers of two.   [thesis 3.2.1]
//!
//! The classes collect in different orders, but the last stages are the same for both, and until then a rank has blocks
//! of its own class only: so there is one view, whose order of the lower positions depends on the higher ones.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Rounds, Run};

use super::bits::Bits;

/// Recursive doubling with alternating dimensions.
#[derive(Clone, Debug)]
pub struct Alternating {
    bits: Bits,
    /// The position of each rank, and the other way round.
    positions: Vec<u32>,
    rank_at: Vec<u32>,
    moved: bool,
}

impl Alternating {
    /// Over ranks numbered with the first of `dims` fastest. Nothing if a side is no power of two.
    pub fn new(dims: &[u32], moved: bool) -> Option<Self> {
        let bits = Bits::grid(dims)?;
        let positions: Vec<u32> = (0..1 << bits.len()).map(|rank| bits.position(rank, bits.len())).collect();
        let mut rank_at = vec![0; positions.len()];
        positions.iter().zip(0..).for_each(|(position, rank)| rank_at[*position as usize] = rank);
        Some(Self { bits, positions, rank_at, moved })
    }
}

impl Core for Alternating {
    fn ranks(&self) -> u32 {
        self.positions.len() as u32
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        piece(if self.moved { self.positions[rank as usize] } else { rank }, 0);
    }

    fn keeper(&self, block: u32, _cut: u32) -> u32 {
        if self.moved { self.rank_at[block as usize] } else { block }
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.bits.len()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for stage in rounds {
            let peer = self.bits.partner(rank, stage);
            let has =
                |rank: u32| Part::viewed(Buf::Out, 1, self.positions[rank as usize] >> stage << stage, 1 << stage);
            into.push(Op::Send { to: peer, part: has(rank) });
            into.push(Op::Recv { from: peer, part: has(peer) });
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        if self.moved {
            return run(Run::whole(lo, len));
        }
        self.rank_at[lo as usize..][..len as usize].iter().for_each(|block| run(Run::whole(*block, 1)));
    }
}
