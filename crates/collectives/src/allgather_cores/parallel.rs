//! Multi-port core: several concurrent cores, each on one segment of every block. Over different links of a node they
//! multiply the bandwidth.
//!
//! Cost: the messages of all cores, and the bandwidth term of one with its share of the bytes.   [thesis 3.4.2, 3.4.3]
//!
//! If shuffled, the segments of all blocks in order are divided evenly into one run per core: number s = segments *
//! block + segment goes to core s / P, where it is number s mod P. So each core's part of the result is consecutive in
//! memory. Blocks whose length the number of cores does not divide are split between elements.

use std::ops::Range;

use treepie_schedule::schedule::PhaseEnd;
use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Phase, RoundList, ScheduleOp};
use treepie_topology::TieBreak;

/// Concurrent cores.
pub struct Parallel<C> {
    cores: Vec<C>,
    /// For each phase, the core of each lane and its lane in that core.
    lanes: Vec<Vec<(u32, u32)>>,
    shuffled: bool,
}

impl<C: AllgatherCore> Parallel<C> {
    /// All cores have the same ranks and number of phases. `shuffled` must be that of the cores.
    pub fn new(cores: Vec<C>, shuffled: bool) -> Self {
        let phases = cores.first().map_or(0, AllgatherCore::phases);
        assert!(cores.iter().all(|core| core.phases() == phases), "concurrent cores have the same number of phases");
        let lanes_of = |phase: u32| {
            let cores = cores.iter().zip(0..);
            cores.flat_map(|(core, number)| (0..core.phase(phase).lanes).map(move |lane| (number, lane))).collect()
        };
        let lanes = (0..phases).map(lanes_of).collect();
        Self { cores, lanes, shuffled }
    }

    fn lane(&self, phase: u32, lane: u32) -> (u32, u32) {
        self.lanes[phase as usize][lane as usize]
    }

    /// Resolves a range of segment numbers, with one segment per core in each block.
    fn resolve_segments(&self, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let segments = self.segments();
        let mut at = lo;
        while at < lo + len {
            let left = lo + len - at;
            if at.is_multiple_of(segments) && left >= segments {
                run(BlockRun::whole_blocks(at / segments, left / segments));
                at += left / segments * segments;
            } else {
                run(BlockRun { block: at / segments, blocks: 1, segment: at % segments, segments });
                at += 1;
            }
        }
    }
}

impl<C: AllgatherCore> AllgatherCore for Parallel<C> {
    fn ranks(&self) -> u32 {
        self.cores[0].ranks()
    }

    fn segments(&self) -> u32 {
        self.cores.len() as u32
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        let (ranks, segments) = (self.ranks(), self.segments());
        for (lane, core) in (0..).zip(&self.cores) {
            core.initial_blocks(rank, &mut |block, _| {
                let number = lane * ranks + block;
                if self.shuffled { each(number / segments, number % segments) } else { each(block, lane) }
            });
        }
    }

    fn owner(&self, block: u32, segment: u32) -> u32 {
        if !self.shuffled {
            return block;
        }
        let number = block * self.segments() + segment;
        self.cores[(number / self.ranks()) as usize].owner(number % self.ranks(), 0)
    }

    fn phases(&self) -> u32 {
        self.cores[0].phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        let global = self.cores.iter().any(|core| core.phase(phase).end == PhaseEnd::Global);
        let all = Phase::with_lanes(self.lanes[phase as usize].len() as u32);
        if global { all.with_global_end() } else { all }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let mark = into.mark();
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].emit(rank, phase, lane, rounds, into);
        // Each core has its own view, which resolves segments.
        let in_view = |part: BlockRange| BlockRange { view: core as u8 + 1, ..part };
        into.map_since(mark, |op| match op {
            ScheduleOp::Send { to, part } => ScheduleOp::Send { to, part: in_view(part) },
            ScheduleOp::Recv { from, part } => ScheduleOp::Recv { from, part: in_view(part) },
            _ => unreachable!("cores send and receive only"),
        });
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let (number, ranks, segments) = (u32::from(view) - 1, self.ranks(), self.segments());
        self.cores[number as usize].resolve_view(1, lo, len, &mut |found| {
            if self.shuffled {
                self.resolve_segments(number * ranks + found.block, found.blocks, run);
            } else {
                run(BlockRun { segment: number, segments, ..found });
            }
        });
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].tie_break(phase, lane)
    }
}
