//! Messages that flow, and the links that they share.
//!
//! Speeds change only for flows that share a link with one that starts or ends. All changes of one instant are settled
//! together, before time goes on: where one flow ends and the next begins on the same link, nothing changes for others.

use treepie_schedule::count::Ways as _;

use super::ways::Ways;
use crate::queue::Queue;
use crate::slab::{NONE, Slab};
use crate::time::{Time, rounded};

#[derive(Clone, Copy, Debug)]
struct Flow {
    message: u32,
    first_hop: u32,
    hops: u32,
    /// What an alarm must have for it to be this flow's.
    generation: u32,
    /// In which settlement it was last looked at.
    settled: u32,
    /// Picoseconds that it would still take at speed 1.
    work: f64,
    speed: f64,
    since: Time,
    end: Time,
    /// When the alarm rings that will look at it.
    alarm: Time,
}

/// A flow on a link: a member of the link's list.
#[derive(Clone, Copy, Debug)]
struct Hop {
    flow: u32,
    link: u32,
    before: u32,
    after: u32,
    /// The next of the same flow.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    capacity: f64,
    head: u32,
    flows: u32,
    changed: bool,
    bytes: u64,
}

/// When to look at a flow again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub(crate) flow: u32,
    pub(crate) generation: u32,
}

#[derive(Debug)]
pub(crate) struct Flows {
    links: Vec<Link>,
    flows: Slab<Flow>,
    hops: Slab<Hop>,
    changed: Vec<u32>,
    settlement: u32,
    generation: u32,
}

impl Flows {
    pub(crate) fn new(ways: &Ways) -> Self {
        let link = |link| Link { capacity: ways.capacity(link), head: NONE, flows: 0, changed: false, bytes: 0 };
        Self {
            links: (0..ways.links()).map(link).collect(),
            flows: Slab::new(),
            hops: Slab::new(),
            changed: Vec::new(),
            settlement: 0,
            generation: 0,
        }
    }

    fn change(&mut self, link: u32) {
        let entry = &mut self.links[link as usize];
        if !entry.changed {
            entry.changed = true;
            self.changed.push(link);
        }
    }

    /// A message starts to flow that would take `work` picoseconds at full speed. Its speed is settled later.
    pub(crate) fn start(&mut self, now: Time, message: u32, bytes: u64, work: f64, way: &[u32]) {
        let generation = self.generation;
        self.generation = self.generation.wrapping_add(1);
        let id = self.flows.insert(Flow {
            message,
            first_hop: NONE,
            hops: way.len() as u32,
            generation,
            settled: self.settlement,
            work,
            speed: 0.0,
            since: now,
            end: Time::MAX,
            alarm: Time::MAX,
        });
        for &link in way {
            let entry = &mut self.links[link as usize];
            let after = entry.head;
            let hop = self.hops.insert(Hop { flow: id, link, before: NONE, after, next: self.flows[id].first_hop });
            entry.head = hop;
            entry.flows += 1;
            entry.bytes += bytes;
            if after != NONE {
                self.hops[after].before = hop;
            }
            self.flows[id].first_hop = hop;
            self.change(link);
        }
    }

    /// Whether speeds have to be settled before time goes on.
    #[inline]
    pub(crate) fn unsettled(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Settles the speeds of all flows on links where something started or ended; calls `ring` to set alarms.
    pub(crate) fn settle<T: Copy>(&mut self, queue: &mut Queue<T>, ring: impl Fn(Alarm) -> T) {
        let now = queue.now();
        self.settlement = self.settlement.wrapping_add(1);
        let mut changed = std::mem::take(&mut self.changed);
        for link in changed.drain(..) {
            self.links[link as usize].changed = false;
            let mut hop = self.links[link as usize].head;
            while hop != NONE {
                let Hop { flow, after, .. } = self.hops[hop];
                if self.flows[flow].settled != self.settlement {
                    self.flows[flow].settled = self.settlement;
                    self.settle_flow(flow, now, queue, &ring);
                }
                hop = after;
            }
        }
        self.changed = changed;
    }

    fn settle_flow<T: Copy>(&mut self, id: u32, now: Time, queue: &mut Queue<T>, ring: &impl Fn(Alarm) -> T) {
        let mut speed = f64::INFINITY;
        let mut hop = self.flows[id].first_hop;
        while hop != NONE {
            let Hop { link, next, .. } = self.hops[hop];
            let link = &self.links[link as usize];
            speed = speed.min(link.capacity / f64::from(link.flows));
            hop = next;
        }
        let flow = &mut self.flows[id];
        if speed == flow.speed {
            return;
        }
        flow.work = (flow.work - (now - flow.since) as f64 * flow.speed).max(0.0);
        (flow.since, flow.speed) = (now, speed);
        flow.end = now + rounded(flow.work / speed);
        if flow.end < flow.alarm {
            // An alarm that rings too early sets the next one; only one that would ring too late must be replaced.
            flow.generation = self.generation;
            self.generation = self.generation.wrapping_add(1);
            flow.alarm = flow.end;
            queue.push(flow.end, ring(Alarm { flow: id, generation: flow.generation }));
        }
    }

    /// An alarm rang: the message of the flow if it is over, and the number of its hops.
    pub(crate) fn rung<T: Copy>(
        &mut self,
        alarm: Alarm,
        queue: &mut Queue<T>,
        ring: impl Fn(Alarm) -> T,
    ) -> Option<(u32, u32)> {
        let flow = &mut self.flows[alarm.flow];
        if flow.generation != alarm.generation {
            return None;
        }
        if flow.end > queue.now() {
            flow.alarm = flow.end;
            queue.push(flow.end, ring(alarm));
            return None;
        }
        let (message, hops) = (flow.message, flow.hops);
        let mut hop = flow.first_hop;
        // No alarm is meant for this place any more.
        flow.generation = self.generation;
        self.generation = self.generation.wrapping_add(1);
        while hop != NONE {
            let Hop { link, before, after, next, .. } = self.hops[hop];
            let entry = &mut self.links[link as usize];
            entry.flows -= 1;
            if before == NONE {
                entry.head = after;
            } else {
                self.hops[before].after = after;
            }
            if after != NONE {
                self.hops[after].before = before;
            }
            if entry.flows > 0 {
                self.change(link);
            }
            self.hops.remove(hop);
            hop = next;
        }
        self.flows.remove(alarm.flow);
        Some((message, hops))
    }

    /// The link that carried most for what it can carry, and what.
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

    /// Bytes for links, and for what flows.
    pub(crate) fn memory(&self) -> (usize, usize) {
        (self.links.capacity() * size_of::<Link>(), self.flows.memory() + self.hops.memory())
    }
}
