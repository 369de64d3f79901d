//! A schedule as one rank's list.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{Held, Operation, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

/// One rank's part of a schedule, written down: it is generated once, and read out each time.
pub(super) struct Collected {
    schedule: Arc<dyn Schedule>,
    /// By phase and lane.
    rounds: Vec<Vec<Rounds>>,
}

impl Collected {
    pub(super) fn new(schedule: Arc<dyn Schedule>, rank: u32) -> Self {
        let lane = |phase, lane| {
            let mut rounds = Rounds::new();
            schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
            rounds
        };
        let lanes = |phase| (0..schedule.phase(phase).lanes).map(|number| lane(phase, number)).collect();
        let rounds = (0..schedule.phases()).map(lanes).collect();
        Self { schedule, rounds }
    }

    /// The most rounds that can go on at once, and the most operations of a round.
    pub(super) fn most(&self) -> (usize, usize) {
        let open = (0..self.phases()).map(|phase| {
            let Phase { lanes, window, .. } = self.phase(phase);
            lanes.min(window.max(1)) as usize
        });
        let lanes = self.rounds.iter().flatten();
        (open.max().unwrap_or(0), lanes.flat_map(Rounds::iter).map(<[_]>::len).max().unwrap_or(0))
    }
}

impl Schedule for Collected {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn temporaries(&self) -> u8 {
        self.schedule.temporaries()
    }

    fn temporary(&self, tmp: u8, rank: u32) -> Held {
        self.schedule.temporary(tmp, rank)
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

    fn emit(&self, _rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        into.append(&self.rounds[phase as usize][lane as usize], rounds);
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.schedule.runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        self.schedule.tie(phase, lane)
    }
}
