//! The event loop of the schedule simulator.

use std::collections::{HashMap, VecDeque};

use treepie_schedule::{Phase, PhaseEnd, RoundList};
use treepie_topology::TieBreak;

use super::matching::{MatchTable, SimMatchKey};
use super::rank::{LaneState, RankState};
use super::{PartLengths, SimResult, Workload};
use crate::error::{Error, Result};
use crate::machine::{Machine, MemoryUsage, SimEvent, SimEventKind};
use crate::slab::{NIL, Slab};
use crate::symmetric::{OrderTies, SymmetryGroup};
use crate::time::{MAX_TIME, Time, to_micros};

/// Wakeup tokens other than the end of a lane's round: release from the global end of a phase,
pub(super) const PHASE_RELEASED: u64 = u64::MAX;
/// and a received message to combine.
pub(super) const COMBINE: u64 = 1 << 63;

/// State of a phase, common to all ranks.
#[derive(Debug)]
pub(super) struct PhaseState {
    phase: Phase,
    /// Index of its first lane among the lanes of all phases.
    pub(super) first: u32,
    /// Tie break of each lane; a single one if all are equal.
    ties: Vec<TieBreak>,
    /// Ranks that have arrived at its global end.
    arrived: u32,
}

impl PhaseState {
    pub(super) fn tie(&self, lane: u32) -> TieBreak {
        if self.ties.len() == 1 { self.ties[0] } else { self.ties[lane as usize] }
    }
}

pub(super) struct ScheduleSimulator<'a> {
    pub(super) workload: Workload<'a>,
    pub(super) machine: Machine,
    /// Maps messages of rank 0 to those that it receives, if only rank 0 is simulated.
    symmetry: Option<SymmetryGroup>,
    /// Requests that might have come in another order, then.
    pub(super) ties: Option<OrderTies>,
    pub(super) phases: Vec<PhaseState>,
    pub(super) ranks: Vec<RankState>,
    pub(super) lanes: Slab<LaneState>,
    pub(super) match_table: MatchTable,
    /// Lane and bytes of received messages to combine.
    pub(super) pending_combines: Slab<(u32, u64)>,
    pub(super) part_lengths: PartLengths,
    pub(super) ops: RoundList,
    /// Bytes of unexpected messages, if memory is capped.
    pub(super) unexpected: Option<HashMap<SimMatchKey, VecDeque<u64>>>,
    /// Scratch: destinations of the round that begins.
    pub(super) peers: Vec<u32>,
    /// Ranks that failed before they completed, and when.
    failed: Vec<(u32, Time)>,
    done: u32,
    first_completion: Time,
    makespan: Time,
}

impl<'a> ScheduleSimulator<'a> {
    pub(super) fn new(workload: Workload<'a>, machine: Machine, symmetry: Option<SymmetryGroup>) -> Self {
        let schedule = workload.schedule;
        let simulated = if symmetry.is_some() { 1 } else { schedule.ranks() };
        let mut first = 0;
        let shape = |number| {
            let phase = schedule.phase(number);
            let mut ties: Vec<TieBreak> =
                (0..phase.lanes.max(1)).map(|lane| schedule.tie_break(number, lane)).collect();
            if ties.windows(2).all(|two| two[0] == two[1]) {
                ties.truncate(1);
            }
            let shape = PhaseState { phase, first, ties, arrived: 0 };
            first += phase.lanes;
            shape
        };
        Self {
            workload,
            phases: (0..schedule.phases()).map(shape).collect(),
            ranks: vec![RankState { phase: 0, opened: 0, open: 0, head: NIL }; simulated as usize],
            lanes: Slab::new(),
            match_table: MatchTable::new(simulated),
            pending_combines: Slab::new(),
            part_lengths: PartLengths::new(workload.sizes),
            ops: RoundList::new(),
            peers: Vec::new(),
            unexpected: machine.has_memory_cap().then(HashMap::new),
            machine,
            ties: symmetry.is_some().then(OrderTies::default),
            symmetry,
            failed: Vec::new(),
            done: 0,
            first_completion: Time::MAX,
            makespan: 0,
        }
    }

    /// Runs to the end. Returns false if only rank 0 is simulated and others might be served in another order.
    pub(super) fn run(&mut self) -> Result<bool> {
        for rank in 0..self.ranks.len() as u32 {
            self.advance(rank);
            if self.machine.now() >= MAX_TIME {
                break;
            }
        }
        while let Some(SimEvent { time, rank, kind }) = self.machine.next() {
            if let Some(ties) = &mut self.ties {
                ties.event += 1;
                if ties.has_tie || self.machine.has_order_tie() {
                    return Ok(false);
                }
            }
            match kind {
                SimEventKind::Delivered { from, bytes, token, .. } => {
                    let (rank, from) = match &self.symmetry {
                        None => (rank, from),
                        Some(group) => (0, group.inverse(rank)),
                    };
                    let key = SimMatchKey { to: rank, from, lane: (token >> 32) as u32 };
                    match self.match_table.arrive(key) {
                        Some(posted) => {
                            if let Some(completion) = self.receive(time, posted.slot, bytes, posted.combine) {
                                self.complete_op(posted.slot, completion);
                            }
                        }
                        None => {
                            self.machine.hold_unexpected(rank, bytes)?;
                            if let Some(unexpected) = &mut self.unexpected {
                                unexpected.entry(key).or_default().push_back(bytes);
                            }
                        }
                    }
                }
                SimEventKind::SendComplete { token } => self.complete_op(token as u32, time),
                SimEventKind::Wakeup { token } => self.on_wakeup(time, rank, token),
                SimEventKind::Failed => {
                    let is_new = self.failed.iter().all(|(failed, _)| *failed != rank);
                    if is_new && (self.ranks[rank as usize].phase as usize) < self.phases.len() {
                        self.failed.push((rank, time));
                    }
                }
            }
        }
        Ok(!self.ties.as_ref().is_some_and(|ties| ties.has_tie))
    }

    /// The result, or why not all ranks completed.
    pub(super) fn into_result(self) -> Result<(SimResult, Machine)> {
        if self.machine.now() >= MAX_TIME {
            return Err(Error::TimeOverflow);
        }
        if (self.done as usize) < self.ranks.len() {
            return Err(self.deadlock_error());
        }
        let totals = self.machine.totals();
        let MemoryUsage { ranks, links, in_flight } = self.machine.memory();
        let ranks =
            ranks + self.ranks.capacity() * size_of::<RankState>() + self.lanes.memory() + self.match_table.memory();
        let in_flight = in_flight + self.pending_combines.memory() + self.peers.capacity() * size_of::<u32>();
        let result = SimResult {
            makespan: self.makespan,
            first_completion: self.first_completion,
            messages: totals.messages,
            bytes: totals.bytes,
            events: 3 * totals.messages,
            processed_events: totals.processed_events,
            busiest_link: self.machine.busiest_link(),
            max_in_flight: totals.max_in_flight,
            memory: ranks + links + in_flight,
            memory_ranks: ranks,
            memory_links: links,
            memory_in_flight: in_flight,
        };
        Ok((result, self.machine))
    }

    /// The error of a run in which no event is left and not all ranks completed.
    fn deadlock_error(&self) -> Error {
        let left = self.ranks.len() as u32 - self.done;
        if let Some(&(rank, at)) = self.failed.first() {
            let num_failed = self.failed.len() as u32;
            return Error::RankFailed {
                rank,
                micros: to_micros(at),
                others: num_failed - 1,
                waiting: left - num_failed,
            };
        }
        let waits = |rank: &RankState| (rank.phase as usize) < self.phases.len();
        let rank = self.ranks.iter().position(waits).unwrap_or(0) as u32;
        Error::ScheduleDeadlock { waiting: left, rank, phase: self.ranks[rank as usize].phase }
    }

    /// Opens the lanes that may open on a rank, and enters the next phase when a phase has ended there.
    pub(super) fn advance(&mut self, rank: u32) {
        loop {
            let RankState { phase, opened, open, .. } = self.ranks[rank as usize];
            let Some(shape) = self.phases.get_mut(phase as usize) else { return };
            if opened < shape.phase.lanes {
                if !self.may_open(rank) {
                    return;
                }
                self.open_lane(rank, phase, opened);
                continue;
            }
            if open > 0 {
                return;
            }
            if shape.phase.end == PhaseEnd::Global {
                // `opened` beyond the number of lanes marks a rank that has arrived.
                if opened > shape.phase.lanes {
                    return;
                }
                self.ranks[rank as usize].opened += 1;
                shape.arrived += 1;
                if shape.arrived as usize == self.ranks.len() {
                    self.release(phase);
                }
                return;
            }
            self.enter_next_phase(rank);
        }
    }

    /// Releases all ranks from the global end of a phase.
    fn release(&mut self, phase: u32) {
        let at = self.machine.now() + self.machine.barrier_time();
        for rank in 0..self.ranks.len() as u32 {
            debug_assert_eq!(self.ranks[rank as usize].phase, phase);
            self.machine.schedule_wakeup(at, rank, PHASE_RELEASED);
        }
    }

    pub(super) fn enter_next_phase(&mut self, rank: u32) {
        let entry = &mut self.ranks[rank as usize];
        entry.phase += 1;
        (entry.opened, entry.open, entry.head) = (0, 0, NIL);
        if entry.phase as usize == self.phases.len() {
            let now = self.machine.now();
            self.done += 1;
            self.first_completion = self.first_completion.min(now);
            self.makespan = self.makespan.max(now);
        }
    }

    /// Whether the window lets the next lane open: all lanes but the last `window` before it have closed.
    fn may_open(&self, rank: u32) -> bool {
        let RankState { phase, opened, head, .. } = self.ranks[rank as usize];
        let Phase { lanes, window, .. } = self.phases[phase as usize].phase;
        if window >= lanes {
            return true;
        }
        let mut lowest = opened;
        let mut slot = head;
        while slot != NIL {
            lowest = lowest.min(self.lanes[slot].lane);
            slot = self.lanes[slot].next;
        }
        opened - lowest < window.max(1)
    }

    fn open_lane(&mut self, rank: u32, phase: u32, lane: u32) {
        let rounds = self.workload.schedule.rounds(rank, phase, lane);
        let entry = &mut self.ranks[rank as usize];
        entry.opened += 1;
        if rounds == 0 {
            return;
        }
        entry.open += 1;
        let slot = self.lanes.insert(LaneState {
            rank,
            lane,
            round: 0,
            rounds,
            pending: 0,
            next: entry.head,
            known_completion: 0,
        });
        entry.head = slot;
        self.run_lane(slot)
    }

    /// Begins rounds of a lane until one is pending, or closes the lane after the last.
    pub(super) fn run_lane(&mut self, slot: u32) {
        let now = self.machine.now();
        loop {
            let LaneState { round, rounds, .. } = self.lanes[slot];
            if round == rounds {
                self.close(slot);
                return;
            }
            self.begin_round(slot);
            let LaneState { pending, known_completion, .. } = self.lanes[slot];
            if pending > 0 {
                return;
            }
            if known_completion > now {
                self.machine.schedule_wakeup(known_completion, self.lanes[slot].rank, u64::from(slot));
                return;
            }
            self.lanes[slot].round += 1;
        }
    }

    fn close(&mut self, slot: u32) {
        let LaneState { rank, next, .. } = self.lanes[slot];
        let entry = &mut self.ranks[rank as usize];
        entry.open -= 1;
        if entry.head == slot {
            entry.head = next;
        } else {
            let mut prev = entry.head;
            while self.lanes[prev].next != slot {
                prev = self.lanes[prev].next;
            }
            self.lanes[prev].next = next;
        }
        self.lanes.remove(slot);
    }
}
