//! The state that all simulated ranks share: the machine, transfers in flight, and what each rank waits for.
//!
//! A rank has its own clock, never behind the machine's: its operations advance it, and it runs ahead until it polls.
//! Then it is suspended until the machine's clock has caught up.

use std::collections::{BTreeMap, HashMap, VecDeque};

use treepie_base::Span;
use treepie_fabric::{Liveness, RecordHeader};
use treepie_topology::TieBreak;

use super::bulk::BulkTransfers;
use super::options::Options;
use crate::costs::AckLatency;
use crate::machine::{Machine, SimEvent, SimEventKind, SimMessage};
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

/// Channels: the records of a pair of ranks are in order; bulk data has another channel.
const RECORDS: u32 = 0;
const BULK: u32 = 1;

/// Flag of the wakeup tokens of a completed barrier. The rest of the token is the cell.
const BARRIER_DONE: u64 = 1 << 63;

/// Flag of the wakeup tokens of acks. Below it are the sender to notify (high word) and its slot (low word).
const ACKED: u64 = 1 << 62;

/// Finalized ranks are published together: when no other event is left, and otherwise after this interval, then after
/// twice that, and so on. No rank waits for them unless there is an error, and notifying all ranks of each of them
/// would cost the square of their number each time.
pub(super) const PUBLISH_INTERVAL: Time = (1000.0 * MICROSECOND) as Time;

/// An event in a rank's inbox.
pub(super) enum InboxEvent {
    Record { from: u32, head: RecordHeader, body: Vec<u8> },
    BulkReceived { slot: u32, span: Span },
    BulkSent { slot: u32, span: Span },
    BulkFailed { slot: u32, span: Span, sending: bool },
    BarrierDone { cell: u32, traffic_summary: u64 },
    Acked { slot: u32 },
}

impl InboxEvent {
    /// Bytes that it occupies until it is read. Memory of bulk transfers is the program's.
    pub(super) fn unread_bytes(&self) -> u64 {
        match self {
            InboxEvent::Record { body, .. } => body.len() as u64,
            _ => 0,
        }
    }
}

/// A transfer in flight.
pub(super) struct InFlightTransfer {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) payload: Payload,
    /// Its last byte may still be at its sender: it is lost if that rank fails.
    pub(super) is_injecting: bool,
}

pub(super) enum Payload {
    Record(RecordHeader, Vec<u8>),
    Bulk(u64),
}

/// Why a rank is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    /// It is not, or is about to be resumed.
    Running,
    /// Until a time.
    Time,
    /// Until an inbox event arrives, or until a time.
    Arrival,
}

/// Whether a rank is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillState {
    None,
    /// The run is halting: the rank may report what it waits for, and is then killed.
    Requested,
    /// It is disconnected, and is unwound when it next polls.
    Killed,
}

/// A simulated rank.
pub(super) struct SimRank {
    /// Its clock.
    pub(super) time: Time,
    pub(super) inbox: VecDeque<InboxEvent>,
    pub(super) wait: WaitState,
    /// Tells valid wakeups from stale ones.
    wake_generation: u64,
    pub(super) kill_state: KillState,
    pub(super) life: Liveness,
    /// Its liveness as published to others: a final state is published when all that it sent has arrived.
    pub(super) published_life: Liveness,
    /// It is in the list of ranks with unpublished liveness.
    pub(super) has_unpublished_life: bool,
    /// Its messages in flight.
    pub(super) in_flight: u32,
    /// Acks among them.
    pub(super) acks_in_flight: u32,
    /// When its program ended.
    pub(super) ended: Option<Time>,
    /// What it waits for when the run halts, if known.
    pub(super) waits_for: Option<String>,
    /// When it fails: what it sends from then on is lost.
    pub(super) failure_time: Time,
    /// Number of barriers at which it has arrived, by barrier cell.
    pub(super) barrier_arrivals: BTreeMap<u32, u64>,
    /// Bytes of messages not yet read, and of messages read but not matched.
    pub(super) unread_bytes: u64,
    pub(super) unexpected_bytes: u64,
}

impl SimRank {
    /// Whether it has been killed, or its clock is past its failure.
    pub(super) fn is_past_failure(&self) -> bool {
        self.kill_state == KillState::Killed || self.time >= self.failure_time
    }
}

/// Why a run halts before all programs have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HaltReason {
    /// No event is left.
    Deadlock,
    /// The virtual time limit is reached.
    TimeLimit,
    /// The end of time is reached.
    TimeOverflow,
    /// A rank exceeded its memory cap at this time.
    OutOfMemory { rank: u32, held: u64, time: Time },
}

#[derive(Default)]
struct BarrierState {
    arrived: u32,
    last: Time,
    /// Combined traffic summary of those that arrived.
    traffic_summary: u64,
    /// The combined traffic summary of the previous barrier; all ranks read it before any arrives at the next but one.
    completed_traffic_summary: u64,
}

/// The state that all simulated ranks share.
pub(super) struct SimWorld {
    pub(super) machine: Machine,
    pub(super) ranks: Vec<SimRank>,
    /// Ranks to resume, in order.
    pub(super) ready: VecDeque<u32>,
    /// Number of ranks whose programs are running.
    pub(super) running: u32,
    /// Ranks whose published liveness has changed, in order.
    pub(super) life_changes: Vec<u32>,
    pub(super) bulk_transfers: BulkTransfers,
    pub(super) halt: Option<HaltReason>,
    pub(super) poll_cost: Time,
    /// Latency of an ack, if acks take no CPU time.
    pub(super) ack_latency: Option<AckLatency>,
    /// Lengths of synchronous messages that are not acknowledged yet, by sender and slot; only where latencies differ.
    unacked_bytes: HashMap<(u32, u32), u64>,
    /// Picoseconds per unit of work.
    pub(super) work_unit_time: f64,
    /// Virtual time limit.
    pub(super) time_limit: Time,
    /// Sends wait for the machine's clock, as their price depends on its state when they begin.
    pub(super) syncs_before_send: bool,
    pub(super) in_flight: HashMap<u64, InFlightTransfer>,
    next_token: u64,
    barriers: HashMap<u32, BarrierState>,
    /// Ranks with unpublished liveness.
    pub(super) unpublished: Vec<u32>,
    /// When finalized ranks are published next, and the interval after that.
    pub(super) next_publish: (Time, Time),
}

impl SimWorld {
    pub(super) fn new(machine: Machine, failure_time: impl Fn(u32) -> Time, options: &Options) -> Self {
        let rank = |rank| SimRank {
            time: 0,
            inbox: VecDeque::new(),
            wait: WaitState::Running,
            wake_generation: 0,
            kill_state: KillState::None,
            life: Liveness::Alive,
            published_life: Liveness::Alive,
            has_unpublished_life: false,
            in_flight: 0,
            acks_in_flight: 0,
            ended: None,
            waits_for: None,
            failure_time: failure_time(rank),
            barrier_arrivals: BTreeMap::new(),
            unread_bytes: 0,
            unexpected_bytes: 0,
        };
        let ranks: Vec<SimRank> = (0..machine.ranks()).map(rank).collect();
        Self {
            ready: (0..machine.ranks()).collect(),
            running: machine.ranks(),
            machine,
            ranks,
            life_changes: Vec::new(),
            bulk_transfers: BulkTransfers::default(),
            halt: None,
            poll_cost: from_micros(options.poll_cost),
            ack_latency: None,
            unacked_bytes: HashMap::new(),
            work_unit_time: 0.0,
            time_limit: options.time_limit.map_or(Time::MAX, from_micros),
            syncs_before_send: false,
            in_flight: HashMap::new(),
            next_token: 0,
            barriers: HashMap::new(),
            unpublished: Vec::new(),
            next_publish: (PUBLISH_INTERVAL, PUBLISH_INTERVAL),
        }
    }

    pub(super) fn rank(&mut self, rank: u32) -> &mut SimRank {
        &mut self.ranks[rank as usize]
    }

    /// Sends a record.
    pub(super) fn send(&mut self, from: u32, to: u32, head: RecordHeader, body: &[u8]) {
        let bytes = body.len() as u64;
        if let Some(slot) = head.synchronous_slot()
            && self.ack_latency.is_some_and(|latency| !latency.is_constant())
        {
            self.unacked_bytes.insert((from, slot), bytes);
        }
        self.inject((from, to, RECORDS), bytes, || Payload::Record(head, body.to_vec()));
    }

    /// Starts the sending side of a bulk transfer.
    pub(super) fn send_bulk(&mut self, from: u32, to: u32, bulk: u64, slot: u32, span: Span) {
        let bytes = span.len() as u64;
        let state = &self.ranks[from as usize];
        if state.time >= state.failure_time {
            // None of it will arrive, so the receiver must not have the data either: it learns of the failure.
            self.push_inbox(from, InboxEvent::BulkFailed { slot, span, sending: true });
        } else if let Err(span) = self.bulk_transfers.start_send(bulk, slot, span) {
            self.push_inbox(from, InboxEvent::BulkFailed { slot, span, sending: true });
        } else if !self.inject((from, to, BULK), bytes, || Payload::Bulk(bulk)) {
            self.complete_bulk_send(from, bulk);
        }
    }

    /// Injects a transfer. Returns whether the machine will report the completion of the send.
    fn inject(&mut self, (from, to, channel): (u32, u32, u32), bytes: u64, payload: impl FnOnce() -> Payload) -> bool {
        let at = self.ranks[from as usize].time;
        if at >= self.ranks[from as usize].failure_time {
            return false;
        }
        let token = self.next_token;
        self.next_token += 1;
        let timing = self.machine.send(at, SimMessage { from, to, bytes, channel, token, tie: TieBreak::default() });
        let sender = self.rank(from);
        sender.time = sender.time.max(timing.cpu_free);
        // The machine delivers nothing to failed ranks.
        let is_in_flight = self.ranks[to as usize].failure_time > self.machine.now();
        if is_in_flight {
            self.rank(from).in_flight += 1;
            self.in_flight.insert(
                token,
                InFlightTransfer { from, to, payload: payload(), is_injecting: timing.completion.is_none() },
            );
        }
        is_in_flight && timing.completion.is_none()
    }

    /// Suspends a rank until the machine's clock reaches its time. False if it has.
    pub(super) fn wait_for_time(&mut self, rank: u32) -> bool {
        let time = self.ranks[rank as usize].time;
        let ahead = time > self.machine.now();
        if ahead {
            self.wake_at(rank, time, WaitState::Time);
        }
        ahead
    }

    /// Suspends a rank until an inbox event arrives; with `until`, at the latest until then.
    pub(super) fn wait_for_arrival(&mut self, rank: u32, until: Option<Time>) {
        match until {
            Some(time) => self.wake_at(rank, time.max(self.machine.now()), WaitState::Arrival),
            None => self.rank(rank).wait = WaitState::Arrival,
        }
    }

    fn wake_at(&mut self, rank: u32, time: Time, wait: WaitState) {
        let state = self.rank(rank);
        state.wait = wait;
        let generation = state.wake_generation;
        self.machine.schedule_wakeup(time, rank, generation);
    }

    /// Makes a suspended rank ready.
    pub(super) fn resume(&mut self, rank: u32) {
        let state = self.rank(rank);
        if state.wait != WaitState::Running {
            state.wait = WaitState::Running;
            state.wake_generation += 1;
            self.ready.push_back(rank);
        }
    }

    /// Pushes an event into a rank's inbox.
    pub(super) fn push_inbox(&mut self, rank: u32, event: InboxEvent) {
        let state = self.rank(rank);
        if state.ended.is_some() {
            return;
        }
        state.unread_bytes += event.unread_bytes();
        state.inbox.push_back(event);
        if state.wait == WaitState::Arrival {
            self.resume(rank);
        }
        self.check_memory(rank);
    }

    /// Halts the run if a rank exceeds its memory cap.
    pub(super) fn check_memory(&mut self, rank: u32) {
        let SimRank { unread_bytes, unexpected_bytes, time, .. } = self.ranks[rank as usize];
        let (held, time) = (unread_bytes + unexpected_bytes, time.max(self.machine.now()));
        if self.halt.is_none() && self.machine.memory_cap().is_some_and(|cap| held > cap) {
            self.halt_all(HaltReason::OutOfMemory { rank, held, time });
        }
    }

    /// Arrival of a rank at a barrier of the machine. False if the machine has none.
    pub(super) fn arrive_at_barrier(&mut self, rank: u32, cell: u32, summary: u64) -> bool {
        if self.machine.barrier_time() == 0 {
            return false;
        }
        let (time, all) = (self.ranks[rank as usize].time, self.machine.ranks());
        *self.rank(rank).barrier_arrivals.entry(cell).or_default() += 1;
        let barrier = self.barriers.entry(cell).or_default();
        barrier.arrived += 1;
        barrier.last = barrier.last.max(time);
        barrier.traffic_summary |= summary;
        if barrier.arrived == all {
            let completion = barrier.last + self.machine.barrier_time();
            *barrier = BarrierState { completed_traffic_summary: barrier.traffic_summary, ..BarrierState::default() };
            (0..all).for_each(|rank| self.machine.schedule_wakeup(completion, rank, BARRIER_DONE | u64::from(cell)));
        }
        true
    }

    /// Acknowledges a message to its sender. False if that takes an ack message.
    pub(super) fn acknowledge(&mut self, rank: u32, sender: u32, slot: u32) -> bool {
        let Some(latency) = self.ack_latency else { return false };
        // All have the same latency if their lengths are not known.
        let latency = latency.of(self.unacked_bytes.remove(&(sender, slot)).unwrap_or(0));
        let state = self.rank(rank);
        state.in_flight += 1;
        state.acks_in_flight += 1;
        let at = state.time + latency;
        self.machine.schedule_wakeup(at, rank, ACKED | u64::from(sender) << 32 | u64::from(slot));
        true
    }

    /// Handles an event of the machine.
    pub(super) fn on_event(&mut self, event: SimEvent) {
        let SimEvent { rank, kind, .. } = event;
        match kind {
            SimEventKind::Delivered { token, .. } => self.on_delivered(token),
            SimEventKind::SendComplete { token } => {
                let Some(transfer) = self.in_flight.get_mut(&token) else { return };
                transfer.is_injecting = false;
                if let Payload::Bulk(bulk) = transfer.payload {
                    self.complete_bulk_send(rank, bulk);
                }
            }
            SimEventKind::Wakeup { token } if token & BARRIER_DONE != 0 => {
                let cell = token as u32;
                let summary = self.barriers.get(&cell).map_or(0, |barrier| barrier.completed_traffic_summary);
                self.push_inbox(rank, InboxEvent::BarrierDone { cell, traffic_summary: summary });
            }
            SimEventKind::Wakeup { token } if token & ACKED != 0 => {
                self.rank(rank).acks_in_flight -= 1;
                self.complete_in_flight(rank);
                self.push_inbox(((token & !ACKED) >> 32) as u32, InboxEvent::Acked { slot: token as u32 });
            }
            SimEventKind::Wakeup { token } => {
                if self.ranks[rank as usize].wake_generation == token {
                    self.resume(rank);
                }
            }
            SimEventKind::Failed => self.on_failure(rank),
        }
    }

    /// Completes the sending side of a bulk transfer.
    pub(super) fn complete_bulk_send(&mut self, from: u32, bulk: u64) {
        if let Some((slot, span)) = self.bulk_transfers.complete_send(bulk) {
            self.push_inbox(from, InboxEvent::BulkSent { slot, span });
        }
    }

    fn on_delivered(&mut self, token: u64) {
        let Some(InFlightTransfer { from, to, payload, .. }) = self.in_flight.remove(&token) else { return };
        self.complete_in_flight(from);
        match payload {
            Payload::Record(head, body) => self.push_inbox(to, InboxEvent::Record { from, head, body }),
            Payload::Bulk(bulk) => {
                if let Some((slot, span)) = self.bulk_transfers.complete_recv(bulk) {
                    self.push_inbox(to, InboxEvent::BulkReceived { slot, span });
                }
            }
        }
    }

    /// Charges CPU time to a rank.
    pub(super) fn compute(&mut self, rank: u32, picoseconds: f64) {
        let time = self.ranks[rank as usize].time;
        self.rank(rank).time = self.machine.occupy(rank, time, from_picos(picoseconds));
    }
}
