//! Flows of messages over shared links.
//!
//! Rates change only for flows that share a link with a flow that starts or ends. All changes of one instant are
//! applied together before time advances: where one flow ends and the next begins on the same link, nothing changes for
//! others.

use treepie_schedule::count::LinkRoutes as _;

use super::link_routes::RouteTable;
use crate::queue::EventQueue;
use crate::slab::{NIL, Slab};
use crate::time::{Time, from_picos};

#[derive(Clone, Copy, Debug)]
struct Flow {
    message: u32,
    first_hop: u32,
    hops: u32,
    /// Generation of the valid timer of this flow.
    generation: u32,
    /// Round of rate computation in which it was last visited.
    rate_round: u32,
    /// Remaining picoseconds at rate 1.
    remaining: f64,
    rate: f64,
    updated: Time,
    end: Time,
    /// When its timer fires.
    timer: Time,
}

/// A flow on a link: an entry of the link's list of flows.
#[derive(Clone, Copy, Debug)]
struct Hop {
    flow: u32,
    link: u32,
    prev_on_link: u32,
    next_on_link: u32,
    /// The next hop of the same flow.
    next_of_flow: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    capacity: f64,
    head: u32,
    flows: u32,
    is_dirty: bool,
    bytes: u64,
}

/// Timer of a flow's expected end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowTimer {
    pub(crate) flow: u32,
    pub(crate) generation: u32,
}

#[derive(Debug)]
pub(crate) struct Flows {
    links: Vec<Link>,
    flows: Slab<Flow>,
    hops: Slab<Hop>,
    dirty_links: Vec<u32>,
    rate_round: u32,
    generation: u32,
}

impl Flows {
    pub(crate) fn new(routes: &RouteTable) -> Self {
        let link = |link| Link { capacity: routes.capacity(link), head: NIL, flows: 0, is_dirty: false, bytes: 0 };
        Self {
            links: (0..routes.links()).map(link).collect(),
            flows: Slab::new(),
            hops: Slab::new(),
            dirty_links: Vec::new(),
            rate_round: 0,
            generation: 0,
        }
    }

    fn mark_dirty(&mut self, link: u32) {
        let entry = &mut self.links[link as usize];
        if !entry.is_dirty {
            entry.is_dirty = true;
            self.dirty_links.push(link);
        }
    }

    /// Starts the flow of a message that takes `work` picoseconds at full rate. Its rate is computed later.
    pub(crate) fn start(&mut self, now: Time, message: u32, bytes: u64, work: f64, route: &[u32]) {
        let generation = self.generation;
        self.generation = self.generation.wrapping_add(1);
        let id = self.flows.insert(Flow {
            message,
            first_hop: NIL,
            hops: route.len() as u32,
            generation,
            rate_round: self.rate_round,
            remaining: work,
            rate: 0.0,
            updated: now,
            end: Time::MAX,
            timer: Time::MAX,
        });
        for &link in route {
            let entry = &mut self.links[link as usize];
            let next_on_link = entry.head;
            let hop = self.hops.insert(Hop {
                flow: id,
                link,
                prev_on_link: NIL,
                next_on_link,
                next_of_flow: self.flows[id].first_hop,
            });
            entry.head = hop;
            entry.flows += 1;
            entry.bytes += bytes;
            if next_on_link != NIL {
                self.hops[next_on_link].prev_on_link = hop;
            }
            self.flows[id].first_hop = hop;
            self.mark_dirty(link);
        }
    }

    /// Whether rates must be recomputed before time advances.
    #[inline]
    pub(crate) fn has_stale_rates(&self) -> bool {
        !self.dirty_links.is_empty()
    }

    /// Recomputes the rates of all flows on dirty links; `into_event` makes the queue entry of a timer.
    pub(crate) fn recompute_rates<T: Copy>(&mut self, queue: &mut EventQueue<T>, into_event: impl Fn(FlowTimer) -> T) {
        let now = queue.now();
        self.rate_round = self.rate_round.wrapping_add(1);
        let mut dirty_links = std::mem::take(&mut self.dirty_links);
        for link in dirty_links.drain(..) {
            self.links[link as usize].is_dirty = false;
            let mut hop = self.links[link as usize].head;
            while hop != NIL {
                let Hop { flow, next_on_link, .. } = self.hops[hop];
                if self.flows[flow].rate_round != self.rate_round {
                    self.flows[flow].rate_round = self.rate_round;
                    self.recompute_rate(flow, now, queue, &into_event);
                }
                hop = next_on_link;
            }
        }
        self.dirty_links = dirty_links;
    }

    fn recompute_rate<T: Copy>(
        &mut self,
        id: u32,
        now: Time,
        queue: &mut EventQueue<T>,
        into_event: &impl Fn(FlowTimer) -> T,
    ) {
        let mut rate = f64::INFINITY;
        let mut hop = self.flows[id].first_hop;
        while hop != NIL {
            let Hop { link, next_of_flow: next, .. } = self.hops[hop];
            let link = &self.links[link as usize];
            rate = rate.min(link.capacity / f64::from(link.flows));
            hop = next;
        }
        let flow = &mut self.flows[id];
        if rate == flow.rate {
            return;
        }
        flow.remaining = (flow.remaining - (now - flow.updated) as f64 * flow.rate).max(0.0);
        (flow.updated, flow.rate) = (now, rate);
        flow.end = now + from_picos(flow.remaining / rate);
        if flow.end < flow.timer {
            // A timer that fires too early is rearmed; only one that would fire too late must be replaced.
            flow.generation = self.generation;
            self.generation = self.generation.wrapping_add(1);
            flow.timer = flow.end;
            queue.push(flow.end, into_event(FlowTimer { flow: id, generation: flow.generation }));
        }
    }

    /// Handles a timer. Returns the message and the number of hops of the flow if it has ended.
    pub(crate) fn on_timer<T: Copy>(
        &mut self,
        timer: FlowTimer,
        queue: &mut EventQueue<T>,
        into_event: impl Fn(FlowTimer) -> T,
    ) -> Option<(u32, u32)> {
        let flow = &mut self.flows[timer.flow];
        if flow.generation != timer.generation {
            return None;
        }
        if flow.end > queue.now() {
            flow.timer = flow.end;
            queue.push(flow.end, into_event(timer));
            return None;
        }
        let (message, hops) = (flow.message, flow.hops);
        let mut hop = flow.first_hop;
        // Invalidate the flow's timers.
        flow.generation = self.generation;
        self.generation = self.generation.wrapping_add(1);
        while hop != NIL {
            let Hop { link, prev_on_link, next_on_link, next_of_flow: next, .. } = self.hops[hop];
            let entry = &mut self.links[link as usize];
            entry.flows -= 1;
            if prev_on_link == NIL {
                entry.head = next_on_link;
            } else {
                self.hops[prev_on_link].next_on_link = next_on_link;
            }
            if next_on_link != NIL {
                self.hops[next_on_link].prev_on_link = prev_on_link;
            }
            if entry.flows > 0 {
                self.mark_dirty(link);
            }
            self.hops.remove(hop);
            hop = next;
        }
        self.flows.remove(timer.flow);
        Some((message, hops))
    }

    /// The link with the most bytes relative to its capacity, and its bytes.
    pub(crate) fn busiest(&self) -> Option<(u32, u64)> {
        let mut most = None;
        let mut highest = 0.0;
        for (number, link) in (0..).zip(&self.links) {
            let load = link.bytes as f64 / link.capacity;
            if load > highest {
                (highest, most) = (load, Some((number, link.bytes)));
            }
        }
        most
    }

    /// Bytes of memory for links, and for flows.
    pub(crate) fn memory(&self) -> (usize, usize) {
        (self.links.capacity() * size_of::<Link>(), self.flows.memory() + self.hops.memory())
    }
}
