//! Reduce-scatter by the mirror image of a core, then an unshuffle that sends each block from its owners to its rank.

use std::ops::Range;

use treepie_schedule::allgather_core::mirrored_phase;
use treepie_schedule::{
    AllgatherCore, BlockRange, BlockRun, Buf, BufferBlocks, Operation, Phase, RoundList, Schedule, ScheduleOp,
};
use treepie_topology::TieBreak;

use super::view_buffers::{ViewBuffers, to_view_buffer};

/// A reduce-scatter by the mirror image of a core.
pub struct ReduceScatter<C> {
    core: C,
    /// Scratch buffers in the order of the core's views, if the input is reordered at the beginning.
    order: Option<ViewBuffers>,
}

impl<C: AllgatherCore> ReduceScatter<C> {
    /// By this core.
    pub fn new(core: C) -> Self {
        Self { core, order: None }
    }

    /// Reorders the input to the order of the core's views first: one pass over memory instead of scattered sends. The
    /// core must not be shuffled, and its views must have each block once: all cores here but Bruck's.
    pub fn reordered(core: C) -> Self {
        let order = Some(ViewBuffers::new(&core));
        Self { core, order }
    }

    /// The phase of the core whose mirror image is this phase.
    fn core_phase(&self, phase: u32) -> Option<u32> {
        self.core.phases().checked_sub(phase).filter(|_| phase > 0)
    }
}

const WORK: Buf = Buf::Tmp(0);

impl<C: AllgatherCore> Schedule for ReduceScatter<C> {
    fn operation(&self) -> Operation {
        Operation::ReduceScatter
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn scratch_buffers(&self) -> u8 {
        self.order.as_ref().map_or(1, ViewBuffers::count)
    }

    fn scratch_blocks(&self, tmp: u8, _rank: u32) -> BufferBlocks {
        self.order.as_ref().map_or(BufferBlocks::all(self.blocks()), |order| order.blocks(tmp))
    }

    fn phases(&self) -> u32 {
        self.core.phases() + 2
    }

    fn phase(&self, phase: u32) -> Phase {
        self.core_phase(phase).map_or(Phase::SINGLE_LANE, |phase| mirrored_phase(&self.core, phase))
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.core_phase(phase).map_or(1, |phase| self.core.rounds(rank, phase, lane))
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        if let Some(phase) = self.core_phase(phase) {
            let mark = into.mark();
            self.core.emit_mirrored(WORK, rank, (phase, lane), rounds, into);
            if self.order.is_some() {
                into.map_since(mark, to_view_buffer);
            }
            return;
        }
        match &self.order {
            None if phase == 0 => {
                let all = |buf| BlockRange::new(buf, 0, self.blocks());
                into.push(ScheduleOp::Copy { from: all(Buf::In), to: all(WORK) });
            }
            None => emit_unshuffle(&self.core, rank, into),
            Some(order) if phase == 0 => {
                order.whole_views(Buf::In).for_each(|(to, from)| into.push(ScheduleOp::Copy { from, to }))
            }
            Some(order) => {
                order.own_segments(rank, Buf::Out).for_each(|(from, to)| into.push(ScheduleOp::Copy { from, to }))
            }
        }
        into.end_round();
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.core.resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        self.core_phase(phase).map_or(TieBreak::Parity, |phase| self.core.tie_break(phase, lane))
    }
}

/// The unshuffle: sends the segments that a rank owns to the ranks of their blocks, and receives those of its block.
fn emit_unshuffle(core: &dyn AllgatherCore, rank: u32, into: &mut RoundList) {
    let segments = core.segments();
    let segment_of = |buf, block, segment| BlockRange::new(buf, block, 1).segment(segment, segments);
    core.initial_blocks(rank, &mut |to, segment| {
        let part = segment_of(WORK, to, segment);
        into.push(if to == rank {
            ScheduleOp::Copy { from: part, to: segment_of(Buf::Out, rank, segment) }
        } else {
            ScheduleOp::Send { to, part }
        });
    });
    for segment in 0..segments {
        let from = core.owner(rank, segment);
        if from != rank {
            into.push(ScheduleOp::Recv { from, part: segment_of(Buf::Out, rank, segment) });
        }
    }
}
