//! Bruck's allgather: in stage k each rank r sends all its blocks to rank r - 2^k (mod P).
//!
//! Cost: ceil(lg P) alpha + n(P-1) beta.   Any P, without folding.   [Bruck et al. 1997; thesis 3.2.2]
//!
//! A rank has a cyclic range of blocks that begins with its own. The view lists the blocks twice, so a cyclic range is
//! a range, and every block is received at its final offset: the algorithm's final rotation is not needed.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, RoundList, ScheduleOp};

/// Bruck's allgather.
#[derive(Clone, Copy, Debug)]
pub struct Bruck {
    /// The number of ranks.
    pub ranks: u32,
}

impl AllgatherCore for Bruck {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks.next_power_of_two().trailing_zeros()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for k in rounds {
            let have = 1 << k;
            let more = have.min(self.ranks - have);
            let part = |lo| BlockRange::in_view(Buf::Out, 1, lo, more);
            let (before, after) = ((rank + self.ranks - have) % self.ranks, (rank + have) % self.ranks);
            into.push(ScheduleOp::Send { to: before, part: part(rank) });
            into.push(ScheduleOp::Recv { from: after, part: part(after) });
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let lo = lo % self.ranks;
        let first = len.min(self.ranks - lo);
        run(BlockRun::whole_blocks(lo, first));
        if first < len {
            run(BlockRun::whole_blocks(0, len - first));
        }
    }
}
