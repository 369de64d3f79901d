//! Hand-written schedules for tests: a table of rounds for each rank.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::ops::Range;

use treepie_schedule::{
    BlockLayout, BlockLayouts, BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, Phase, RoundList,
    Schedule, ScheduleOp,
};

/// A schedule as a table.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) operation: Operation,
    pub(crate) blocks: u32,
    pub(crate) scratch_buffers: u8,
    /// For each phase its shape, and for each lane the rounds of each rank.
    pub(crate) phases: Vec<(Phase, Vec<Lane>)>,
    /// View 1: the block at each position.
    pub(crate) view: Vec<u32>,
}

/// The rounds of each rank.
pub(crate) type Lane = Vec<Vec<Vec<ScheduleOp>>>;

impl Table {
    /// With one phase of one lane.
    pub(crate) fn new(operation: Operation, blocks: u32, ranks: Lane) -> Self {
        Self {
            operation,
            blocks,
            scratch_buffers: 0,
            phases: vec![(Phase::SINGLE_LANE, vec![ranks])],
            view: Vec::new(),
        }
    }

    /// With one phase of several lanes.
    pub(crate) fn lanes(operation: Operation, blocks: u32, shape: Phase, lanes: Vec<Lane>) -> Self {
        Self { operation, blocks, scratch_buffers: 0, phases: vec![(shape, lanes)], view: Vec::new() }
    }

    /// With one scratch buffer of all blocks.
    pub(crate) fn with_scratch(self) -> Self {
        Self { scratch_buffers: 1, ..self }
    }
}

impl Schedule for Table {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn ranks(&self) -> u32 {
        self.phases[0].1[0].len() as u32
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn scratch_buffers(&self) -> u8 {
        self.scratch_buffers
    }

    fn scratch_blocks(&self, _tmp: u8, _rank: u32) -> BufferBlocks {
        BufferBlocks::all(self.blocks)
    }

    fn phases(&self) -> u32 {
        self.phases.len() as u32
    }

    fn phase(&self, phase: u32) -> Phase {
        self.phases[phase as usize].0
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.phases[phase as usize].1[lane as usize][rank as usize].len() as u32
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            let ops = &self.phases[phase as usize].1[lane as usize][rank as usize][round as usize];
            ops.iter().for_each(|op| into.push(*op));
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.view[lo as usize..(lo + len) as usize].iter().for_each(|block| run(BlockRun::whole_blocks(*block, 1)));
    }
}

/// One block of `Out`.
pub(crate) fn out(block: u32) -> BlockRange {
    BlockRange::new(Buf::Out, block, 1)
}

/// One block of `In`.
pub(crate) fn input(block: u32) -> BlockRange {
    BlockRange::new(Buf::In, block, 1)
}

/// One block of the scratch buffer.
pub(crate) fn scratch(block: u32) -> BlockRange {
    BlockRange::new(Buf::Tmp(0), block, 1)
}

pub(crate) fn send(to: u32, part: BlockRange) -> ScheduleOp {
    ScheduleOp::Send { to, part }
}

pub(crate) fn recv(from: u32, part: BlockRange) -> ScheduleOp {
    ScheduleOp::Recv { from, part }
}

/// Receives an operand from a rank and combines it on the given side.
pub(crate) fn recv_reduce(from: u32, part: BlockRange, side: OperandSide) -> ScheduleOp {
    ScheduleOp::RecvReduce { from, part, side }
}

pub(crate) fn copy(from: BlockRange, to: BlockRange) -> ScheduleOp {
    ScheduleOp::Copy { from, to }
}

/// Blocks of `each` elements.
pub(crate) fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> BlockLayouts {
    move |_| BlockLayouts::symmetric(BlockLayout::uniform(each, blocks))
}
