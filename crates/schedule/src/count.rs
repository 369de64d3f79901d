//! Computes the cost of a schedule on a network: messages, elements, and link loads.
//!
//! The model is that of the thesis (3.1): the cost of a phase is that of its longest lane; the cost of a lane is the
//! sum over its rounds; the cost of a round of a lane is the maximum, over the links on the routes of its messages, of
//! load over capacity in that round. Lanes share links in rounds of the same number. The start-up cost of a phase is
//! the maximum number of messages that one rank sends or receives in it.
//!
//! So rounds of the same number are assumed to be simultaneous on all ranks. That is right for algorithms in stages. It
//! is wrong where a rank's first round waits for another rank's last, as down a tree that is not in lockstep, and where
//! lanes form a pipeline: for those, messages, elements and link loads are right, but [`ScheduleCost::alpha`] and
//! [`ScheduleCost::delta`] are not their time, which depends on the longest chain of rounds; the simulator computes it.

mod length_cache;
mod link_routes;
mod slots;
#[cfg(test)]
mod tests;
mod work;

pub use link_routes::LinkRoutes;
pub use slots::{SlotCounts, count_slots};
pub use work::{WorkCounts, count_work};

use std::ops::Range;

use treepie_topology::{Network, TieBreak};

use crate::layout::{BlockLayouts, BufferMap};
use crate::op::{RoundList, ScheduleOp};
use crate::schedule::Schedule;
use length_cache::LengthCache;
use link_routes::RoutedLinks;

/// The cost of a round of a phase, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundCost {
    /// Messages of all ranks.
    pub messages: u64,
    /// Elements of the longest message.
    pub size: usize,
    /// Hops of the longest route.
    pub hops: u32,
    /// The time of the slowest lane, in units of one element over a link.
    pub time: f64,
}

impl RoundCost {
    /// The time relative to that of its longest message alone.
    pub fn congestion(&self) -> f64 {
        if self.size == 0 { 1.0 } else { self.time / self.size as f64 }
    }
}

/// The cost of a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCost {
    /// The maximum number of messages that one rank sends or receives.
    pub messages: u64,
    /// The time of its slowest lane, in units of one element over a link.
    pub time: f64,
    /// Its rounds.
    pub rounds: Vec<RoundCost>,
}

/// The cost of a schedule on a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleCost {
    /// The cost of each phase.
    pub phases: Vec<PhaseCost>,
    /// Messages of all ranks.
    pub messages: u64,
    /// Elements of all messages.
    pub volume: u64,
    /// The maximum number of messages that one rank sends.
    pub max_messages: u64,
    /// The maximum number of elements that one rank sends.
    pub max_volume: u64,
}

impl ScheduleCost {
    /// Start-ups: the coefficient of alpha.
    pub fn alpha(&self) -> u64 {
        self.phases.iter().map(|phase| phase.messages).sum()
    }

    /// Serialized elements over a link: the coefficient of delta, or of beta on a flat network.
    pub fn delta(&self) -> f64 {
        self.phases.iter().map(|phase| phase.time).sum()
    }
}

/// Rounds per call of `emit`; most of its cost is per call, not per round.
const BATCH: u32 = 8;

/// Messages that are buffered before they are routed. Routing them round by round keeps a round's loads in the cache.
const MAX_BUFFERED: usize = 1 << 18;

struct RoutedMessage {
    from: u32,
    to: u32,
    lane: u32,
    elements: usize,
}

/// The cost of a schedule with these block lengths on a network with the same number of ranks.
///
/// Memory: 24 bytes per message of eight rounds, for at most 2^18 of them, and 16 bytes per link; with more messages,
/// 16 bytes per link for each of the eight rounds.
pub fn count(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> BlockLayouts, network: &Network) -> ScheduleCost {
    count_buffered(MAX_BUFFERED, schedule, layouts, network)
}

/// [`count`] on other routes than a network's.
pub fn count_on_links(
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> BlockLayouts,
    routes: &dyn LinkRoutes,
) -> ScheduleCost {
    count_buffered(MAX_BUFFERED, schedule, layouts, routes)
}

fn count_buffered(
    max_buffered: usize,
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> BlockLayouts,
    routes: impl RoutedLinks,
) -> ScheduleCost {
    assert_eq!(schedule.ranks(), routes.ranks(), "schedule and network have the same number of ranks");
    let layouts: Vec<BlockLayouts> = (0..schedule.ranks()).map(layouts).collect();
    let mut counter = Counter {
        schedule,
        lengths: LengthCache::new(&layouts),
        layouts,
        routes,
        sent: vec![(0, 0); schedule.ranks() as usize],
        startups: vec![(0, 0); schedule.ranks() as usize],
        batch: std::array::from_fn(|_| RoundLoad::default()),
        buffered: 0,
        max_buffered,
        free_loads: Vec::new(),
        ops: RoundList::new(),
    };
    let phases: Vec<PhaseCost> = (0..schedule.phases()).map(|phase| counter.phase(phase)).collect();
    ScheduleCost {
        phases,
        messages: counter.sent.iter().map(|(messages, _)| messages).sum(),
        volume: counter.sent.iter().map(|(_, volume)| volume).sum(),
        max_messages: counter.sent.iter().map(|(messages, _)| *messages).max().unwrap_or(0),
        max_volume: counter.sent.iter().map(|(_, volume)| *volume).max().unwrap_or(0),
    }
}

/// The load of a link in a round, and the last lane seen on it, plus 1.
#[derive(Clone, Copy, Default)]
struct LinkLoad {
    elements: f64,
    lane: u32,
}

/// The messages and loads of a round.
#[derive(Default)]
struct RoundLoad {
    round: RoundCost,
    /// Messages not yet routed, lane by lane.
    messages: Vec<RoutedMessage>,
    /// The load of each link; empty if none is loaded.
    loads: Vec<LinkLoad>,
    /// Lanes and the links on the routes of their messages, each once.
    lane_links: Vec<(u32, u32)>,
}

struct Counter<'a, R: RoutedLinks> {
    schedule: &'a dyn Schedule,
    layouts: Vec<BlockLayouts>,
    lengths: LengthCache,
    routes: R,
    /// Messages and elements that each rank has sent.
    sent: Vec<(u64, u64)>,
    /// Messages that each rank has sent and received in this phase.
    startups: Vec<(u64, u64)>,
    /// The rounds of the current batch.
    batch: [RoundLoad; BATCH as usize],
    /// Messages buffered in all of them.
    buffered: usize,
    max_buffered: usize,
    /// Zeroed link loads, for reuse.
    free_loads: Vec<Vec<LinkLoad>>,
    ops: RoundList,
}

impl<R: RoutedLinks> Counter<'_, R> {
    fn phase(&mut self, phase: u32) -> PhaseCost {
        let lanes = self.schedule.phase(phase).lanes;
        let ranks = self.schedule.ranks();
        self.startups.fill((0, 0));
        let tie_breaks: Vec<TieBreak> = (0..lanes).map(|lane| self.schedule.tie_break(phase, lane)).collect();
        let mut lane_times = vec![0.0f64; lanes as usize];
        let mut rounds = Vec::new();
        loop {
            let first = rounds.len() as u32;
            let mut last = first;
            for lane in 0..lanes {
                for rank in 0..ranks {
                    let end = self.schedule.rounds(rank, phase, lane).min(first + BATCH);
                    if end > first {
                        self.collect(rank, phase, lane, first..end);
                        last = last.max(end);
                    }
                    if self.buffered > self.max_buffered {
                        (0..BATCH as usize).for_each(|k| self.route_messages(k, &tie_breaks));
                    }
                }
            }
            if last == first {
                break;
            }
            for k in 0..(last - first) as usize {
                self.route_messages(k, &tie_breaks);
                rounds.push(self.finish_round(k, &mut lane_times));
            }
        }
        PhaseCost {
            messages: self.startups.iter().map(|(sent, received)| *sent.max(received)).max().unwrap_or(0),
            time: lane_times.into_iter().fold(0.0, f64::max),
            rounds,
        }
    }

    fn collect(&mut self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>) {
        self.ops.clear();
        self.schedule.emit(rank, phase, lane, rounds, &mut self.ops);
        let buffer_map = BufferMap { schedule: self.schedule, layouts: &self.layouts[rank as usize], rank };
        let (mut sent, mut volume) = (0, 0);
        for (ops, RoundLoad { round, messages, .. }) in self.ops.iter().zip(&mut self.batch) {
            for op in ops {
                if let ScheduleOp::Send { to, part } = *op {
                    let elements = self.lengths.length_of(buffer_map, part);
                    messages.push(RoutedMessage { from: rank, to, lane, elements });
                    self.startups[to as usize].1 += 1;
                    (sent, volume) = (sent + 1, volume + elements as u64);
                    round.messages += 1;
                    round.size = round.size.max(elements);
                }
            }
        }
        self.buffered += sent as usize;
        self.startups[rank as usize].0 += sent;
        let of_rank = &mut self.sent[rank as usize];
        *of_rank = (of_rank.0 + sent, of_rank.1 + volume);
    }

    /// Adds the buffered messages of a round to the link loads.
    fn route_messages(&mut self, k: usize, tie_breaks: &[TieBreak]) {
        let RoundLoad { round, messages, loads, lane_links } = &mut self.batch[k];
        if messages.is_empty() {
            return;
        }
        self.buffered -= messages.len();
        if loads.is_empty() {
            let new = || vec![LinkLoad::default(); self.routes.links() as usize];
            *loads = self.free_loads.pop().unwrap_or_else(new);
        }
        for RoutedMessage { from, to, lane, elements } in messages.drain(..) {
            let (mut hops, elements, mark) = (0, elements as f64, lane + 1);
            self.routes.route(from, to, tie_breaks[lane as usize], |link| {
                let load = &mut loads[link as usize];
                load.elements += elements;
                if load.lane != mark {
                    load.lane = mark;
                    lane_links.push((lane, link));
                }
                hops += 1;
            });
            round.hops = round.hops.max(hops);
        }
    }

    /// Computes the cost of a round from its link loads, lane by lane, and resets these.
    fn finish_round(&mut self, k: usize, lane_times: &mut [f64]) -> RoundCost {
        let RoundLoad { round, loads, lane_links, .. } = &mut self.batch[k];
        let mut round = std::mem::take(round);
        let mut lane_time = 0.0f64;
        for (at, &(lane, link)) in lane_links.iter().enumerate() {
            lane_time = lane_time.max(loads[link as usize].elements / self.routes.capacity(link));
            if lane_links.get(at + 1).is_none_or(|(next, _)| *next != lane) {
                lane_times[lane as usize] += lane_time;
                round.time = round.time.max(lane_time);
                lane_time = 0.0;
            }
        }
        lane_links.drain(..).for_each(|(_, link)| loads[link as usize] = LinkLoad::default());
        if !loads.is_empty() {
            self.free_loads.push(std::mem::take(loads));
        }
        round
    }
}
