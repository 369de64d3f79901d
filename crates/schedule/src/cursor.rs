//! Where a rank is in its schedule: which rounds may begin, and which wait for the end of others.

use crate::op::{Op, Rounds};
use crate::schedule::{Phase, Schedule};

/// So many lanes of a phase are open at once on a rank at most, also if the phase has a larger window: executors tell the
/// messages of lanes apart by so many numbers.
pub const MOST_OPEN_LANES: u32 = 1 << 12;

/// Rounds that are asked for at once; most of the price of asking is paid once for all of them.
const BATCH: u32 = 8;

/// A rank's place in its schedule.
#[derive(Debug)]
pub struct Cursor {
    rank: u32,
    phase: u32,
    shape: Phase,
    /// Lanes of this phase that have been opened.
    opened: u32,
    /// The open ones, and closed ones whose memory is used again.
    lanes: Vec<Lane>,
    open: u32,
    /// The lowest lane that is open, or the next to open.
    lowest: u32,
}

#[derive(Debug)]
struct Lane {
    number: u32,
    open: bool,
    /// The round that is going on or next.
    round: u32,
    rounds: u32,
    /// Whether the round goes on.
    running: bool,
    batch: Rounds,
    /// The round that the batch begins with.
    first: u32,
}

/// A round that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The cursor's name for the lane, for [`Cursor::ops`] and [`Cursor::end`].
    pub slot: u32,
    /// The phase.
    pub phase: u32,
    /// The lane.
    pub lane: u32,
    /// The round in the lane.
    pub round: u32,
}

impl Cursor {
    /// At the beginning.
    pub fn new(schedule: &dyn Schedule, rank: u32) -> Self {
        let mut cursor =
            Self { rank, phase: 0, shape: Phase::lanes(0), opened: 0, lanes: Vec::new(), open: 0, lowest: 0 };
        cursor.enter(schedule, 0);
        cursor
    }

    /// Goes back to the beginning and keeps the memory.
    pub fn restart(&mut self, schedule: &dyn Schedule) {
        self.lanes.iter_mut().for_each(|lane| lane.open = false);
        self.enter(schedule, 0);
    }

    fn enter(&mut self, schedule: &dyn Schedule, phase: u32) {
        self.phase = phase;
        self.shape = if phase < schedule.phases() { schedule.phase(phase) } else { Phase::lanes(0) };
        (self.opened, self.open, self.lowest) = (0, 0, 0);
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self, schedule: &dyn Schedule) -> bool {
        self.phase >= schedule.phases()
    }

    /// Begins a round that may begin. Its operations are in [`ops`](Self::ops); when they are done, or at once if there
    /// is nothing to wait for, the caller says so by [`end`](Self::end). Nothing if all rounds that may begin have.
    pub fn begin(&mut self, schedule: &dyn Schedule) -> Option<Begun> {
        loop {
            if let Some(slot) = self.lanes.iter().position(|lane| lane.open && !lane.running) {
                return Some(self.begin_round(schedule, slot));
            }
            if self.opened < self.shape.lanes && self.may_open() {
                self.open_lane(schedule);
            } else if self.open == 0 && self.opened == self.shape.lanes && self.phase < schedule.phases() {
                self.enter(schedule, self.phase + 1);
            } else {
                return None;
            }
        }
    }

    fn may_open(&self) -> bool {
        self.opened - self.lowest < self.shape.window.clamp(1, MOST_OPEN_LANES)
    }

    fn open_lane(&mut self, schedule: &dyn Schedule) {
        let number = self.opened;
        self.opened += 1;
        let rounds = schedule.rounds(self.rank, self.phase, number);
        if rounds == 0 {
            if self.open == 0 {
                self.lowest = self.opened;
            }
            return;
        }
        self.open += 1;
        let slot = self.lanes.iter().position(|lane| !lane.open).unwrap_or(self.lanes.len());
        if slot == self.lanes.len() {
            let batch = Rounds::new();
            self.lanes.push(Lane { number, open: true, round: 0, rounds, running: false, batch, first: 0 });
        } else {
            let lane = &mut self.lanes[slot];
            (lane.number, lane.open, lane.round, lane.rounds, lane.running, lane.first) =
                (number, true, 0, rounds, false, 0);
            lane.batch.clear();
        }
    }

    fn begin_round(&mut self, schedule: &dyn Schedule, slot: usize) -> Begun {
        let lane = &mut self.lanes[slot];
        if lane.round >= lane.first + lane.batch.len() as u32 {
            lane.batch.clear();
            lane.first = lane.round;
            let last = lane.rounds.min(lane.round + BATCH);
            schedule.emit(self.rank, self.phase, lane.number, lane.round..last, &mut lane.batch);
            assert_eq!(
                lane.batch.len() as u32,
                last - lane.first,
                "a schedule writes the rounds that it was asked for"
            );
        }
        lane.running = true;
        Begun { slot: slot as u32, phase: self.phase, lane: lane.number, round: lane.round }
    }

    /// The operations of the round that goes on in a lane.
    pub fn ops(&self, slot: u32) -> &[Op] {
        let lane = &self.lanes[slot as usize];
        lane.batch.round((lane.round - lane.first) as usize)
    }

    /// A round has ended.
    pub fn end(&mut self, slot: u32) {
        let lane = &mut self.lanes[slot as usize];
        debug_assert!(lane.open && lane.running);
        lane.running = false;
        lane.round += 1;
        if lane.round < lane.rounds {
            return;
        }
        lane.open = false;
        self.open -= 1;
        let numbers = self.lanes.iter().filter(|lane| lane.open).map(|lane| lane.number);
        self.lowest = numbers.min().unwrap_or(self.opened);
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
            Phase::lanes(self.0)
        }
        fn rounds(&self, _: u32, _: u32, _: u32) -> u32 {
            1
        }
        fn emit(&self, _: u32, _: u32, _: u32, rounds: Range<u32>, into: &mut Rounds) {
            rounds.for_each(|_| into.end());
        }
    }

    #[test]
    fn no_more_lanes_are_open_than_have_numbers() {
        for lanes in [MOST_OPEN_LANES, MOST_OPEN_LANES + 2] {
            let schedule = Lanes(lanes);
            let mut cursor = Cursor::new(&schedule, 0);
            let begun: Vec<Begun> = std::iter::from_fn(|| cursor.begin(&schedule)).collect();
            assert_eq!(begun.len() as u32, MOST_OPEN_LANES, "of {lanes}");
            if lanes == MOST_OPEN_LANES {
                continue;
            }
            // Messages of the next lane could be taken for those of the first until that one is closed.
            cursor.end(begun[1].slot);
            assert!(cursor.begin(&schedule).is_none());
            cursor.end(begun[0].slot);
            let next: Vec<u32> = std::iter::from_fn(|| cursor.begin(&schedule)).map(|begun| begun.lane).collect();
            assert_eq!(next, [MOST_OPEN_LANES, MOST_OPEN_LANES + 1]);
        }
    }
}
