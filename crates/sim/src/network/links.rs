//! Shared links in time: torus, mesh, Clos, and flat networks with a link in and out of each node.   [thesis 3.1]
//!
//! A send occupies the CPU for alpha; then the message flows, if its node drives fewer than its number of ports at that
//! time, and waits in line otherwise. While it flows, it has on each link on its way an equal share with all that flow there
//! now, and goes as fast as the least of these shares lets it. What it leaves of its share on other links then nobody gets:
//! shares are not max-min fair. When the last byte has flowed the send is over, and the
//! message is there a time per hop later. A rank takes one message each alpha: the first at once, and each further one alpha
//! after the one before at the earliest. Its sends go on meanwhile, as the papers count alpha for the messages that a rank
//! sends or receives, whichever are more.
//!
//! So a message by itself takes alpha + m delta. Messages that use a link one after the other, and those that share it for
//! the same time, take as long as the load of the link says; that is where this equals [`crate::phases`].

use std::collections::VecDeque;

use treepie_topology::{Kind, Network, Tie};

use super::flows::Flows;
use super::ways::Ways;
use crate::costs::Links;
use crate::error::Result;
use crate::machine::Memory;
use crate::noise::Noise;
use crate::time::{MICROSECOND, Time, from_micros};

#[derive(Debug)]
pub(crate) struct LinkNet {
    ways: Ways,
    pub(crate) alpha: Time,
    per_byte: f64,
    hop: Time,
    ports: u32,
    /// Messages that each node drives now.
    driven: Vec<u32>,
    /// When each rank can take its next message.
    taking: Vec<Time>,
    /// Messages that wait for a port, by node; only of nodes that ever had any.
    lines: std::collections::HashMap<u32, VecDeque<Waiting>>,
    pub(crate) flows: Flows,
    way: Vec<u32>,
}

/// A message that waits for a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u64,
    pub(crate) tie: Tie,
}

/// What became of a message that came to its node's interface.
pub(crate) enum Injected {
    /// It flows.
    Flows,
    /// It waits for a port.
    Waits,
    /// There is nothing to carry, or nowhere to carry it: it is over, but for so many hops.
    Through { hops: u32 },
}

impl LinkNet {
    pub(crate) fn new(costs: &Links, network: &Network, noise: &Noise, folded: bool) -> Result<Self> {
        let ways = Ways::new(costs, network, noise, folded)?;
        let delta = match network.kind() {
            Kind::Flat(_) => costs.beta.unwrap_or(costs.delta),
            _ => costs.delta,
        };
        let ranks = if folded { 1 } else { network.ranks() as usize };
        Ok(Self {
            alpha: from_micros(costs.alpha),
            per_byte: delta * MICROSECOND,
            hop: from_micros(costs.hop),
            ports: costs.ports.unwrap_or_else(|| network.ports()),
            driven: vec![0; ranks],
            taking: vec![0; ranks],
            lines: std::collections::HashMap::new(),
            flows: Flows::new(&ways),
            ways,
            way: Vec::new(),
        })
    }

    /// From now on a byte takes so long over a link.
    pub(crate) fn set_delta(&mut self, micros: f64) {
        self.per_byte = micros * MICROSECOND;
    }

    /// A rank takes a message that is there, which keeps it from the next for `alpha`. When it has it.
    #[inline]
    pub(crate) fn take(&mut self, rank: u32, at: Time, alpha: Time) -> Time {
        let taking = &mut self.taking[rank as usize];
        let taken = at.max(*taking);
        *taking = taken + alpha;
        taken
    }

    /// The CPU has started a message.
    pub(crate) fn inject(&mut self, now: Time, message: Waiting) -> Injected {
        if message.bytes == 0 || message.from == message.to {
            let mut hops = 0;
            if self.hop > 0 && message.from != message.to {
                self.ways.route(message.from, message.to, message.tie, |_| hops += 1);
            }
            return Injected::Through { hops };
        }
        let driven = &mut self.driven[message.from as usize];
        if *driven >= self.ports {
            self.lines.entry(message.from).or_default().push_back(message);
            return Injected::Waits;
        }
        *driven += 1;
        self.start(now, message);
        Injected::Flows
    }

    fn start(&mut self, now: Time, message: Waiting) {
        self.way.clear();
        self.ways.route(message.from, message.to, message.tie, |link| self.way.push(link));
        self.flows.start(now, message.id, message.bytes, message.bytes as f64 * self.per_byte, &self.way);
    }

    /// A message of a node has flowed: the next in its line can.
    pub(crate) fn release(&mut self, now: Time, from: u32) {
        match self.lines.get_mut(&from).and_then(VecDeque::pop_front) {
            Some(next) => self.start(now, next),
            None => self.driven[from as usize] -= 1,
        }
    }

    /// What waits at a node is never sent.
    pub(crate) fn forget_line(&mut self, from: u32, forget: impl FnMut(u32)) {
        self.lines.remove(&from).into_iter().flatten().map(|waiting| waiting.id).for_each(forget);
    }

    /// What the hops of a way add.
    pub(crate) fn hops_time(&self, hops: u32) -> Time {
        self.hop * Time::from(hops)
    }

    pub(crate) fn memory(&self) -> Memory {
        let (links, in_flight) = self.flows.memory();
        let lines: usize = self.lines.values().map(|line| line.capacity() * size_of::<Waiting>()).sum();
        Memory {
            ranks: self.driven.capacity() * 4 + self.taking.capacity() * 8,
            links: links + self.ways.memory(),
            in_flight: in_flight + lines,
        }
    }
}
