//! Allgather cores: the building blocks of six operations.
//!
//! In a core every rank initially owns some segments of a vector, and finally has all of them; each rank receives each
//! segment exactly once. An allgather is a shuffle that sends the ranks' inputs to their owners, followed by a core.
//! The mirror image of a core, in reverse with each send turned into a receive-reduce, is a reduce-scatter. Mirror
//! image and core are an allreduce; a scatter and a core are a broadcast; a mirror image and a gather are a reduction.
//!
//! The segments that a rank owns need not be those of block r: with the thesis's shuffle, algorithms whose order
//! differs from that of the ranks still write consecutive memory.

use std::ops::Range;

use treepie_topology::TieBreak;

use crate::op::{Buf, OperandSide, RoundList, ScheduleOp};
use crate::schedule::{BlockRun, Phase};

/// An allgather core over one block per rank.
pub trait AllgatherCore: Send + Sync {
    /// The number of ranks, and of blocks.
    fn ranks(&self) -> u32;

    /// The number of segments of each block.
    fn segments(&self) -> u32 {
        1
    }

    /// Calls `each` with (block, segment) of all that a rank initially owns; segments of one block in ascending order.
    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        for segment in 0..self.segments() {
            each(rank, segment);
        }
    }

    /// The rank that initially owns a segment of a block.
    fn owner(&self, block: u32, segment: u32) -> u32 {
        let _ = segment;
        block
    }

    /// The number of phases.
    fn phases(&self) -> u32 {
        1
    }

    /// The shape of a phase; a single lane by default.
    fn phase(&self, phase: u32) -> Phase {
        let _ = phase;
        Phase::SINGLE_LANE
    }

    /// The number of rounds of a rank in a lane.
    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32;

    /// Appends some rounds to `into`: only sends and receives of ranges of [`Buf::Out`].
    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList);

    /// Appends some rounds of the mirror image of a phase, on any buffer. The phases of a mirror image come in reverse
    /// order: the caller counts them down.
    ///
    /// Each send becomes a receive-reduce and each receive a send, in reverse order, so operands for one range in one
    /// round are combined in the reverse order of the sends. A core whose mirror image is rank-ordered, and which sends
    /// a range to several ranks in a round, either sends to the farthest first on each side or overrides this method.
    fn emit_mirrored(&self, buf: Buf, rank: u32, (phase, lane): (u32, u32), rounds: Range<u32>, into: &mut RoundList) {
        let all = self.rounds(rank, phase, lane);
        let mark = into.mark();
        self.emit(rank, phase, lane, all - rounds.end..all - rounds.start, into);
        into.reverse_since(mark);
        into.map_since(mark, |op| match op {
            ScheduleOp::Send { to, part } => {
                ScheduleOp::RecvReduce { from: to, part: part.with_buf(buf), side: OperandSide::of_peer(to, rank) }
            }
            ScheduleOp::Recv { from, part } => ScheduleOp::Send { to: from, part: part.with_buf(buf) },
            _ => unreachable!("cores send and receive only"),
        });
    }

    /// Maps positions of a view to blocks, as [`Schedule::resolve_view`](crate::Schedule::resolve_view).
    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let _ = (view, lo, len, run);
        unreachable!("a core that defines views resolves them");
    }

    /// The direction of a lane's messages over exactly half a ring.
    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        let _ = (phase, lane);
        TieBreak::Parity
    }
}

impl<C: AllgatherCore + ?Sized> AllgatherCore for Box<C> {
    fn ranks(&self) -> u32 {
        (**self).ranks()
    }

    fn segments(&self) -> u32 {
        (**self).segments()
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        (**self).initial_blocks(rank, each);
    }

    fn owner(&self, block: u32, segment: u32) -> u32 {
        (**self).owner(block, segment)
    }

    fn phases(&self) -> u32 {
        (**self).phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        (**self).phase(phase)
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        (**self).rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        (**self).emit(rank, phase, lane, rounds, into);
    }

    fn emit_mirrored(&self, buf: Buf, rank: u32, lane: (u32, u32), rounds: Range<u32>, into: &mut RoundList) {
        (**self).emit_mirrored(buf, rank, lane, rounds, into);
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        (**self).resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        (**self).tie_break(phase, lane)
    }
}

/// Appends rounds of a core's phase, on another buffer.
pub fn emit_on_buffer(
    core: &dyn AllgatherCore,
    buf: Buf,
    rank: u32,
    (phase, lane): (u32, u32),
    rounds: Range<u32>,
    into: &mut RoundList,
) {
    let mark = into.mark();
    core.emit(rank, phase, lane, rounds, into);
    if buf == Buf::Out {
        return;
    }
    into.map_since(mark, |op| match op {
        ScheduleOp::Send { to, part } => ScheduleOp::Send { to, part: part.with_buf(buf) },
        ScheduleOp::Recv { from, part } => ScheduleOp::Recv { from, part: part.with_buf(buf) },
        _ => unreachable!("cores send and receive only"),
    });
}

/// The shape of a mirrored phase: it ends as the phase before it in the core does.
pub fn mirrored_phase(core: &dyn AllgatherCore, phase: u32) -> Phase {
    let end = if phase == 0 { crate::schedule::PhaseEnd::Local } else { core.phase(phase - 1).end };
    Phase { end, ..core.phase(phase) }
}
