//! Allreduce by the hybrid of recursive halving and bidirectional exchange: h stages of recursive halving reduce and
//! halve the vector, a bidirectional exchange reduces the remaining parts, and recursive doubling gathers them.
//!
//! Cost without congestion, h halvings of lg P: (lg P + h) alpha + (2(1 - 2^-h) + 2^-h (lg P - h)) n beta. With h = 0
//! this is recursive doubling, with h = lg P recursive halving. On a p x p mesh with alternating dimensions:
//! lg P alpha + p n delta and 2 lg P alpha + (9/4 - 3/(2p)) n delta.   Any P; powers of two for alternating dimensions.
//! [thesis 3.2.1]
//!
//! If P is not a power of two, the ranks are folded (`fold.rs`): the second of a pair sends its vector to the first,
//! and receives the result at the end. Nearest partners come first, so a rank has always reduced an interval of ranks.
//! Both partners combine operands in the same order, so their results are identical.
//!
//! Alternating dimensions are not rank-ordered. There halvings begin with the nearest partner, and the exchange with
//! the farthest. Stages over more than one hop stay within a class (X first or Y first), so all ranks that exchange a
//! part there combine it in the same order; the stages between neighbors are the same for both classes. So all ranks
//! get identical results, with any number of halvings. An exchange that began with the nearest would not: with fewer
//! halvings than dimensions both classes would have the same part, and combine it in different orders.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, OperandSide, Operation, RoundList, Schedule, ScheduleOp};

use crate::allgather_cores::bits::StageBits;
use crate::fold::Fold;

/// Recursive halving, a bidirectional exchange of the remaining part, and recursive doubling.
#[derive(Clone, Debug)]
pub struct HalvingExchange {
    bits: StageBits,
    halvings: u32,
    fold: Fold,
    /// Whether the exchange begins with the nearest partners.
    nearest_first: bool,
}

const LOAD: u32 = 0;
const REDUCE: u32 = 1;
const ALLGATHER: u32 = 2;
const UNFOLD: u32 = 3;

impl HalvingExchange {
    /// Bidirectional exchange of the whole vector. In rank order.
    pub fn recursive_doubling(ranks: u32) -> Self {
        Self::new(ranks, 0)
    }

    /// With `halvings` halvings, at most lg P. In rank order.
    pub fn new(ranks: u32, halvings: u32) -> Self {
        let stages = ranks.ilog2();
        let fold = Fold::of_ranks(ranks);
        Self { bits: StageBits::plain(stages), halvings: halvings.min(stages), fold, nearest_first: true }
    }

    /// On a torus or mesh with the first of `dims` fastest, where half of the ranks take the dimensions in another
    /// order. `None` if a side is not a power of two.
    pub fn alternating(dims: &[u32], halvings: u32) -> Option<Self> {
        let bits = StageBits::grid(dims)?;
        let halvings = halvings.min(bits.len());
        Some(Self { bits, halvings, fold: Fold::NONE, nearest_first: false })
    }

    /// The virtual rank; `None` if the rank is folded onto its neighbor.
    fn virtual_rank(&self, rank: u32) -> Option<u32> {
        (!self.fold.is_second(rank)).then(|| self.fold.folded(rank))
    }

    fn whole(&self, buf: Buf) -> BlockRange {
        BlockRange::new(buf, 0, self.blocks())
    }

    /// The offset of the part that remains at a virtual rank.
    fn position(&self, vrank: u32) -> u32 {
        self.bits.position(vrank, self.halvings)
    }

    /// The part of a virtual rank after `halvings` halvings, and that of its last partner.
    fn parts(&self, position: u32, halvings: u32) -> (BlockRange, BlockRange) {
        let left = self.halvings - halvings;
        let part = |position: u32| BlockRange::new(Buf::Out, position >> left << left, 1 << left);
        (part(position), part(position ^ 1 << left))
    }

    fn emit_load(&self, rank: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            if self.virtual_rank(rank).is_none() {
                into.push(ScheduleOp::Send { to: rank - 1, part: self.whole(Buf::In) });
            } else if round == 0 {
                into.push(ScheduleOp::Copy { from: self.whole(Buf::In), to: self.whole(Buf::Out) });
            } else {
                into.push(ScheduleOp::RecvReduce {
                    from: rank + 1,
                    part: self.whole(Buf::Out),
                    side: OperandSide::Right,
                });
            }
            into.end_round();
        }
    }

    fn emit_reduce(&self, rank: u32, vrank: u32, rounds: Range<u32>, into: &mut RoundList) {
        let position = self.position(vrank);
        let exchanges = self.bits.len() - self.halvings;
        let left = BlockRange::new(Buf::Out, position, 1);
        let received = left.with_buf(Buf::Tmp(0));
        for round in rounds {
            // After the halvings a stage takes two rounds: a part cannot be sent and combined in one round.
            let exchange = round.checked_sub(self.halvings).map(|after| after / 2);
            let stage = match exchange {
                None => self.bits.len() - 1 - round,
                Some(exchange) if self.nearest_first => exchanges - 1 - exchange,
                Some(exchange) => exchange,
            };
            let peer = self.fold.first(self.bits.partner(vrank, stage));
            let side = OperandSide::of_peer(peer, rank);
            if exchange.is_none() {
                let (local, remote) = self.parts(position, round + 1);
                into.push(ScheduleOp::Send { to: peer, part: remote });
                into.push(ScheduleOp::RecvReduce { from: peer, part: local, side });
            } else if (round - self.halvings).is_multiple_of(2) {
                into.push(ScheduleOp::Send { to: peer, part: left });
                into.push(ScheduleOp::Recv { from: peer, part: received });
            } else {
                into.push(ScheduleOp::Reduce { from: received, into: left, side });
            }
            into.end_round();
        }
    }

    fn emit_allgather(&self, vrank: u32, rounds: Range<u32>, into: &mut RoundList) {
        let position = self.position(vrank);
        for round in rounds {
            let peer = self.fold.first(self.bits.partner(vrank, self.bits.len() - self.halvings + round));
            let (local, remote) = self.parts(position, self.halvings - round);
            into.push(ScheduleOp::Send { to: peer, part: local });
            into.push(ScheduleOp::Recv { from: peer, part: remote });
            into.end_round();
        }
    }
}

impl Schedule for HalvingExchange {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        (1 << self.bits.len()) + self.fold.pairs
    }

    fn blocks(&self) -> u32 {
        1 << self.halvings
    }

    fn scratch_buffers(&self) -> u8 {
        u8::from(self.halvings < self.bits.len())
    }

    fn phases(&self) -> u32 {
        4
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let folded = u32::from(self.fold.folded(rank) < self.fold.pairs);
        match (phase, self.virtual_rank(rank)) {
            (LOAD, Some(_)) => 1 + folded,
            (LOAD, None) => 1,
            (UNFOLD, _) => folded,
            (_, None) => 0,
            (REDUCE, _) => self.halvings + 2 * (self.bits.len() - self.halvings),
            (_, Some(_)) => self.halvings,
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        match (phase, self.virtual_rank(rank)) {
            (LOAD, _) => self.emit_load(rank, rounds, into),
            (REDUCE, Some(vrank)) => self.emit_reduce(rank, vrank, rounds, into),
            (ALLGATHER, Some(vrank)) => self.emit_allgather(vrank, rounds, into),
            (UNFOLD, vrank) => {
                for _ in rounds {
                    into.push(match vrank {
                        Some(_) => ScheduleOp::Send { to: rank + 1, part: self.whole(Buf::Out) },
                        None => ScheduleOp::Recv { from: rank - 1, part: self.whole(Buf::Out) },
                    });
                    into.end_round();
                }
            }
            // Folded onto the neighbor.
            _ => {}
        }
    }
}
