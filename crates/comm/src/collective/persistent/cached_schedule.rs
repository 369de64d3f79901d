//! Schedules cached for one rank.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRun, BufferBlocks, Operation, Phase, RoundList, Schedule};
use treepie_topology::TieBreak;

/// The schedule of one rank, generated once and read from the cache at each start.
pub(super) struct CachedSchedule {
    schedule: Arc<dyn Schedule>,
    /// Indexed by phase and lane.
    rounds: Vec<Vec<RoundList>>,
}

impl CachedSchedule {
    pub(super) fn new(schedule: Arc<dyn Schedule>, rank: u32) -> Self {
        let lane = |phase, lane| {
            let mut rounds = RoundList::new();
            schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
            rounds
        };
        let lanes = |phase| (0..schedule.phase(phase).lanes).map(|number| lane(phase, number)).collect();
        let rounds = (0..schedule.phases()).map(lanes).collect();
        Self { schedule, rounds }
    }

    /// The most rounds that can be active at once, and the most operations of a round.
    pub(super) fn max_rounds_and_ops(&self) -> (usize, usize) {
        let open = (0..self.phases()).map(|phase| {
            let Phase { lanes, window, .. } = self.phase(phase);
            lanes.min(window.max(1)) as usize
        });
        let lanes = self.rounds.iter().flatten();
        (open.max().unwrap_or(0), lanes.flat_map(RoundList::iter).map(<[_]>::len).max().unwrap_or(0))
    }
}

impl Schedule for CachedSchedule {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn scratch_buffers(&self) -> u8 {
        self.schedule.scratch_buffers()
    }

    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        self.schedule.scratch_blocks(tmp, rank)
    }

    fn phases(&self) -> u32 {
        self.rounds.len() as u32
    }

    fn phase(&self, phase: u32) -> Phase {
        self.schedule.phase(phase)
    }

    fn rounds(&self, _rank: u32, phase: u32, lane: u32) -> u32 {
        self.rounds[phase as usize][lane as usize].len() as u32
    }

    fn emit(&self, _rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        into.append(&self.rounds[phase as usize][lane as usize], rounds);
    }

    fn resolve_view_on(&self, rank: u32, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.schedule.resolve_view_on(rank, view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        self.schedule.tie_break(phase, lane)
    }
}
