//! The event loop of the schedule simulator.

use std::collections::{HashMap, VecDeque};

use treepie_schedule::{Cursor, OpenLanes, PhaseEnd, RoundList};
use treepie_topology::TieBreak;

use super::lengths::PartLengths;
use super::matching::{MatchTable, SimMatchKey};
use super::sim_result::SimResult;
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::machine::{Machine, MemoryUsage, SimEvent, SimEventKind};
use crate::slab::Slab;
use crate::symmetric::{OrderTies, SymmetryGroup};
use crate::time::{MAX_TIME, Time, to_micros};

/// Wakeup tokens other than the end of a lane's round: release from the global end of a phase,
pub(super) const PHASE_RELEASED: u64 = u64::MAX;
/// and a received message to combine.
pub(super) const COMBINE: u64 = 1 << 63;

/// State of a phase, common to all ranks.
#[derive(Debug)]
pub(super) struct PhaseState {
    end: PhaseEnd,
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

/// The running round of an open lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActiveRound {
    pub(super) rank: u32,
    /// Operations whose completion is not known in advance: receives, and sends on shared links.
    pub(super) pending: u32,
    /// Latest known completion of the other operations.
    pub(super) known_completion: Time,
}

pub(super) struct ScheduleSimulator<'a> {
    pub(super) workload: Workload<'a>,
    pub(super) machine: Machine,
    /// Maps messages of rank 0 to those that it receives, if only rank 0 is simulated.
    symmetry: Option<SymmetryGroup>,
    /// Requests that might have come in another order, then.
    pub(super) ties: Option<OrderTies>,
    pub(super) phases: Vec<PhaseState>,
    pub(super) ranks: Vec<Cursor>,
    /// The open lanes of all ranks.
    pub(super) lanes: OpenLanes<ActiveRound>,
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
        let state = |number| {
            let phase = schedule.phase(number);
            let mut ties: Vec<TieBreak> =
                (0..phase.lanes.max(1)).map(|lane| schedule.tie_break(number, lane)).collect();
            if ties.windows(2).all(|two| two[0] == two[1]) {
                ties.truncate(1);
            }
            let state = PhaseState { end: phase.end, first, ties, arrived: 0 };
            first += phase.lanes;
            state
        };
        Self {
            workload,
            phases: (0..schedule.phases()).map(state).collect(),
            ranks: (0..simulated).map(|rank| Cursor::new(schedule, rank)).collect(),
            lanes: OpenLanes::default(),
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
                    if is_new && !self.ranks[rank as usize].is_done(self.workload.schedule) {
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
            ranks + self.ranks.capacity() * size_of::<Cursor>() + self.lanes.memory() + self.match_table.memory();
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
        let waits = |cursor: &Cursor| !cursor.is_done(self.workload.schedule);
        let rank = self.ranks.iter().position(waits).unwrap_or(0) as u32;
        Error::ScheduleDeadlock { waiting: left, rank, phase: self.ranks[rank as usize].phase() }
    }

    /// Begins the rounds that can start on a rank, and enters the next phase when a phase has ended there.
    pub(super) fn advance(&mut self, rank: u32) {
        let schedule = self.workload.schedule;
        loop {
            let cursor = &mut self.ranks[rank as usize];
            if let Some(started) = cursor.start_round_of_phase(schedule, &mut self.lanes) {
                self.begin_round(rank, started);
                continue;
            }
            if !cursor.has_ended_phase(schedule) {
                return;
            }
            let phase = cursor.phase();
            let state = &mut self.phases[phase as usize];
            if state.end == PhaseEnd::Global {
                state.arrived += 1;
                if state.arrived as usize == self.ranks.len() {
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
            debug_assert_eq!(self.ranks[rank as usize].phase(), phase);
            self.machine.schedule_wakeup(at, rank, PHASE_RELEASED);
        }
    }

    pub(super) fn enter_next_phase(&mut self, rank: u32) {
        let cursor = &mut self.ranks[rank as usize];
        cursor.enter_next_phase(self.workload.schedule);
        if cursor.is_done(self.workload.schedule) {
            let now = self.machine.now();
            self.done += 1;
            self.first_completion = self.first_completion.min(now);
            self.makespan = self.makespan.max(now);
        }
    }
}
