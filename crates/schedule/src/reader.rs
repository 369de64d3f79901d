//! Reads the schedule of a rank: the rounds that can start, and their operations.

use crate::cursor::{Cursor, OpenLanes, StartedRound};
use crate::op::{RoundList, ScheduleOp};
use crate::schedule::Schedule;

/// Rounds per call of `emit`; most of its cost is per call, not per round.
const BATCH: u32 = 8;

/// A [`Cursor`] that stores the operations of its open lanes.
#[derive(Debug)]
pub struct ScheduleReader {
    cursor: Cursor,
    lanes: OpenLanes<Batch>,
}

/// Some rounds of an open lane.
#[derive(Debug, Default)]
struct Batch {
    rounds: RoundList,
    /// The running round.
    running: u32,
}

impl ScheduleReader {
    /// A reader at the beginning of the schedule.
    pub fn new(schedule: &dyn Schedule, rank: u32) -> Self {
        Self { cursor: Cursor::new(schedule, rank), lanes: OpenLanes::default() }
    }

    /// Returns to the beginning and reuses the memory.
    pub fn restart(&mut self, schedule: &dyn Schedule) {
        self.cursor = Cursor::new(schedule, self.cursor.rank);
        self.lanes.clear();
    }

    /// Whether the schedule is complete.
    pub fn is_done(&self, schedule: &dyn Schedule) -> bool {
        self.cursor.is_done(schedule)
    }

    /// Starts a round that can start, as [`Cursor::start_round`].
    pub fn start_round(&mut self, schedule: &dyn Schedule) -> Option<StartedRound> {
        let started = self.cursor.start_round(schedule, &mut self.lanes)?;
        let StartedRound { slot, phase, lane, round } = started;
        let last = self.lanes.rounds(slot).min(round + BATCH);
        let batch = &mut self.lanes[slot];
        batch.running = round % BATCH;
        if batch.running == 0 {
            batch.rounds.clear();
            schedule.emit(self.cursor.rank, phase, lane, round..last, &mut batch.rounds);
            assert_eq!(batch.rounds.len() as u32, last - round, "a schedule emits exactly the requested rounds");
        }
        Some(started)
    }

    /// The operations of the running round of a lane.
    pub fn ops(&self, slot: u32) -> &[ScheduleOp] {
        let batch = &self.lanes[slot];
        batch.rounds.round(batch.running as usize)
    }

    /// Finishes the running round of a lane.
    pub fn finish_round(&mut self, slot: u32) {
        self.cursor.finish_round(&mut self.lanes, slot);
    }
}
