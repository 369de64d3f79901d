//! Schedules written by hand, for tests: a table of rounds for each rank.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ops::Range;

use treepie_schedule::{Buf, Held, Layout, Layouts, Op, Operation, Part, Phase, Rounds, Run, Schedule, Side};

/// A schedule as a table.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) operation: Operation,
    pub(crate) blocks: u32,
    pub(crate) temporaries: u8,
    /// For each phase its shape, and for each lane the rounds of each rank.
    pub(crate) phases: Vec<(Phase, Vec<Lane>)>,
    /// View 1: which block is at each position.
    pub(crate) view: Vec<u32>,
}

/// The rounds of each rank.
pub(crate) type Lane = Vec<Vec<Vec<Op>>>;

impl Table {
    /// With one phase of one lane.
    pub(crate) fn new(operation: Operation, blocks: u32, ranks: Lane) -> Self {
        Self { operation, blocks, temporaries: 0, phases: vec![(Phase::ONE, vec![ranks])], view: Vec::new() }
    }

    /// With one phase of several lanes.
    pub(crate) fn lanes(operation: Operation, blocks: u32, shape: Phase, lanes: Vec<Lane>) -> Self {
        Self { operation, blocks, temporaries: 0, phases: vec![(shape, lanes)], view: Vec::new() }
    }

    /// With one scratch buffer of all blocks.
    pub(crate) fn with_scratch(self) -> Self {
        Self { temporaries: 1, ..self }
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

    fn temporaries(&self) -> u8 {
        self.temporaries
    }

    fn temporary(&self, _tmp: u8, _rank: u32) -> Held {
        Held::all(self.blocks)
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

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for round in rounds {
            let ops = &self.phases[phase as usize].1[lane as usize][rank as usize][round as usize];
            ops.iter().for_each(|op| into.push(*op));
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.view[lo as usize..(lo + len) as usize].iter().for_each(|block| run(Run::whole(*block, 1)));
    }
}

/// One block of `Out`.
pub(crate) fn out(block: u32) -> Part {
    Part::blocks(Buf::Out, block, 1)
}

/// One block of `In`.
pub(crate) fn input(block: u32) -> Part {
    Part::blocks(Buf::In, block, 1)
}

/// One block of the scratch buffer.
pub(crate) fn scratch(block: u32) -> Part {
    Part::blocks(Buf::Tmp(0), block, 1)
}

pub(crate) fn send(to: u32, part: Part) -> Op {
    Op::Send { to, part }
}

pub(crate) fn recv(from: u32, part: Part) -> Op {
    Op::Recv { from, part }
}

/// Combines what comes from the rank with what is there, the lower rank's first.
pub(crate) fn add(from: u32, part: Part, side: Side) -> Op {
    Op::RecvReduce { from, part, side }
}

pub(crate) fn copy(from: Part, to: Part) -> Op {
    Op::Copy { from, to }
}

/// Blocks of so many elements each.
pub(crate) fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(Layout::uniform(each, blocks))
}
