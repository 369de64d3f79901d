//! Drives protocols that are state machines ([`Reactor`]) on a [`Machine`], without a stack per rank: a rank is as
//! large as its reactor.
//!
//! Messages of one pair of ranks and one tag stay in order; all others come as the network and the noise deliver them.
//! A rank receives a message when its CPU is free, pays for receiving, handling and the work that the reactor reports,
//! and sends at once what the reactor then transmits. A message to itself costs only its handling. The sender of a
//! synchronous message learns of its handling as the settings say: by an ack message, or after a latency. A barrier
//! takes the configured time from the last arrival. Messages to a reactor that is done are dropped, as by the driver
//! over an endpoint.

use std::time::Duration;

use treepie_base::Bytes;
use treepie_fabric::{BarrierResult, Reactor, Transmit};
use treepie_topology::{Network, TieBreak};

use crate::costs::{AckLatency, Settings};
use crate::error::{Error, Result, not_negative};
use crate::machine::{Machine, SimEventKind, SimMessage};
use crate::time::{MAX_TIME, Time, from_micros, to_micros};
use crate::trace::SimTrace;

/// Result of a simulation of reactors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReactorResult<R> {
    /// The reactors, by rank.
    pub reactors: Vec<R>,
    /// When the last reactor was done.
    pub makespan: Time,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Maximum number of messages in flight.
    pub max_in_flight: u64,
    /// The ranks that failed.
    pub failed: Vec<u32>,
    /// The trace, if it was recorded.
    pub trace: Option<SimTrace>,
}

impl<R> ReactorResult<R> {
    /// The makespan in microseconds.
    pub fn micros(&self) -> f64 {
        to_micros(self.makespan)
    }
}

/// Runs one reactor per rank of the network until no event is left. Handling a message costs `handler` microseconds.
///
/// # Errors
/// The first error of a reactor, or a deadlock of the live ranks whose reactors are not done.
pub fn run<R: Reactor>(
    network: &Network,
    settings: &Settings,
    reactors: Vec<R>,
    handler: f64,
) -> Result<ReactorResult<R>> {
    Driver::new(network, settings, reactors, handler)?.run()
}

/// As [`run`], and records a trace.
pub fn run_traced<R: Reactor>(
    network: &Network,
    settings: &Settings,
    reactors: Vec<R>,
    handler: f64,
) -> Result<ReactorResult<R>> {
    let mut driver = Driver::new(network, settings, reactors, handler)?;
    driver.machine.enable_trace();
    driver.run()
}

/// A message in flight, or one that waits for the CPU.
struct Packet {
    from: u32,
    tag: u32,
    kind: PacketKind,
}

enum PacketKind {
    Message {
        bytes: Bytes,
        synchronous: bool,
    },
    /// Acknowledges the synchronous message of this tag to `from`.
    Ack,
}

/// Flag of the wakeup tokens of a completed barrier.
const BARRIER_DONE: u64 = 1 << 63;

/// Acks use a channel that no reactor's tag has.
const ACK_CHANNEL: u32 = u32::MAX;

/// State of the barrier.
#[derive(Default)]
struct BarrierState {
    arrived: u32,
    last: Time,
    traffic_summary: u64,
    /// The combined traffic summary of the previous barrier.
    completed_traffic_summary: u64,
}

struct Driver<R> {
    machine: Machine,
    reactors: Vec<R>,
    /// Until when each rank is handling messages; later ones wait, also where handling is free.
    busy: Vec<Time>,
    packets: Vec<Option<Packet>>,
    free: Vec<usize>,
    handler: Time,
    /// Microseconds per unit of work.
    work_unit_time: f64,
    /// When senders learn of their messages' handling, if that takes no ack message.
    ack_latency: Option<AckLatency>,
    barrier: BarrierState,
    makespan: Time,
    failed: Vec<u32>,
}

impl<R: Reactor> Driver<R> {
    fn new(network: &Network, settings: &Settings, reactors: Vec<R>, handler: f64) -> Result<Self> {
        not_negative("the cost of a handler", handler)?;
        let mut machine = Machine::new(network, settings)?;
        machine.keep_order();
        if reactors.len() != machine.ranks() as usize {
            let (reactors, network) = (reactors.len(), machine.ranks());
            return Err(Error::ReactorCountMismatch { reactors, network });
        }
        Ok(Self {
            ack_latency: settings.ack_latency(),
            barrier: BarrierState::default(),
            busy: vec![0; reactors.len()],
            machine,
            reactors,
            packets: Vec::new(),
            free: Vec::new(),
            handler: from_micros(handler),
            work_unit_time: settings.work_unit_time,
            makespan: 0,
            failed: Vec::new(),
        })
    }

    fn run(mut self) -> Result<ReactorResult<R>> {
        for rank in 0..self.machine.ranks() {
            self.transmit(rank);
        }
        while let Some(event) = self.machine.next() {
            let rank = event.rank;
            match event.kind {
                SimEventKind::Delivered { bytes, token, .. } => {
                    self.machine.hold_unexpected(rank, bytes)?;
                    let received = self.machine.receive(rank, event.time, bytes);
                    self.handle_after(rank, received, token)?;
                }
                SimEventKind::Wakeup { token } if token & BARRIER_DONE != 0 => self.on_barrier_done(rank)?,
                SimEventKind::Wakeup { token } => self.handle(rank, token)?,
                SimEventKind::Failed if self.failed.contains(&rank) => {}
                SimEventKind::Failed => self.failed.push(rank),
                SimEventKind::SendComplete { .. } => {}
            }
        }
        if self.machine.now() >= MAX_TIME {
            return Err(Error::TimeOverflow);
        }
        let is_missing = |rank: &u32| !self.reactors[*rank as usize].is_done() && !self.failed.contains(rank);
        let waiting: Vec<(u32, String)> =
            (0..self.machine.ranks()).filter(is_missing).map(|rank| (rank, String::new())).collect();
        if !waiting.is_empty() {
            return Err(Error::Deadlock { ranks: self.machine.ranks(), waiting });
        }
        let totals = self.machine.totals();
        Ok(ReactorResult {
            reactors: self.reactors,
            makespan: self.makespan,
            messages: totals.messages,
            bytes: totals.bytes,
            max_in_flight: totals.max_in_flight,
            failed: self.failed,
            trace: self.machine.take_trace(),
        })
    }

    /// Sends what a reactor transmits.
    fn transmit(&mut self, rank: u32) {
        let now = self.machine.now();
        let mut free = now;
        let work = self.reactors[rank as usize].take_work();
        if work > 0 && self.work_unit_time > 0.0 {
            // Its sends, and the next messages it handles, wait for the work.
            free = self.machine.occupy(rank, now, from_micros(work as f64 * self.work_unit_time));
        }
        while let Some(Transmit { to, tag, bytes, synchronous }) = self.reactors[rank as usize].poll_transmit() {
            let len = bytes.as_slice().len() as u64;
            self.reactors[rank as usize].on_sent(to, tag, None);
            let token = self.store_packet(Packet { from: rank, tag, kind: PacketKind::Message { bytes, synchronous } });
            if to == rank {
                // It arrives at once, and is handled like others.
                let handled = self.machine.occupy(rank, now, self.handler);
                self.handle_in_order(rank, handled, token);
                continue;
            }
            let message = SimMessage { from: rank, to, bytes: len, channel: tag, token, tie: TieBreak::default() };
            free = free.max(self.machine.send(now, message).cpu_free);
        }
        self.makespan = self.makespan.max(free);
        if let Some(summary) = self.reactors[rank as usize].poll_barrier() {
            // The CPU may still be busy with earlier sends or acks.
            let free = self.machine.occupy(rank, free, 0);
            self.arrive(free, summary);
        }
    }

    /// Arrival of a rank at the barrier.
    fn arrive(&mut self, at: Time, summary: u64) {
        let barrier = &mut self.barrier;
        barrier.arrived += 1;
        barrier.last = barrier.last.max(at);
        barrier.traffic_summary |= summary;
        if barrier.arrived == self.machine.ranks() {
            let completion = barrier.last + self.machine.barrier_time();
            *barrier = BarrierState { completed_traffic_summary: barrier.traffic_summary, ..BarrierState::default() };
            (0..self.machine.ranks()).for_each(|rank| self.machine.schedule_wakeup(completion, rank, BARRIER_DONE));
        }
    }

    fn on_barrier_done(&mut self, rank: u32) -> Result<()> {
        let result = BarrierResult { bits: self.barrier.completed_traffic_summary, counter: 0 };
        self.reactors[rank as usize].on_barrier(result).map_err(|error| Error::Reactor { rank, error })?;
        self.transmit(rank);
        Ok(())
    }

    /// Acknowledges a synchronous message to its sender.
    fn send_ack(&mut self, rank: u32, sender: u32, tag: u32, bytes: u64) {
        let now = self.machine.now();
        let token = self.store_packet(Packet { from: rank, tag, kind: PacketKind::Ack });
        let self_latency = (sender == rank).then_some(0);
        if let Some(latency) = self.ack_latency.map(|latency| latency.of(bytes)).or(self_latency) {
            return self.machine.schedule_wakeup(now + latency, sender, token);
        }
        let ack =
            SimMessage { from: rank, to: sender, bytes: 0, channel: ACK_CHANNEL, token, tie: TieBreak::default() };
        let free = self.machine.send(now, ack).cpu_free;
        self.makespan = self.makespan.max(free);
    }

    /// Handles a message once it is received.
    fn handle_after(&mut self, rank: u32, received: Time, token: u64) -> Result<()> {
        let handled = self.machine.occupy(rank, received, self.handler);
        if handled <= self.machine.now() && self.busy[rank as usize] < self.machine.now() {
            return self.handle(rank, token);
        }
        self.handle_in_order(rank, handled, token);
        Ok(())
    }

    /// Handles a message at a time, after those before it: otherwise one that costs nothing would overtake others.
    fn handle_in_order(&mut self, rank: u32, time: Time, token: u64) {
        let busy = &mut self.busy[rank as usize];
        *busy = time.max(*busy);
        self.machine.schedule_wakeup(*busy, rank, token);
    }

    fn handle(&mut self, rank: u32, token: u64) -> Result<()> {
        let Some(packet) = self.packets[token as usize].take() else { return Ok(()) };
        self.free.push(token as usize);
        let Packet { from, tag, kind } = packet;
        let reactor = &mut self.reactors[rank as usize];
        match kind {
            PacketKind::Ack => reactor.on_ack(from, tag),
            PacketKind::Message { bytes, synchronous } => {
                let len = bytes.as_slice().len() as u64;
                if from != rank {
                    self.machine.release_unexpected(rank, len);
                }
                if reactor.is_done() {
                    return Ok(());
                }
                let now = Duration::from_nanos(self.machine.now() / 1000);
                reactor.on_message(now, from, tag, bytes).map_err(|error| Error::Reactor { rank, error })?;
                if synchronous {
                    self.send_ack(rank, from, tag, len);
                }
            }
        }
        self.transmit(rank);
        Ok(())
    }

    fn store_packet(&mut self, packet: Packet) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            self.packets.len() - 1
        });
        self.packets[slot] = Some(packet);
        slot as u64
    }
}
