//! Linear allgather core: each rank sends its block to all others, in one round.
//!
//! Cost: (P-1)(alpha + n beta). The mirror image sends each block to its rank, which combines all of them, nearest rank
//! first: in rank order.   Any P.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, Buf, OperandSide, RoundList, ScheduleOp};

/// The linear core.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// The number of ranks.
    pub ranks: u32,
}

impl Direct {
    /// All other ranks in send order: each rank begins with a different one. In reverse it is the order in which
    /// messages arrive.
    fn peers(self, rank: u32) -> impl DoubleEndedIterator<Item = u32> {
        (rank + 1..self.ranks).chain(0..rank)
    }

    /// Appends a send to each other rank, and a receive from it.
    pub(crate) fn emit_exchange(
        self,
        rank: u32,
        given: impl Fn(u32) -> BlockRange,
        result: impl Fn(u32) -> BlockRange,
        into: &mut RoundList,
    ) {
        self.peers(rank).rev().for_each(|from| into.push(ScheduleOp::Recv { from, part: result(from) }));
        self.peers(rank).for_each(|to| into.push(ScheduleOp::Send { to, part: given(to) }));
    }

    /// Appends the sends of a rank's block of `given` to all others, and the receives of theirs into `result`.
    pub(crate) fn emit_allgather(self, rank: u32, given: Buf, result: Buf, into: &mut RoundList) {
        let own = BlockRange::new(given, rank, 1);
        self.emit_exchange(rank, |_| own, |from| BlockRange::new(result, from, 1), into);
    }

    /// Appends the mirror image: sends the others' blocks of `given` to them, and combines their contributions to the
    /// rank's block with that in `result`.
    pub(crate) fn emit_reduce_scatter(self, rank: u32, given: Buf, result: Buf, into: &mut RoundList) {
        let part = BlockRange::new(result, rank, 1);
        // Nearest first on each side: the combined contributions are always an interval of ranks.
        (0..rank).rev().for_each(|from| into.push(ScheduleOp::RecvReduce { from, part, side: OperandSide::Left }));
        (rank + 1..self.ranks)
            .for_each(|from| into.push(ScheduleOp::RecvReduce { from, part, side: OperandSide::Right }));
        self.peers(rank).for_each(|to| into.push(ScheduleOp::Send { to, part: BlockRange::new(given, to, 1) }));
    }
}

impl AllgatherCore for Direct {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for _ in rounds {
            self.emit_allgather(rank, Buf::Out, Buf::Out, into);
            into.end_round();
        }
    }

    fn emit_mirrored(&self, buf: Buf, rank: u32, _lane: (u32, u32), rounds: Range<u32>, into: &mut RoundList) {
        for _ in rounds {
            self.emit_reduce_scatter(rank, buf, buf, into);
            into.end_round();
        }
    }
}
