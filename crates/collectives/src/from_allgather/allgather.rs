//! Allgather by a core: a shuffle that sends each rank's block to its owners, then the core.

use std::ops::Range;

use treepie_schedule::{
    AllgatherCore, BlockRange, BlockRun, Buf, BufferBlocks, Operation, Phase, RoundList, Schedule, ScheduleOp,
};
use treepie_topology::TieBreak;

use super::view_buffers::{ViewBuffers, to_view_buffer};

/// An allgather by a core.
pub struct Allgather<C> {
    core: C,
    /// Scratch buffers in the order of the core's views, if the result is reordered at the end.
    order: Option<ViewBuffers>,
}

impl<C: AllgatherCore> Allgather<C> {
    /// Collects directly in the result.
    pub fn new(core: C) -> Self {
        Self { core, order: None }
    }

    /// Collects in scratch memory in the order of the core's views, and restores the order of the blocks at the end:
    /// one pass over memory instead of scattered receives. The core must not be shuffled, and its views must have each
    /// block once: all cores here but Bruck's.
    pub fn reordered(core: C) -> Self {
        let order = Some(ViewBuffers::new(&core));
        Self { core, order }
    }
}

/// The shuffle: sends each segment of a rank's block to its owner, or copies it, and receives the segments it owns.
pub(crate) fn emit_shuffle(core: &dyn AllgatherCore, rank: u32, into: &mut RoundList) {
    let segments = core.segments();
    let segment_of = |buf, block, segment| BlockRange::new(buf, block, 1).segment(segment, segments);
    let owns_block = (0..segments).all(|segment| core.owner(rank, segment) == rank);
    if owns_block {
        let own = |buf| BlockRange::new(buf, rank, 1);
        into.push(ScheduleOp::Copy { from: own(Buf::In), to: own(Buf::Out) });
        return;
    }
    for segment in 0..segments {
        match core.owner(rank, segment) {
            owner if owner == rank => {
                into.push(ScheduleOp::Copy {
                    from: segment_of(Buf::In, rank, segment),
                    to: segment_of(Buf::Out, rank, segment),
                });
            }
            to => into.push(ScheduleOp::Send { to, part: segment_of(Buf::In, rank, segment) }),
        }
    }
    core.initial_blocks(rank, &mut |from, segment| {
        if from != rank {
            into.push(ScheduleOp::Recv { from, part: segment_of(Buf::Out, from, segment) });
        }
    });
}

impl<C: AllgatherCore> Schedule for Allgather<C> {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    fn scratch_buffers(&self) -> u8 {
        self.order.as_ref().map_or(0, ViewBuffers::count)
    }

    fn scratch_blocks(&self, tmp: u8, _rank: u32) -> BufferBlocks {
        self.order.as_ref().map_or(BufferBlocks::Empty, |order| order.blocks(tmp))
    }

    fn phases(&self) -> u32 {
        1 + self.core.phases() + u32::from(self.order.is_some())
    }

    fn phase(&self, phase: u32) -> Phase {
        if phase == 0 || phase > self.core.phases() { Phase::SINGLE_LANE } else { self.core.phase(phase - 1) }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        if phase == 0 || phase > self.core.phases() { 1 } else { self.core.rounds(rank, phase - 1, lane) }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        if (1..=self.core.phases()).contains(&phase) {
            let mark = into.mark();
            self.core.emit(rank, phase - 1, lane, rounds, into);
            if self.order.is_some() {
                into.map_since(mark, to_view_buffer);
            }
            return;
        }
        match &self.order {
            None => emit_shuffle(&self.core, rank, into),
            Some(order) if phase == 0 => {
                order.own_segments(rank, Buf::In).for_each(|(to, from)| into.push(ScheduleOp::Copy { from, to }));
            }
            Some(order) => order.whole_views(Buf::Out).for_each(|(from, to)| into.push(ScheduleOp::Copy { from, to })),
        }
        into.end_round();
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.core.resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        if phase == 0 || phase > self.core.phases() { TieBreak::Parity } else { self.core.tie_break(phase - 1, lane) }
    }
}
