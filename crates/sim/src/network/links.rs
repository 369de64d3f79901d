//! Shared links in time: torus, mesh, Clos, and flat networks with an injection and an ejection link per host.
//! [thesis 3.1]
//!
//! A send occupies the CPU for alpha. Then the message flows if its node has a free port, and is queued otherwise. A
//! flow has an equal share, with all current flows, of each link on its route, and the least share is its rate. What it
//! leaves unused of other links no flow gets: shares are not max-min fair. The send completes when the last byte has
//! flowed, and the message is delivered a time per hop later. A rank receives one message per alpha: the first at once,
//! each further one at least alpha after the one before. Its sends proceed meanwhile, as the papers count alpha for the
//! messages that a rank sends or receives, whichever are more.
//!
//! A message within a host of several ranks takes alpha, and then latency and bandwidth of its memory, which it does
//! not share; each rank of a host has its own ports.
//!
//! So an uncontended message takes alpha + m delta. Messages that use a link in turn, and those that share it for the
//! same time, take what the load of the link says; there the result equals [`crate::lockstep`].

use std::collections::VecDeque;

use treepie_topology::{Network, NetworkKind, TieBreak};

use super::flows::Flows;
use super::link_routes::RouteTable;
use crate::costs::{LinkCosts, SharedMemoryCosts};
use crate::error::Result;
use crate::machine::MemoryUsage;
use crate::noise::Noise;
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

#[derive(Debug)]
pub(crate) struct LinkNet {
    routes: RouteTable,
    pub(crate) alpha: Time,
    per_byte: f64,
    per_hop: Time,
    memory_latency: Time,
    memory_per_byte: f64,
    ports: u32,
    /// Messages that each node is injecting.
    active_ports: Vec<u32>,
    /// When each rank can receive its next message.
    next_recv: Vec<Time>,
    /// Messages that wait for a port, by node; only of nodes that ever had any.
    port_queues: std::collections::HashMap<u32, VecDeque<PendingMessage>>,
    pub(crate) flows: Flows,
    route: Vec<u32>,
}

/// A message that waits for a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingMessage {
    pub(crate) id: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u64,
    pub(crate) tie: TieBreak,
}

/// Outcome of injecting a message at its node.
pub(crate) enum InjectOutcome {
    /// It flows.
    Started,
    /// It is queued for a port.
    Queued,
    /// It has no bytes or no destination but its source: it is complete but for the latency of its hops.
    Done { hops: u32 },
    /// It is written to the memory of its host, and is complete after this time.
    Written { time: Time },
}

impl LinkNet {
    pub(crate) fn new(costs: &LinkCosts, network: &Network, noise: &Noise, is_representative: bool) -> Result<Self> {
        let routes = RouteTable::new(costs, network, noise, is_representative)?;
        let delta = match network.kind() {
            NetworkKind::Flat(_) => costs.beta.unwrap_or(costs.delta),
            _ => costs.delta,
        };
        let ranks = if is_representative { 1 } else { network.ranks() as usize };
        Ok(Self {
            alpha: from_micros(costs.alpha),
            per_byte: delta * MICROSECOND,
            per_hop: from_micros(costs.per_hop),
            memory_latency: 0,
            memory_per_byte: 0.0,
            ports: costs.ports.unwrap_or_else(|| network.ports()),
            active_ports: vec![0; ranks],
            next_recv: vec![0; ranks],
            port_queues: std::collections::HashMap::new(),
            flows: Flows::new(&routes),
            routes,
            route: Vec::new(),
        })
    }

    /// With these costs within hosts.
    pub(crate) fn with_shared_memory(self, memory: SharedMemoryCosts) -> Self {
        let (latency, per_byte) = (from_micros(memory.latency), MICROSECOND / memory.bandwidth);
        Self { memory_latency: latency, memory_per_byte: per_byte, ..self }
    }

    /// Sets the time per byte over a link.
    pub(crate) fn set_delta(&mut self, micros: f64) {
        self.per_byte = micros * MICROSECOND;
    }

    /// Receives a delivered message, which delays the rank's next receive by `alpha`. Returns when it completes.
    #[inline]
    pub(crate) fn receive(&mut self, rank: u32, at: Time, alpha: Time) -> Time {
        let next_recv = &mut self.next_recv[rank as usize];
        let received = at.max(*next_recv);
        *next_recv = received + alpha;
        received
    }

    /// Injects a message that the CPU has started.
    pub(crate) fn inject(&mut self, now: Time, message: PendingMessage) -> InjectOutcome {
        if message.from != message.to && self.routes.share_host(message.from, message.to) {
            let time = self.memory_latency + from_picos(message.bytes as f64 * self.memory_per_byte);
            return InjectOutcome::Written { time };
        }
        if message.bytes == 0 || message.from == message.to {
            let mut hops = 0;
            if self.per_hop > 0 && message.from != message.to {
                self.routes.route(message.from, message.to, message.tie, |_| hops += 1);
            }
            return InjectOutcome::Done { hops };
        }
        let active_ports = &mut self.active_ports[message.from as usize];
        if *active_ports >= self.ports {
            self.port_queues.entry(message.from).or_default().push_back(message);
            return InjectOutcome::Queued;
        }
        *active_ports += 1;
        self.start(now, message);
        InjectOutcome::Started
    }

    fn start(&mut self, now: Time, message: PendingMessage) {
        self.route.clear();
        self.routes.route(message.from, message.to, message.tie, |link| self.route.push(link));
        self.flows.start(now, message.id, message.bytes, message.bytes as f64 * self.per_byte, &self.route);
    }

    /// Frees a port of a node, or starts the next message queued for it.
    pub(crate) fn release(&mut self, now: Time, from: u32) {
        match self.port_queues.get_mut(&from).and_then(VecDeque::pop_front) {
            Some(next) => self.start(now, next),
            None => self.active_ports[from as usize] -= 1,
        }
    }

    /// Drops the port queue of a failed node.
    pub(crate) fn drop_port_queue(&mut self, from: u32, forget: impl FnMut(u32)) {
        self.port_queues.remove(&from).into_iter().flatten().map(|pending| pending.id).for_each(forget);
    }

    /// Latency of the hops of a route.
    pub(crate) fn hop_latency(&self, hops: u32) -> Time {
        self.per_hop * Time::from(hops)
    }

    pub(crate) fn memory(&self) -> MemoryUsage {
        let (links, in_flight) = self.flows.memory();
        let queues: usize = self.port_queues.values().map(|queue| queue.capacity() * size_of::<PendingMessage>()).sum();
        MemoryUsage {
            ranks: self.active_ports.capacity() * 4 + self.next_recv.capacity() * 8,
            links: links + self.routes.memory(),
            in_flight: in_flight + queues,
        }
    }
}
