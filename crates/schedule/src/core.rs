//! Allgather cores: what six operations are made of.
//!
//! In a core every rank has some pieces of a vector at first, and all pieces at the end; each rank gets each piece
//! exactly once. An allgather is a core after the ranks' inputs have been brought to those who keep them at first. Run
//! backwards, with each send turned into the receipt of an operand, a core is a reduce-scatter. One after the other they
//! are an allreduce; behind a scatter, a core is a broadcast; backwards and before a gather, a reduction.
//!
//! The pieces that a rank keeps at first need not be those of its own block: that is how algorithms whose order differs
//! from that of the ranks still write consecutive memory (the thesis's shuffle).

use std::ops::Range;

use treepie_topology::Tie;

use crate::op::{Buf, Op, Rounds, Side};
use crate::schedule::{Phase, Run};

/// An allgather core over one block for each rank.
pub trait Core: Send + Sync {
    /// How many ranks, and blocks.
    fn ranks(&self) -> u32;

    /// Into how many pieces each block is cut.
    fn cuts(&self) -> u32 {
        1
    }

    /// Calls `piece` with (block, cut) of each piece that a rank keeps at first; pieces of one block in rising order.
    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        for cut in 0..self.cuts() {
            piece(rank, cut);
        }
    }

    /// Which rank keeps a piece at first.
    fn keeper(&self, block: u32, cut: u32) -> u32 {
        let _ = cut;
        block
    }

    /// How many phases.
    fn phases(&self) -> u32 {
        1
    }

    /// A phase; a single lane unless said otherwise.
    fn phase(&self, phase: u32) -> Phase {
        let _ = phase;
        Phase::ONE
    }

    /// How many rounds a rank has in a lane.
    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32;

    /// Writes some rounds: sends and receives of parts of [`Buf::Out`] only.
    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds);

    /// Writes some rounds of the mirror image of a phase, on any buffer. The phases of a mirror image come in the
    /// opposite order: the caller counts them down.
    ///
    /// What was sent comes back and is combined; what was received goes back. Everything is turned around, so operands
    /// that come into one part in one round are combined in the opposite order of the sends. A core that keeps the order
    /// of ranks backwards, and sends a part to several in a round, either sends to the farthest first on each side or
    /// writes its mirror image itself.
    fn emit_mirrored(&self, buf: Buf, rank: u32, (phase, lane): (u32, u32), rounds: Range<u32>, into: &mut Rounds) {
        let all = self.rounds(rank, phase, lane);
        let mark = into.mark();
        self.emit(rank, phase, lane, all - rounds.end..all - rounds.start, into);
        into.reverse_since(mark);
        into.map_since(mark, |op| match op {
            Op::Send { to, part } => Op::RecvReduce { from: to, part: part.of_buf(buf), side: Side::of(to, rank) },
            Op::Recv { from, part } => Op::Send { to: from, part: part.of_buf(buf) },
            _ => unreachable!("cores send and receive only"),
        });
    }

    /// Turns positions of a view into blocks, as [`Schedule::runs`](crate::Schedule::runs).
    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let _ = (view, lo, len, run);
        unreachable!("a core that defines views turns them into blocks");
    }

    /// Which way messages of a lane go at exactly half a ring.
    fn tie(&self, phase: u32, lane: u32) -> Tie {
        let _ = (phase, lane);
        Tie::Parity
    }
}

impl<C: Core + ?Sized> Core for Box<C> {
    fn ranks(&self) -> u32 {
        (**self).ranks()
    }

    fn cuts(&self) -> u32 {
        (**self).cuts()
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        (**self).kept(rank, piece);
    }

    fn keeper(&self, block: u32, cut: u32) -> u32 {
        (**self).keeper(block, cut)
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

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        (**self).emit(rank, phase, lane, rounds, into);
    }

    fn emit_mirrored(&self, buf: Buf, rank: u32, lane: (u32, u32), rounds: Range<u32>, into: &mut Rounds) {
        (**self).emit_mirrored(buf, rank, lane, rounds, into);
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        (**self).runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        (**self).tie(phase, lane)
    }
}

/// Writes rounds of a core's phase on another buffer.
pub fn emit_on(core: &dyn Core, buf: Buf, rank: u32, (phase, lane): (u32, u32), rounds: Range<u32>, into: &mut Rounds) {
    let mark = into.mark();
    core.emit(rank, phase, lane, rounds, into);
    if buf == Buf::Out {
        return;
    }
    into.map_since(mark, |op| match op {
        Op::Send { to, part } => Op::Send { to, part: part.of_buf(buf) },
        Op::Recv { from, part } => Op::Recv { from, part: part.of_buf(buf) },
        _ => unreachable!("cores send and receive only"),
    });
}

/// How a mirrored core's phase ends: what lay before it in the core lies behind it now.
pub fn mirrored_phase(core: &dyn Core, phase: u32) -> Phase {
    let end = if phase == 0 { crate::schedule::End::Local } else { core.phase(phase - 1).end };
    Phase { end, ..core.phase(phase) }
}
