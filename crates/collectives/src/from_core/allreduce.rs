//! Allreduce of long vectors: the core backwards, then the core. Who keeps which block in between does not matter, so the
//! moves of blocks that an allgather and a reduce-scatter need cancel out.   [Rabenseifner; thesis 3.4.4]

use std::ops::Range;

use treepie_schedule::core::{emit_on, mirrored_phase};
use treepie_schedule::{Buf, Core, Op, Operation, Part, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

/// An allreduce by a core, backwards and forwards.
pub struct Allreduce<C> {
    core: C,
}

/// A phase of it.
enum Step {
    Load,
    Backwards(u32),
    Forwards(u32),
}

impl<C: Core> Allreduce<C> {
    /// By this core.
    pub fn new(core: C) -> Self {
        Self { core }
    }

    fn step(&self, phase: u32) -> Step {
        let phases = self.core.phases();
        match phase {
            0 => Step::Load,
            phase if phase <= phases => Step::Backwards(phases - phase),
            phase => Step::Forwards(phase - 1 - phases),
        }
    }
}

impl<C: Core> Schedule for Allreduce<C> {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn blocks(&self) -> u32 {
        self.core.ranks()
    }

    fn phases(&self) -> u32 {
        1 + 2 * self.core.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        match self.step(phase) {
            Step::Load => Phase::ONE,
            Step::Backwards(phase) => mirrored_phase(&self.core, phase),
            Step::Forwards(phase) => self.core.phase(phase),
        }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        match self.step(phase) {
            Step::Load => 1,
            Step::Backwards(phase) | Step::Forwards(phase) => self.core.rounds(rank, phase, lane),
        }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        match self.step(phase) {
            Step::Load => {
                let all = |buf| Part::blocks(buf, 0, self.blocks());
                into.push(Op::Copy { from: all(Buf::In), to: all(Buf::Out) });
                into.end();
            }
            Step::Backwards(phase) => self.core.emit_mirrored(Buf::Out, rank, (phase, lane), rounds, into),
            Step::Forwards(phase) => emit_on(&self.core, Buf::Out, rank, (phase, lane), rounds, into),
        }
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.core.runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        match self.step(phase) {
            Step::Load => Tie::Parity,
            Step::Backwards(phase) | Step::Forwards(phase) => self.core.tie(phase, lane),
        }
    }
}
