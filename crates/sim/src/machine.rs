//! A simulated machine: a clock, a CPU per rank, a network, and noise.
//!
//! It does not know what ranks run. A driver (schedules, reactors, programs) states what a rank does *now*
//! ([`send`](Machine::send), [`receive`](Machine::receive), [`occupy`](Machine::occupy),
//! [`schedule_wakeup`](Machine::schedule_wakeup)) and polls the next event ([`next`](Machine::next)).
//!
//! A rank has one CPU. It serves requests in the order of calls, each not before `at`. Time never goes back and calls
//! are made for now, so that is the order in which requests become ready. A call for a later time reserves the CPU as
//! well: a driver that wants to let others go first schedules a wakeup instead. Requests of zero duration do not wait
//! for the CPU, except sends priced by clusters, whose duration is not known in advance.

mod accounts;
mod event;
mod event_loop;
mod sends;

use std::collections::VecDeque;

use treepie_base::memory::with_capacity;
use treepie_topology::Network;

pub use event::{MemoryUsage, SendTiming, SimEvent, SimEventKind, SimMessage, Totals};

use crate::channels::Channels;
use crate::costs::{CostModel, Settings};
use crate::error::{Error, Result};
use crate::network::NetworkModel;
use crate::network::flows::FlowTimer;
use crate::noise::NoiseState;
use crate::queue::EventQueue;
use crate::slab::Slab;
use crate::symmetric::InstantRequests;
use crate::time::{MICROSECOND, Time, from_micros, from_picos};
use crate::trace::SimTrace;

/// An entry of the event queue.
#[derive(Clone, Copy, Debug)]
enum QueuedEvent {
    /// A message reaches the receiver's network interface.
    Arrive(u32),
    /// The receiver's network interface has received a message.
    Deliver(u32),
    /// The sender's CPU has started a message.
    Inject(u32),
    FlowTimer(FlowTimer),
    /// A message within a host is in the memory of its receiver.
    Written(u32),
    Wakeup {
        rank: u32,
        token: u64,
    },
    SendComplete {
        rank: u32,
        token: u64,
    },
    /// A rank with queued sends may begin the next.
    NextSend {
        rank: u32,
    },
    Fail {
        rank: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    message: SimMessage,
    /// Sequence number in its channel if delivery is in order; otherwise [`crate::slab::NIL`].
    sequence: u32,
}

/// A simulated machine.
#[derive(Debug)]
pub struct Machine {
    queue: EventQueue<QueuedEvent>,
    /// When each rank's CPU is free.
    cpu: Vec<Time>,
    in_flight: Slab<InFlight>,
    net: NetworkModel,
    noise: NoiseState,
    /// Sequence numbers of in-order messages: of all messages, or of those sent by `send_in_order`.
    channels: Channels,
    keeps_order: bool,
    ready: VecDeque<SimEvent>,
    /// Scratch: messages to deliver in order; empty between calls.
    deliverable: Vec<u32>,
    gamma: f64,
    barrier_time: Time,
    memory_cap: Option<u64>,
    /// Bytes of unexpected messages per rank; empty without a memory cap.
    unexpected_bytes: Vec<u64>,
    totals: Totals,
    trace: Option<Box<SimTrace>>,
    /// Ties at the network interface of the representative rank, if only rank 0 is simulated.
    representative: Option<Box<NicTies>>,
}

/// Ties among requests at the network interface of the representative rank.
#[derive(Debug, Default)]
struct NicTies {
    receives: InstantRequests,
    sends: InstantRequests,
    events: u64,
    tied: bool,
}

impl Machine {
    /// A machine at time 0 with no message in flight.
    pub fn new(network: &Network, settings: &Settings) -> Result<Self> {
        Self::with(network, settings, false)
    }

    /// A machine of rank 0 alone, where all ranks behave alike: what it sends to others arrives as from others.
    pub(crate) fn representative(network: &Network, settings: &Settings) -> Result<Self> {
        Self::with(network, settings, true)
    }

    fn with(network: &Network, settings: &Settings, is_representative: bool) -> Result<Self> {
        settings.check()?;
        let ranks = if is_representative { 1 } else { network.ranks() };
        // Reserve the minimum that ranks need; freed at once.
        with_capacity::<[u64; 8]>(ranks as usize, "the ranks of a simulated machine")?;
        let net = NetworkModel::new(network, settings, is_representative)?;
        let ranks_in_noise = settings.noise.slow_ranks.iter().chain(&settings.noise.failures).map(|(rank, _)| *rank);
        if let Some(rank) = ranks_in_noise.into_iter().find(|rank| *rank >= ranks) {
            return Err(Error::InvalidRank { rank, ranks });
        }
        let noise = NoiseState::new(&settings.noise, ranks);
        let mut queue = EventQueue::new();
        for &(rank, at) in &settings.noise.failures {
            queue.push(from_micros(at), QueuedEvent::Fail { rank });
        }
        Ok(Self {
            queue,
            cpu: vec![0; ranks as usize],
            in_flight: Slab::new(),
            channels: Channels::default(),
            keeps_order: noise.can_reorder() || net.can_reorder(&settings.noise),
            net,
            noise,
            ready: VecDeque::new(),
            deliverable: Vec::new(),
            gamma: settings.gamma * MICROSECOND,
            barrier_time: from_micros(settings.barrier_time),
            memory_cap: settings.memory_cap,
            unexpected_bytes: if settings.memory_cap.is_some() { vec![0; ranks as usize] } else { Vec::new() },
            totals: Totals::default(),
            trace: None,
            representative: is_representative.then(Box::default),
        })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.cpu.len() as u32
    }

    /// Whether messages share links, and so may overtake others of the same pair of ranks.
    #[inline]
    pub(crate) fn has_links(&self) -> bool {
        matches!(self.net, NetworkModel::Links(_))
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// Delivers the messages of each channel in the order in which they were sent, whatever the network does. Without
    /// it a short message may overtake a long one on simulated links. Must be called before the first send.
    pub fn keep_order(&mut self) {
        self.keeps_order = true;
    }

    /// Starts recording a trace.
    pub fn enable_trace(&mut self) {
        self.trace.get_or_insert_default();
    }

    /// Takes the trace recorded so far.
    pub fn take_trace(&mut self) -> Option<SimTrace> {
        self.trace.take().map(|trace| *trace)
    }

    /// Sets how many of its ports each rank drives at once, which may slow links
    /// ([`crate::costs::LinkCosts::port_efficiency`]).
    pub(crate) fn set_active_ports(&mut self, costs: &CostModel, active: u32, ports: u32) {
        if let (NetworkModel::Links(net), CostModel::Links(links)) = (&mut self.net, costs) {
            let delta = links.delta_with_ports(active.min(links.ports.unwrap_or(ports)), ports);
            if delta > links.delta {
                net.set_delta(delta);
            }
        }
    }

    /// Receives a delivered message as soon as the rank's CPU is free from `at` on. Returns when that completes.
    #[inline]
    pub fn receive(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        let overhead = match &mut self.net {
            NetworkModel::LogGp(net) => net.overhead,
            NetworkModel::Links(net) => return net.receive(rank, at, self.noise.scale_cpu_time(rank, net.alpha)),
            NetworkModel::Clusters(net) => net.receive_overhead(bytes),
        };
        self.occupy_cpu(rank, at, overhead, "receive")
    }

    /// Combines or copies bytes. Returns when that completes.
    #[inline]
    pub fn combine(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        self.occupy_cpu(rank, at, from_picos(bytes as f64 * self.gamma), "combine")
    }

    /// Whether combining and copying are free.
    #[inline]
    pub fn is_combine_free(&self) -> bool {
        self.gamma == 0.0
    }

    /// Occupies the CPU for `duration` as soon as it is free from `at` on. Returns when that completes.
    pub fn occupy(&mut self, rank: u32, at: Time, duration: Time) -> Time {
        self.occupy_cpu(rank, at, duration, "compute")
    }

    #[inline]
    fn occupy_cpu(&mut self, rank: u32, at: Time, duration: Time, name: &'static str) -> Time {
        if duration == 0 {
            return at;
        }
        let begin = at.max(self.cpu[rank as usize]);
        // A program may charge more time than there is.
        let end = begin.saturating_add(self.noise.scale_cpu_time(rank, duration)).min(Time::MAX / 2);
        self.cpu[rank as usize] = end;
        if let Some(trace) = &mut self.trace {
            trace.record_span(rank, begin, end, name);
        }
        end
    }

    /// Schedules a wakeup of a rank at a time that is not before now.
    #[inline]
    pub fn schedule_wakeup(&mut self, at: Time, rank: u32, token: u64) {
        self.queue.push(at, QueuedEvent::Wakeup { rank, token });
    }

    /// Time of a barrier after the last arrival.
    pub fn barrier_time(&self) -> Time {
        self.barrier_time
    }
}
