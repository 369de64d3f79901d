//! Bruck's allgather: in stage k each rank sends all it has to the rank 2^k before it.
//!
//! Cost: ceil(lg P) alpha + n(P-1) beta.   Any P, without folding.   [Bruck et al. 1997; thesis 3.2.2]
//!
//! What a rank has is a range of blocks that begins with its own and wraps around. In the view the blocks stand twice one
//! after the other, so such a range is a range, and everything is received at its place: the rotation at the end is not
//! needed.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Rounds, Run};

/// Bruck's allgather.
#[derive(Clone, Copy, Debug)]
pub struct Bruck {
    /// How many ranks.
    pub ranks: u32,
}

impl Core for Bruck {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.ranks.next_power_of_two().trailing_zeros()
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for k in rounds {
            let have = 1 << k;
            let more = have.min(self.ranks - have);
            let part = |lo| Part::viewed(Buf::Out, 1, lo, more);
            let (before, after) = ((rank + self.ranks - have) % self.ranks, (rank + have) % self.ranks);
            into.push(Op::Send { to: before, part: part(rank) });
            into.push(Op::Recv { from: after, part: part(after) });
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let lo = lo % self.ranks;
        let first = len.min(self.ranks - lo);
        run(Run::whole(lo, first));
        if first < len {
            run(Run::whole(0, len - first));
        }
    }
}
