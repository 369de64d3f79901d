//! A simulated machine: a clock, a CPU for each rank, a network, and what goes wrong.
//!
//! It knows nothing of what ranks do. Who plays schedules, drives reactors or runs programs on it tells it what a rank does
//! *now* ([`send`](Machine::send), [`receive`](Machine::receive), [`occupy`](Machine::occupy), [`wake`](Machine::wake)), and
//! is told what happens next ([`next`](Machine::next)).
//!
//! A rank has one CPU. What needs it is served in the order of calls, each from `at` on at the earliest. As time only goes
//! forward from one happening to the next, and calls are made for now, that is the order in which things became ready. A call
//! for a later time reserves the CPU all the same: whoever wants others to go first meanwhile lets itself be woken then.
//! What takes no time does not wait for the CPU, but for sends to and within clusters, whose time is not known before.

mod accounts;
mod happening;
mod sends;
mod steps;

use std::collections::VecDeque;

use treepie_base::memory::with_capacity;
use treepie_topology::Network;

pub use happening::{Happening, Memory, Message, Sending, Totals, What};

use crate::channels::Channels;
use crate::costs::{Costs, Settings};
use crate::error::{Error, Result};
use crate::network::Net;
use crate::network::flows::Alarm;
use crate::noise::Noises;
use crate::queue::Queue;
use crate::slab::Slab;
use crate::symmetric::Instant;
use crate::time::{MICROSECOND, Time, from_micros, rounded};
use crate::trace::Trace;

/// Something in the queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message reaches the receiver's interface.
    Arrive(u32),
    /// It is in.
    Deliver(u32),
    /// The CPU has started it.
    Inject(u32),
    Flow(Alarm),
    Wake {
        rank: u32,
        token: u64,
    },
    Sent {
        rank: u32,
        token: u64,
    },
    /// A rank whose sends wait for its CPU may begin the next.
    NextSend {
        rank: u32,
    },
    Die {
        rank: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    message: Message,
    /// Its number in its channel, where order must be kept; otherwise [`crate::slab::NONE`].
    number: u32,
}

/// A simulated machine.
#[derive(Debug)]
pub struct Machine {
    queue: Queue<Event>,
    /// When each rank's CPU is free.
    cpu: Vec<Time>,
    flying: Slab<InFlight>,
    net: Net,
    noise: Noises,
    /// Order of channels, if they all keep it, or of what must not be overtaken in them.
    channels: Channels,
    keeps_order: bool,
    ready: VecDeque<Happening>,
    /// Messages that are to be handed over in order; empty between two calls.
    due: Vec<u32>,
    gamma: f64,
    barrier: Time,
    memory_cap: Option<u64>,
    /// Bytes that ranks hold unasked for; empty if there is no cap.
    held: Vec<u64>,
    totals: Totals,
    trace: Option<Box<Trace>>,
    /// What comes to the interface at one instant, if there is but rank 0.
    folded: Option<Box<Interface>>,
}

/// What comes to the interface of the one rank of a folded machine, from either side.
#[derive(Debug, Default)]
struct Interface {
    inwards: Instant,
    outwards: Instant,
    steps: u64,
    tied: bool,
}

impl Machine {
    /// At time 0, with nothing on the way.
    pub fn new(network: &Network, settings: &Settings) -> Result<Self> {
        Self::with(network, settings, false)
    }

    /// Only rank 0, where all do the same: what it sends to others comes back as from others.
    pub(crate) fn folded(network: &Network, settings: &Settings) -> Result<Self> {
        Self::with(network, settings, true)
    }

    fn with(network: &Network, settings: &Settings, folded: bool) -> Result<Self> {
        settings.check()?;
        let ranks = if folded { 1 } else { network.ranks() };
        // What a rank takes at least; given back at once.
        with_capacity::<[u64; 8]>(ranks as usize, "the ranks of a simulated machine")?;
        let net = Net::new(network, settings, folded)?;
        let named = settings.noise.slow_ranks.iter().chain(&settings.noise.deaths).map(|(rank, _)| *rank);
        if let Some(rank) = named.into_iter().find(|rank| *rank >= ranks) {
            return Err(Error::NoRank { rank, ranks });
        }
        let noise = Noises::new(&settings.noise, ranks);
        let mut queue = Queue::new();
        for &(rank, at) in &settings.noise.deaths {
            queue.push(from_micros(at), Event::Die { rank });
        }
        Ok(Self {
            queue,
            cpu: vec![0; ranks as usize],
            flying: Slab::new(),
            channels: Channels::default(),
            keeps_order: noise.reorders() || net.lets_overtake(&settings.noise),
            net,
            noise,
            ready: VecDeque::new(),
            due: Vec::new(),
            gamma: settings.gamma * MICROSECOND,
            barrier: from_micros(settings.barrier),
            memory_cap: settings.memory_cap,
            held: if settings.memory_cap.is_some() { vec![0; ranks as usize] } else { Vec::new() },
            totals: Totals::default(),
            trace: None,
            folded: folded.then(Box::default),
        })
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.cpu.len() as u32
    }

    /// Whether messages share links, and may overtake others of their ranks there.
    #[inline]
    pub(crate) fn has_links(&self) -> bool {
        matches!(self.net, Net::Links(_))
    }

    /// What time it is.
    #[inline]
    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// From now on messages of a channel are delivered in the order in which they were sent, whatever the network does.
    /// Without it a short message may overtake a long one where links are simulated. To be called before anything is sent.
    pub fn keep_order(&mut self) {
        self.keeps_order = true;
    }

    /// From now on it is recorded what ranks do.
    pub fn record(&mut self) {
        self.trace.get_or_insert_default();
    }

    /// What was recorded so far.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take().map(|trace| *trace)
    }

    /// Ranks drive so many of their ports at once, which may make links slower ([`crate::costs::Links::efficiency`]).
    pub(crate) fn drive(&mut self, costs: &Costs, driven: u32, all: u32) {
        if let (Net::Links(net), Costs::Links(links)) = (&mut self.net, costs) {
            let delta = links.delta_driving(driven.min(links.ports.unwrap_or(all)), all);
            if delta > links.delta {
                net.set_delta(delta);
            }
        }
    }

    /// A rank takes a message that is there, as soon as its CPU is free from `at` on. When it has it.
    #[inline]
    pub fn receive(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        let overhead = match &mut self.net {
            Net::LogGp(net) => net.overhead,
            Net::Links(net) => return net.take(rank, at, self.noise.on_cpu(rank, net.alpha)),
            Net::Clusters(net) => net.receive_overhead(bytes),
        };
        self.work(rank, at, overhead, "receive")
    }

    /// A rank combines or copies bytes. When it has.
    #[inline]
    pub fn combine(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        self.work(rank, at, rounded(bytes as f64 * self.gamma), "combine")
    }

    /// Whether combining and copying take no time.
    #[inline]
    pub fn combines_for_free(&self) -> bool {
        self.gamma == 0.0
    }

    /// A rank computes for some time, as soon as its CPU is free from `at` on. When it has.
    pub fn occupy(&mut self, rank: u32, at: Time, duration: Time) -> Time {
        self.work(rank, at, duration, "compute")
    }

    #[inline]
    fn work(&mut self, rank: u32, at: Time, duration: Time, name: &'static str) -> Time {
        if duration == 0 {
            return at;
        }
        let begin = at.max(self.cpu[rank as usize]);
        // A program may say that it computes for longer than there is time.
        let end = begin.saturating_add(self.noise.on_cpu(rank, duration)).min(Time::MAX / 2);
        self.cpu[rank as usize] = end;
        if let Some(trace) = &mut self.trace {
            trace.span(rank, begin, end, name);
        }
        end
    }

    /// A rank is to be woken at a time that is not before now.
    #[inline]
    pub fn wake(&mut self, at: Time, rank: u32, token: u64) {
        self.queue.push(at, Event::Wake { rank, token });
    }

    /// What it takes until all know that all are there.
    pub fn barrier(&self) -> Time {
        self.barrier
    }
}
