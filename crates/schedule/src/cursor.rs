//! The progress of ranks through their schedules: which rounds can start, and which wait for others.

use std::ops::{Index, IndexMut};

use crate::schedule::{Phase, Schedule};

/// No slot.
const NIL: u32 = u32::MAX;

/// The progress of a rank through its schedule.
///
/// A few words, so that a simulator can have one for each of a million ranks: it stores no operations, and its open
/// lanes are in an [`OpenLanes`] that many cursors share. A [`ScheduleReader`](crate::ScheduleReader) is one with both.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub(crate) rank: u32,
    phase: u32,
    /// The lanes of this phase, how many of them may be open, and how many have been opened.
    lanes: u32,
    max_open: u32,
    opened: u32,
    /// The ends of the list of open lanes, in ascending order.
    lowest: u32,
    highest: u32,
    /// The head of the list of open lanes without a running round, in ascending order.
    ready: u32,
}

/// The open lanes of one cursor or of many, each with a value of the caller. A lane that takes the slot of a closed one
/// finds its value, to reuse its memory.
#[derive(Debug)]
pub struct OpenLanes<T> {
    lanes: Vec<Lane<T>>,
    /// The head of the list of free slots, linked by `above`.
    free: u32,
}

#[derive(Debug)]
struct Lane<T> {
    number: u32,
    /// The current round, or the next if none is running.
    round: u32,
    rounds: u32,
    /// Its neighbors in the list of open lanes.
    below: u32,
    above: u32,
    next_ready: u32,
    value: T,
}

/// A round that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedRound {
    /// The slot of the lane in its [`OpenLanes`].
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
        let mut cursor =
            Self { rank, phase: 0, lanes: 0, max_open: 0, opened: 0, lowest: NIL, highest: NIL, ready: NIL };
        cursor.enter_phase(schedule, 0);
        cursor
    }

    fn enter_phase(&mut self, schedule: &dyn Schedule, phase: u32) {
        let shape = if phase < schedule.phases() { schedule.phase(phase) } else { Phase::with_lanes(0) };
        (self.phase, self.lanes, self.max_open, self.opened) = (phase, shape.lanes, shape.max_open_lanes(), 0);
    }

    /// The current phase; the number of phases when the schedule is complete.
    pub fn phase(&self) -> u32 {
        self.phase
    }

    /// Whether the schedule is complete.
    pub fn is_done(&self, schedule: &dyn Schedule) -> bool {
        self.phase >= schedule.phases()
    }

    /// Starts a round that can start; `None` if there is none. When its operations are done, the caller calls
    /// [`finish_round`](Self::finish_round), at once if there is nothing to wait for.
    pub fn start_round<T: Default>(
        &mut self,
        schedule: &dyn Schedule,
        lanes: &mut OpenLanes<T>,
    ) -> Option<StartedRound> {
        loop {
            let started = self.start_round_of_phase(schedule, lanes);
            if started.is_some() || !self.has_ended_phase(schedule) {
                return started;
            }
            self.enter_next_phase(schedule);
        }
    }

    /// As [`start_round`](Self::start_round), but in this phase only: the caller enters the next one.
    #[inline]
    pub fn start_round_of_phase<T: Default>(
        &mut self,
        schedule: &dyn Schedule,
        lanes: &mut OpenLanes<T>,
    ) -> Option<StartedRound> {
        while self.ready == NIL {
            if !self.open_lane(schedule, lanes) {
                return None;
            }
        }
        let slot = self.ready;
        let Lane { number, round, next_ready, .. } = lanes.lanes[slot as usize];
        self.ready = next_ready;
        Some(StartedRound { slot, phase: self.phase, lane: number, round })
    }

    /// Whether all lanes of this phase are closed.
    #[inline]
    pub fn has_ended_phase(&self, schedule: &dyn Schedule) -> bool {
        self.opened == self.lanes && self.lowest == NIL && !self.is_done(schedule)
    }

    /// Enters the next phase, when this one has ended.
    pub fn enter_next_phase(&mut self, schedule: &dyn Schedule) {
        debug_assert!(self.has_ended_phase(schedule));
        self.enter_phase(schedule, self.phase + 1);
    }

    /// Opens the next lane, if the window lets it. A lane without rounds closes at once.
    #[inline]
    fn open_lane<T: Default>(&mut self, schedule: &dyn Schedule, lanes: &mut OpenLanes<T>) -> bool {
        let number = self.opened;
        if number == self.lanes {
            return false;
        }
        let lowest = lanes.lanes.get(self.lowest as usize).map_or(number, |lane| lane.number);
        if number - lowest >= self.max_open {
            return false;
        }
        self.opened += 1;
        let rounds = schedule.rounds(self.rank, self.phase, number);
        if rounds > 0 {
            let slot = lanes.take_slot();
            let lane = &mut lanes.lanes[slot as usize];
            (lane.number, lane.round, lane.rounds) = (number, 0, rounds);
            self.join(lanes, self.highest, slot);
            self.join(lanes, slot, NIL);
            self.make_ready(lanes, slot);
        }
        true
    }

    /// Finishes the running round of a lane, and closes the lane after its last round.
    #[inline]
    pub fn finish_round<T>(&mut self, lanes: &mut OpenLanes<T>, slot: u32) {
        let lane = &mut lanes.lanes[slot as usize];
        debug_assert!(lane.round < lane.rounds, "only an open lane has a running round");
        lane.round += 1;
        if lane.round < lane.rounds {
            self.make_ready(lanes, slot);
        } else {
            let (below, above) = (lane.below, lane.above);
            self.join(lanes, below, above);
            lanes.free_slot(slot);
        }
    }

    /// Makes two open lanes neighbors; without one of them, the other becomes an end of the list.
    fn join<T>(&mut self, lanes: &mut OpenLanes<T>, below: u32, above: u32) {
        match lanes.lanes.get_mut(below as usize) {
            Some(lane) => lane.above = above,
            None => self.lowest = above,
        }
        match lanes.lanes.get_mut(above as usize) {
            Some(lane) => lane.below = below,
            None => self.highest = below,
        }
    }

    fn make_ready<T>(&mut self, lanes: &mut OpenLanes<T>, slot: u32) {
        let number = lanes.number(slot);
        let (mut before, mut after) = (NIL, self.ready);
        while after != NIL && lanes.number(after) < number {
            (before, after) = (after, lanes.lanes[after as usize].next_ready);
        }
        lanes.lanes[slot as usize].next_ready = after;
        match lanes.lanes.get_mut(before as usize) {
            Some(lane) => lane.next_ready = slot,
            None => self.ready = slot,
        }
    }
}

impl<T> Default for OpenLanes<T> {
    fn default() -> Self {
        Self { lanes: Vec::new(), free: NIL }
    }
}

impl<T> OpenLanes<T> {
    /// The number of the lane in a slot.
    #[inline]
    pub fn number(&self, slot: u32) -> u32 {
        self.lanes[slot as usize].number
    }

    /// The number of rounds of the lane in a slot.
    pub(crate) fn rounds(&self, slot: u32) -> u32 {
        self.lanes[slot as usize].rounds
    }

    /// Bytes of memory in use, without what values own.
    pub fn memory(&self) -> usize {
        self.lanes.capacity() * size_of::<Lane<T>>()
    }

    /// Closes all lanes.
    pub(crate) fn clear(&mut self) {
        self.free = NIL;
        (0..self.lanes.len() as u32).rev().for_each(|slot| self.free_slot(slot));
    }

    #[inline]
    fn free_slot(&mut self, slot: u32) {
        self.lanes[slot as usize].above = std::mem::replace(&mut self.free, slot);
    }

    #[inline]
    fn take_slot(&mut self) -> u32
    where
        T: Default,
    {
        let slot = self.free;
        if let Some(lane) = self.lanes.get(slot as usize) {
            self.free = lane.above;
            return slot;
        }
        let value = T::default();
        self.lanes.push(Lane { number: 0, round: 0, rounds: 0, below: NIL, above: NIL, next_ready: NIL, value });
        self.lanes.len() as u32 - 1
    }
}

impl<T> Index<u32> for OpenLanes<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.lanes[slot as usize].value
    }
}

impl<T> IndexMut<u32> for OpenLanes<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.lanes[slot as usize].value
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::op::RoundList;
    use crate::schedule::{MAX_OPEN_LANES, Operation};

    /// A phase whose lanes have this many rounds each.
    struct Lanes(Phase, u32);

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
            self.0
        }
        fn rounds(&self, _: u32, _: u32, _: u32) -> u32 {
            self.1
        }
        fn emit(&self, _: u32, _: u32, _: u32, rounds: Range<u32>, into: &mut RoundList) {
            rounds.for_each(|_| into.end_round());
        }
    }

    #[test]
    fn at_most_max_open_lanes_are_open() {
        for lanes in [MAX_OPEN_LANES, MAX_OPEN_LANES + 2] {
            let schedule = Lanes(Phase::with_lanes(lanes), 1);
            let (mut cursor, mut open) = (Cursor::new(&schedule, 0), OpenLanes::<()>::default());
            let started: Vec<StartedRound> = std::iter::from_fn(|| cursor.start_round(&schedule, &mut open)).collect();
            assert_eq!(started.len() as u32, MAX_OPEN_LANES, "of {lanes}");
            if lanes == MAX_OPEN_LANES {
                continue;
            }
            // Messages of the next lane could match receives of the first until that one is closed.
            cursor.finish_round(&mut open, started[1].slot);
            assert!(cursor.start_round(&schedule, &mut open).is_none());
            cursor.finish_round(&mut open, started[0].slot);
            let next: Vec<u32> =
                std::iter::from_fn(|| cursor.start_round(&schedule, &mut open)).map(|started| started.lane).collect();
            assert_eq!(next, [MAX_OPEN_LANES, MAX_OPEN_LANES + 1]);
        }
    }

    /// Starts what can start, and returns the lanes with their slots.
    fn start_all(cursor: &mut Cursor, schedule: &Lanes, open: &mut OpenLanes<()>) -> Vec<(u32, u32)> {
        let started = std::iter::from_fn(|| cursor.start_round(schedule, open));
        started.map(|started| (started.lane, started.slot)).collect()
    }

    #[test]
    fn cursors_share_lanes_and_continue_them_in_order() {
        let schedule = Lanes(Phase::with_lanes(4).with_window(3), 2);
        let mut open = OpenLanes::default();
        let mut cursors = [0, 1].map(|rank| Cursor::new(&schedule, rank));
        let mut running = cursors.each_mut().map(|cursor| start_all(cursor, &schedule, &mut open));
        let lanes = |running: &[(u32, u32)]| running.iter().map(|(lane, _)| *lane).collect::<Vec<u32>>();
        for (cursor, running) in cursors.iter_mut().zip(&mut running) {
            assert_eq!(lanes(running), [0, 1, 2]);
            [2, 0, 1].iter().for_each(|lane: &usize| cursor.finish_round(&mut open, running[*lane].1));
            *running = start_all(cursor, &schedule, &mut open);
            assert_eq!(lanes(running), [0, 1, 2]);
        }
        for (cursor, running) in cursors.iter_mut().zip(&mut running) {
            // The window holds lane 3 back until lane 0 is closed.
            cursor.finish_round(&mut open, running[1].1);
            assert_eq!(start_all(cursor, &schedule, &mut open), []);
            cursor.finish_round(&mut open, running[0].1);
            let last = start_all(cursor, &schedule, &mut open);
            assert_eq!(lanes(&last), [3]);
            cursor.finish_round(&mut open, running[2].1);
            cursor.finish_round(&mut open, last[0].1);
            assert_eq!(start_all(cursor, &schedule, &mut open), last);
            assert!(!cursor.is_done(&schedule));
            cursor.finish_round(&mut open, last[0].1);
            assert_eq!(start_all(cursor, &schedule, &mut open), []);
            assert!(cursor.is_done(&schedule));
        }
    }
}
