//! Allreduce of long vectors by a core: its mirror image (reduce-scatter), then the core (allgather). The shuffles that
//! a reduce-scatter and an allgather need cancel out.   [Rabenseifner; thesis 3.2.2, 3.4.4]

use std::ops::Range;

use treepie_schedule::allgather_core::{emit_on_buffer, mirrored_phase};
use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, Operation, Phase, RoundList, Schedule, ScheduleOp};
use treepie_topology::TieBreak;

/// An allreduce by the mirror image of a core and the core.
pub struct Allreduce<C> {
    core: C,
}

/// A phase of the allreduce.
enum AllreduceStage {
    Load,
    ReduceScatter(u32),
    Allgather(u32),
}

impl<C: AllgatherCore> Allreduce<C> {
    /// By this core.
    pub fn new(core: C) -> Self {
        Self { core }
    }

    fn stage(&self, phase: u32) -> AllreduceStage {
        let phases = self.core.phases();
        match phase {
            0 => AllreduceStage::Load,
            phase if phase <= phases => AllreduceStage::ReduceScatter(phases - phase),
            phase => AllreduceStage::Allgather(phase - 1 - phases),
        }
    }
}

impl<C: AllgatherCore> Schedule for Allreduce<C> {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn phases(&self) -> u32 {
        1 + 2 * self.core.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        match self.stage(phase) {
            AllreduceStage::Load => Phase::SINGLE_LANE,
            AllreduceStage::ReduceScatter(phase) => mirrored_phase(&self.core, phase),
            AllreduceStage::Allgather(phase) => self.core.phase(phase),
        }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        match self.stage(phase) {
            AllreduceStage::Load => 1,
            AllreduceStage::ReduceScatter(phase) | AllreduceStage::Allgather(phase) => {
                self.core.rounds(rank, phase, lane)
            }
        }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        match self.stage(phase) {
            AllreduceStage::Load => {
                let all = |buf| BlockRange::new(buf, 0, self.blocks());
                into.push(ScheduleOp::Copy { from: all(Buf::In), to: all(Buf::Out) });
                into.end_round();
            }
            AllreduceStage::ReduceScatter(phase) => {
                self.core.emit_mirrored(Buf::Out, rank, (phase, lane), rounds, into)
            }
            AllreduceStage::Allgather(phase) => emit_on_buffer(&self.core, Buf::Out, rank, (phase, lane), rounds, into),
        }
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.core.resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        match self.stage(phase) {
            AllreduceStage::Load => TieBreak::Parity,
            AllreduceStage::ReduceScatter(phase) | AllreduceStage::Allgather(phase) => self.core.tie_break(phase, lane),
        }
    }
}
