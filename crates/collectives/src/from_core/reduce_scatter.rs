//! Reduce-scatter: the core backwards, then each block from those who kept it to its rank.

use std::ops::Range;

use treepie_schedule::core::mirrored_phase;
use treepie_schedule::{Buf, Core, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::order::{Order, in_order};

/// A reduce-scatter by the mirror image of a core.
pub struct ReduceScatter<C> {
    core: C,
    /// The core works in scratch memory in the order of its views; the input is put in that order at the beginning.
    order: Option<Order>,
}

impl<C: Core> ReduceScatter<C> {
    /// By this core.
    pub fn new(core: C) -> Self {
        Self { core, order: None }
    }

    /// Puts the input in the order of the core's views first: one pass over memory instead of scattered sends. The core's
    /// blocks are not moved, and its views have each block once: all cores here but Bruck's.
    pub fn reordered(core: C) -> Self {
        let order = Some(Order::of(&core));
        Self { core, order }
    }

    /// The core's phase that is mirrored in this one.
    fn mirrored(&self, phase: u32) -> Option<u32> {
        self.core.phases().checked_sub(phase).filter(|_| phase > 0)
    }
}

const WORK: Buf = Buf::Tmp(0);

impl<C: Core> Schedule for ReduceScatter<C> {
    fn operation(&self) -> Operation {
        Operation::ReduceScatter
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn blocks(&self) -> u32 {
        self.core.ranks()
    }

    fn temporaries(&self) -> u8 {
        self.order.as_ref().map_or(1, Order::buffers)
    }

    fn temporary(&self, tmp: u8, _rank: u32) -> Held {
        self.order.as_ref().map_or(Held::all(self.blocks()), |order| order.held(tmp))
    }

    fn phases(&self) -> u32 {
        self.core.phases() + 2
    }

    fn phase(&self, phase: u32) -> Phase {
        self.mirrored(phase).map_or(Phase::ONE, |phase| mirrored_phase(&self.core, phase))
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.mirrored(phase).map_or(1, |phase| self.core.rounds(rank, phase, lane))
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        if let Some(phase) = self.mirrored(phase) {
            let mark = into.mark();
            self.core.emit_mirrored(WORK, rank, (phase, lane), rounds, into);
            if self.order.is_some() {
                into.map_since(mark, in_order);
            }
            return;
        }
        match &self.order {
            None if phase == 0 => {
                let all = |buf| Part::blocks(buf, 0, self.blocks());
                into.push(Op::Copy { from: all(Buf::In), to: all(WORK) });
            }
            None => emit_returns(&self.core, rank, into),
            Some(order) if phase == 0 => order.all(Buf::In).for_each(|(to, from)| into.push(Op::Copy { from, to })),
            Some(order) => order.own(rank, Buf::Out).for_each(|(from, to)| into.push(Op::Copy { from, to })),
        }
        into.end();
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.core.runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        self.mirrored(phase).map_or(Tie::Parity, |phase| self.core.tie(phase, lane))
    }
}

/// Brings what a rank has kept to those whose it is.
fn emit_returns(core: &dyn Core, rank: u32, into: &mut Rounds) {
    let cuts = core.cuts();
    let piece = |buf, block, cut| Part::blocks(buf, block, 1).segment(cut, cuts);
    core.kept(rank, &mut |to, cut| {
        let part = piece(WORK, to, cut);
        into.push(if to == rank {
            Op::Copy { from: part, to: piece(Buf::Out, rank, cut) }
        } else {
            Op::Send { to, part }
        });
    });
    for cut in 0..cuts {
        let from = core.keeper(rank, cut);
        if from != rank {
            into.push(Op::Recv { from, part: piece(Buf::Out, rank, cut) });
        }
    }
}
