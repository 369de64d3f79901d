//! Allgather: each rank's block to those who keep it at first, then the core.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Held, Op, Operation, Part, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::order::{Order, in_order};

/// An allgather by a core.
pub struct Allgather<C> {
    core: C,
    /// The core collects in scratch memory in the order of its views; the result is put in order at the end.
    order: Option<Order>,
}

impl<C: Core> Allgather<C> {
    /// Collects straight into the result.
    pub fn new(core: C) -> Self {
        Self { core, order: None }
    }

    /// Collects into scratch memory in the order of the core's views, and restores the order of the blocks at the end: one
    /// pass over memory instead of scattered receives. The core's blocks are not moved, and its views
    /// have each block once: all cores here but Bruck's.
    pub fn reordered(core: C) -> Self {
        let order = Some(Order::of(&core));
        Self { core, order }
    }
}

/// Brings each piece of a rank's own block to its keeper: copies what it keeps itself, sends and receives the rest.
pub(crate) fn emit_moves(core: &dyn Core, rank: u32, into: &mut Rounds) {
    let cuts = core.cuts();
    let piece = |buf, block, cut| Part::blocks(buf, block, 1).segment(cut, cuts);
    let keeps_own = (0..cuts).all(|cut| core.keeper(rank, cut) == rank);
    if keeps_own {
        let own = |buf| Part::blocks(buf, rank, 1);
        into.push(Op::Copy { from: own(Buf::In), to: own(Buf::Out) });
        return;
    }
    for cut in 0..cuts {
        match core.keeper(rank, cut) {
            keeper if keeper == rank => {
                into.push(Op::Copy { from: piece(Buf::In, rank, cut), to: piece(Buf::Out, rank, cut) });
            }
            to => into.push(Op::Send { to, part: piece(Buf::In, rank, cut) }),
        }
    }
    core.kept(rank, &mut |from, cut| {
        if from != rank {
            into.push(Op::Recv { from, part: piece(Buf::Out, from, cut) });
        }
    });
}

impl<C: Core> Schedule for Allgather<C> {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn blocks(&self) -> u32 {
        self.core.ranks()
    }

    fn temporaries(&self) -> u8 {
        self.order.as_ref().map_or(0, Order::buffers)
    }

    fn temporary(&self, tmp: u8, _rank: u32) -> Held {
        self.order.as_ref().map_or(Held::Nothing, |order| order.held(tmp))
    }

    fn phases(&self) -> u32 {
        1 + self.core.phases() + u32::from(self.order.is_some())
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 || phase > self.core.phases() { Phase::ONE } else { self.core.phase(phase - 1) }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        if phase == 0 || phase > self.core.phases() { 1 } else { self.core.rounds(rank, phase - 1, lane) }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        if (1..=self.core.phases()).contains(&phase) {
            let mark = into.mark();
            self.core.emit(rank, phase - 1, lane, rounds, into);
            if self.order.is_some() {
                into.map_since(mark, in_order);
            }
            return;
        }
        match &self.order {
            None => emit_moves(&self.core, rank, into),
            Some(order) if phase == 0 => {
                order.own(rank, Buf::In).for_each(|(to, from)| into.push(Op::Copy { from, to }));
            }
            Some(order) => order.all(Buf::Out).for_each(|(from, to)| into.push(Op::Copy { from, to })),
        }
        into.end();
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.core.runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        if phase == 0 || phase > self.core.phases() { Tie::Parity } else { self.core.tie(phase - 1, lane) }
    }
}
