//! Counts a schedule on a network: messages, elements, and the load of links.
//!
//! The model is that of the thesis (3.1): a phase costs its longest lane; a lane costs the sum of its rounds; a round of
//! a lane costs the most that any link on the way of one of its messages has to carry in that round, over what the link
//! can carry. Lanes share links in the rounds of the same number. For start-ups a phase costs the most messages that one
//! rank sends or receives in it.
//!
//! So rounds of the same number are taken to go on at the same time on all ranks. That is right for algorithms in stages. It
//! is not where a rank's first round waits for another rank's last, as down a tree whose ranks do not keep step, nor where
//! lanes are a pipeline: of those, messages, elements and the load of links are right, but [`Count::alpha`] and
//! [`Count::delta`] are not their time, which depends on the longest chain of rounds and is a simulator's to find.

mod lengths;
#[cfg(test)]
mod tests;
mod ways;

pub use ways::Ways;

use std::ops::Range;

use treepie_topology::{Network, Tie};

use crate::layout::{Layouts, Places};
use crate::op::{Op, Rounds};
use crate::schedule::Schedule;
use lengths::Lengths;
use ways::Links;

/// A round of a phase over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// Messages of all ranks.
    pub messages: u64,
    /// Elements of the longest message.
    pub size: usize,
    /// Links of the longest way.
    pub hops: u32,
    /// The time of the slowest lane, in elements over a link.
    pub time: f64,
}

impl Round {
    /// How much longer it takes than its longest message alone.
    pub fn congestion(&self) -> f64 {
        if self.size == 0 { 1.0 } else { self.time / self.size as f64 }
    }
}

/// A phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// The most messages that one rank sends or receives.
    pub messages: u64,
    /// The time of its slowest lane, in elements over a link.
    pub time: f64,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// What a schedule costs on a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// By phases.
    pub phases: Vec<Phase>,
    /// Messages of all ranks.
    pub messages: u64,
    /// Elements of all messages.
    pub volume: u64,
    /// The most messages that one rank sends.
    pub most_messages: u64,
    /// The most elements that one rank sends.
    pub most_volume: u64,
}

impl Count {
    /// Start-ups: the coefficient of alpha.
    pub fn alpha(&self) -> u64 {
        self.phases.iter().map(|phase| phase.messages).sum()
    }

    /// Elements over a link, one after the other: the coefficient of delta, or of beta on a flat network.
    pub fn delta(&self) -> f64 {
        self.phases.iter().map(|phase| phase.time).sum()
    }
}

/// Rounds that are asked for at once; most of the price of asking is paid once for all of them.
const BATCH: u32 = 8;

/// So many messages are kept before links are loaded with them. Loading them round by round keeps a round's loads near.
const KEPT: usize = 1 << 18;

struct Message {
    from: u32,
    to: u32,
    lane: u32,
    elements: usize,
}

/// Counts a schedule whose blocks have these lengths, on a network of as many ranks.
///
/// Memory: 24 bytes for each message of eight rounds, but no more than 2^18 of them, and 16 for each link. If there are more
/// messages, the latter for each of the eight rounds.
pub fn count(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, network: &Network) -> Count {
    count_keeping(KEPT, schedule, layouts, network)
}

/// The same on other ways between ranks.
pub fn count_over(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, ways: &dyn Ways) -> Count {
    count_keeping(KEPT, schedule, layouts, ways)
}

fn count_keeping(most: usize, schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, ways: impl Links) -> Count {
    assert_eq!(schedule.ranks(), ways.ranks(), "a schedule is counted on a network of as many ranks");
    let layouts: Vec<Layouts> = (0..schedule.ranks()).map(layouts).collect();
    let mut counter = Counter {
        schedule,
        lengths: Lengths::new(&layouts),
        layouts,
        ways,
        sent: vec![(0, 0); schedule.ranks() as usize],
        starts: vec![(0, 0); schedule.ranks() as usize],
        batch: std::array::from_fn(|_| Loading::default()),
        kept: 0,
        most_kept: most,
        unused: Vec::new(),
        ops: Rounds::new(),
    };
    let phases: Vec<Phase> = (0..schedule.phases()).map(|phase| counter.phase(phase)).collect();
    Count {
        phases,
        messages: counter.sent.iter().map(|(messages, _)| messages).sum(),
        volume: counter.sent.iter().map(|(_, volume)| volume).sum(),
        most_messages: counter.sent.iter().map(|(messages, _)| *messages).max().unwrap_or(0),
        most_volume: counter.sent.iter().map(|(_, volume)| *volume).max().unwrap_or(0),
    }
}

/// What a link carries in a round, and the last lane that was seen on it, plus 1.
#[derive(Clone, Copy, Default)]
struct Load {
    elements: f64,
    lane: u32,
}

/// A round while its messages are collected.
#[derive(Default)]
struct Loading {
    round: Round,
    /// Those that no link has been loaded with. They come lane by lane.
    messages: Vec<Message>,
    /// Of each link; empty if none has been loaded.
    loads: Vec<Load>,
    /// Lanes and the links that their messages pass, each once.
    passed: Vec<(u32, u32)>,
}

struct Counter<'a, W: Links> {
    schedule: &'a dyn Schedule,
    layouts: Vec<Layouts>,
    lengths: Lengths,
    ways: W,
    /// Messages and elements that each rank has sent.
    sent: Vec<(u64, u64)>,
    /// Messages that each rank has sent and received in this phase.
    starts: Vec<(u64, u64)>,
    /// The rounds that were asked for together.
    batch: [Loading; BATCH as usize],
    /// Messages that are kept in all of them.
    kept: usize,
    most_kept: usize,
    /// Loads of links for rounds that need some; nothing is loaded there.
    unused: Vec<Vec<Load>>,
    ops: Rounds,
}

impl<W: Links> Counter<'_, W> {
    fn phase(&mut self, phase: u32) -> Phase {
        let lanes = self.schedule.phase(phase).lanes;
        let ranks = self.schedule.ranks();
        self.starts.fill((0, 0));
        let ties: Vec<Tie> = (0..lanes).map(|lane| self.schedule.tie(phase, lane)).collect();
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
                    if self.kept > self.most_kept {
                        (0..BATCH as usize).for_each(|k| self.load(k, &ties));
                    }
                }
            }
            if last == first {
                break;
            }
            for k in 0..(last - first) as usize {
                self.load(k, &ties);
                rounds.push(self.ended(k, &mut lane_times));
            }
        }
        Phase {
            messages: self.starts.iter().map(|(sent, received)| *sent.max(received)).max().unwrap_or(0),
            time: lane_times.into_iter().fold(0.0, f64::max),
            rounds,
        }
    }

    fn collect(&mut self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>) {
        self.ops.clear();
        self.schedule.emit(rank, phase, lane, rounds, &mut self.ops);
        let places = Places { schedule: self.schedule, layouts: &self.layouts[rank as usize], rank };
        let (mut sent, mut volume) = (0, 0);
        for (ops, Loading { round, messages, .. }) in self.ops.iter().zip(&mut self.batch) {
            for op in ops {
                if let Op::Send { to, part } = *op {
                    let elements = self.lengths.of(places, part);
                    messages.push(Message { from: rank, to, lane, elements });
                    self.starts[to as usize].1 += 1;
                    (sent, volume) = (sent + 1, volume + elements as u64);
                    round.messages += 1;
                    round.size = round.size.max(elements);
                }
            }
        }
        self.kept += sent as usize;
        self.starts[rank as usize].0 += sent;
        let of_rank = &mut self.sent[rank as usize];
        *of_rank = (of_rank.0 + sent, of_rank.1 + volume);
    }

    /// Loads the links with the messages that a round has kept, and forgets these.
    fn load(&mut self, k: usize, ties: &[Tie]) {
        let Loading { round, messages, loads, passed } = &mut self.batch[k];
        if messages.is_empty() {
            return;
        }
        self.kept -= messages.len();
        if loads.is_empty() {
            let new = || vec![Load::default(); self.ways.links() as usize];
            *loads = self.unused.pop().unwrap_or_else(new);
        }
        for Message { from, to, lane, elements } in messages.drain(..) {
            let (mut hops, elements, mark) = (0, elements as f64, lane + 1);
            self.ways.route(from, to, ties[lane as usize], |link| {
                let load = &mut loads[link as usize];
                load.elements += elements;
                if load.lane != mark {
                    load.lane = mark;
                    passed.push((lane, link));
                }
                hops += 1;
            });
            round.hops = round.hops.max(hops);
        }
    }

    /// All messages of a round are loaded: looks what their ways have to carry, lane by lane.
    fn ended(&mut self, k: usize, lane_times: &mut [f64]) -> Round {
        let Loading { round, loads, passed, .. } = &mut self.batch[k];
        let mut round = std::mem::take(round);
        let mut lane_time = 0.0f64;
        for (at, &(lane, link)) in passed.iter().enumerate() {
            lane_time = lane_time.max(loads[link as usize].elements / self.ways.capacity(link));
            if passed.get(at + 1).is_none_or(|(next, _)| *next != lane) {
                lane_times[lane as usize] += lane_time;
                round.time = round.time.max(lane_time);
                lane_time = 0.0;
            }
        }
        passed.drain(..).for_each(|(_, link)| loads[link as usize] = Load::default());
        if !loads.is_empty() {
            self.unused.push(std::mem::take(loads));
        }
        round
    }
}
