//! The progress of a rank through its schedule: which rounds can start, and which wait for others.

use crate::op::{RoundList, ScheduleOp};
use crate::schedule::{Phase, Schedule};

/// The maximum number of lanes that are open concurrently on a rank, even if the phase has a larger window: executors
/// have this many numbers to distinguish the messages of lanes.
pub const MAX_OPEN_LANES: u32 = 1 << 12;

/// Rounds per call of `emit`; most of its cost is per call, not per round.
const BATCH: u32 = 8;

/// The progress of a rank through its schedule.
#[derive(Debug)]
pub struct Cursor {
    rank: u32,
    phase: u32,
    shape: Phase,
    /// Lanes of this phase that have been opened.
    opened: u32,
    /// Open lanes, and closed ones whose memory is reused.
    lanes: Vec<Lane>,
    num_open: u32,
    /// The lowest open lane, or the next to open.
    lowest_open: u32,
}

#[derive(Debug)]
struct Lane {
    number: u32,
    open: bool,
    /// The current round, or the next if none is running.
    round: u32,
    rounds: u32,
    /// Whether the round is running.
    running: bool,
    batch: RoundList,
    /// The first round of the batch.
    first: u32,
}

/// A round that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedRound {
    /// The cursor's slot of the lane, for [`Cursor::ops`] and [`Cursor::finish_round`].
    pub slot: u32,
    /// The phase.
    pub phase: u32,
    /// The lane.
    pub lane: u32,
    /// The round in the lane.
    pub round: u32,
}

impl Cursor {
    /// A cursor at the beginning of the schedule.
    pub fn new(schedule: &dyn Schedule, rank: u32) -> Self {
        let mut cursor = Self {
            rank,
            phase: 0,
            shape: Phase::with_lanes(0),
            opened: 0,
            lanes: Vec::new(),
            num_open: 0,
            lowest_open: 0,
        };
        cursor.enter_phase(schedule, 0);
        cursor
    }

    /// Returns to the beginning and reuses the memory.
    pub fn restart(&mut self, schedule: &dyn Schedule) {
        self.lanes.iter_mut().for_each(|lane| lane.open = false);
        self.enter_phase(schedule, 0);
    }

    fn enter_phase(&mut self, schedule: &dyn Schedule, phase: u32) {
        self.phase = phase;
        self.shape = if phase < schedule.phases() { schedule.phase(phase) } else { Phase::with_lanes(0) };
        (self.opened, self.num_open, self.lowest_open) = (0, 0, 0);
    }

    /// Whether the schedule is complete.
    pub fn is_done(&self, schedule: &dyn Schedule) -> bool {
        self.phase >= schedule.phases()
    }

    /// Starts a round that can start; `None` if there is none. Its operations are [`ops`](Self::ops); when they are
    /// done, the caller calls [`finish_round`](Self::finish_round), at once if there is nothing to wait for.
    pub fn start_round(&mut self, schedule: &dyn Schedule) -> Option<StartedRound> {
        loop {
            if let Some(slot) = self.lanes.iter().position(|lane| lane.open && !lane.running) {
                return Some(self.start_round_in_slot(schedule, slot));
            }
            if self.opened < self.shape.lanes && self.can_open_lane() {
                self.open_lane(schedule);
            } else if self.num_open == 0 && self.opened == self.shape.lanes && self.phase < schedule.phases() {
                self.enter_phase(schedule, self.phase + 1);
            } else {
                return None;
            }
        }
    }

    fn can_open_lane(&self) -> bool {
        self.opened - self.lowest_open < self.shape.window.clamp(1, MAX_OPEN_LANES)
    }

    fn open_lane(&mut self, schedule: &dyn Schedule) {
        let number = self.opened;
        self.opened += 1;
        let rounds = schedule.rounds(self.rank, self.phase, number);
        if rounds == 0 {
            if self.num_open == 0 {
                self.lowest_open = self.opened;
            }
            return;
        }
        self.num_open += 1;
        let slot = self.lanes.iter().position(|lane| !lane.open).unwrap_or(self.lanes.len());
        if slot == self.lanes.len() {
            let batch = RoundList::new();
            self.lanes.push(Lane { number, open: true, round: 0, rounds, running: false, batch, first: 0 });
        } else {
            let lane = &mut self.lanes[slot];
            (lane.number, lane.open, lane.round, lane.rounds, lane.running, lane.first) =
                (number, true, 0, rounds, false, 0);
            lane.batch.clear();
        }
    }

    fn start_round_in_slot(&mut self, schedule: &dyn Schedule, slot: usize) -> StartedRound {
        let lane = &mut self.lanes[slot];
        if lane.round >= lane.first + lane.batch.len() as u32 {
            lane.batch.clear();
            lane.first = lane.round;
            let last = lane.rounds.min(lane.round + BATCH);
            schedule.emit(self.rank, self.phase, lane.number, lane.round..last, &mut lane.batch);
            assert_eq!(lane.batch.len() as u32, last - lane.first, "a schedule emits exactly the requested rounds");
        }
        lane.running = true;
        StartedRound { slot: slot as u32, phase: self.phase, lane: lane.number, round: lane.round }
    }

    /// The operations of the running round of a lane.
    pub fn ops(&self, slot: u32) -> &[ScheduleOp] {
        let lane = &self.lanes[slot as usize];
        lane.batch.round((lane.round - lane.first) as usize)
    }

    /// Finishes the running round of a lane.
    pub fn finish_round(&mut self, slot: u32) {
        let lane = &mut self.lanes[slot as usize];
        debug_assert!(lane.open && lane.running);
        lane.running = false;
        lane.round += 1;
        if lane.round < lane.rounds {
            return;
        }
        lane.open = false;
        self.num_open -= 1;
        let numbers = self.lanes.iter().filter(|lane| lane.open).map(|lane| lane.number);
        self.lowest_open = numbers.min().unwrap_or(self.opened);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::schedule::Operation;

    /// Many lanes of one round each, without a window.
    struct Lanes(u32);

    impl Schedule for Lanes {
        fn operation(&self) -> Operation {
            Operation::Barrier
        }
        fn ranks(&self) -> u32 {
            1
        }
        fn blocks(&self) -> u32 {
            1
        }
        fn phase(&self, _: u32) -> Phase {
            Phase::with_lanes(self.0)
        }
        fn rounds(&self, _: u32, _: u32, _: u32) -> u32 {
            1
        }
        fn emit(&self, _: u32, _: u32, _: u32, rounds: Range<u32>, into: &mut RoundList) {
            rounds.for_each(|_| into.end_round());
        }
    }

    #[test]
    fn at_most_max_open_lanes_are_open() {
        for lanes in [MAX_OPEN_LANES, MAX_OPEN_LANES + 2] {
            let schedule = Lanes(lanes);
            let mut cursor = Cursor::new(&schedule, 0);
            let started: Vec<StartedRound> = std::iter::from_fn(|| cursor.start_round(&schedule)).collect();
            assert_eq!(started.len() as u32, MAX_OPEN_LANES, "of {lanes}");
            if lanes == MAX_OPEN_LANES {
                continue;
            }
            // Messages of the next lane could match receives of the first until that one is closed.
            cursor.finish_round(started[1].slot);
            assert!(cursor.start_round(&schedule).is_none());
            cursor.finish_round(started[0].slot);
            let next: Vec<u32> =
                std::iter::from_fn(|| cursor.start_round(&schedule)).map(|started| started.lane).collect();
            assert_eq!(next, [MAX_OPEN_LANES, MAX_OPEN_LANES + 1]);
        }
    }
}
