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

use std::ops::Range;

use treepie_topology::{Network, Tie};

use crate::layout::{Layouts, Places};
use crate::op::{Op, Part, Rounds};
use crate::schedule::Schedule;

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

struct Message {
    from: u32,
    to: u32,
    lane: u32,
    elements: usize,
}

/// Counts a schedule whose blocks have these lengths, on a network of as many ranks.
///
/// Memory: 32 bytes for each message of eight rounds, and 4 for each link that one round's messages pass.
pub fn count(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, network: &Network) -> Count {
    assert_eq!(schedule.ranks(), network.ranks(), "a schedule is counted on a network of as many ranks");
    let layouts: Vec<Layouts> = (0..schedule.ranks()).map(layouts).collect();
    let mut counter = Counter {
        schedule,
        lengths: Lengths::new(&layouts),
        layouts,
        network,
        loads: vec![0.0; network.links() as usize],
        sent: vec![(0, 0); schedule.ranks() as usize],
        messages: std::array::from_fn(|_| Vec::new()),
        ops: Rounds::new(),
        ways: Vec::new(),
        links: Vec::new(),
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

struct Counter<'a> {
    schedule: &'a dyn Schedule,
    layouts: Vec<Layouts>,
    lengths: Lengths,
    network: &'a Network,
    /// Elements on each link in this round.
    loads: Vec<f64>,
    /// Messages and elements that each rank has sent.
    sent: Vec<(u64, u64)>,
    /// Those of the rounds that were asked for together.
    messages: [Vec<Message>; BATCH as usize],
    ops: Rounds,
    /// Of the messages of a round: the lane, and where its links end in `links`.
    ways: Vec<(u32, u32)>,
    links: Vec<u32>,
}

impl Counter<'_> {
    fn phase(&mut self, phase: u32) -> Phase {
        let lanes = self.schedule.phase(phase).lanes;
        let ranks = self.schedule.ranks();
        let mut starts = vec![(0u64, 0u64); ranks as usize];
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
                }
            }
            if last == first {
                break;
            }
            for k in 0..(last - first) as usize {
                let messages = std::mem::take(&mut self.messages[k]);
                for message in &messages {
                    starts[message.from as usize].0 += 1;
                    starts[message.to as usize].1 += 1;
                    let (count, volume) = &mut self.sent[message.from as usize];
                    (*count, *volume) = (*count + 1, *volume + message.elements as u64);
                }
                rounds.push(self.round(phase, &messages, &mut lane_times));
                self.messages[k] = messages;
                self.messages[k].clear();
            }
        }
        Phase {
            messages: starts.iter().map(|(sent, received)| *sent.max(received)).max().unwrap_or(0),
            time: lane_times.into_iter().fold(0.0, f64::max),
            rounds,
        }
    }

    fn collect(&mut self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>) {
        self.ops.clear();
        self.schedule.emit(rank, phase, lane, rounds, &mut self.ops);
        let places = Places { schedule: self.schedule, layouts: &self.layouts[rank as usize], rank };
        for (ops, messages) in self.ops.iter().zip(&mut self.messages) {
            for op in ops {
                if let Op::Send { to, part } = *op {
                    messages.push(Message { from: rank, to, lane, elements: self.lengths.of(places, part) });
                }
            }
        }
    }

    /// Loads the links with all messages of a round, and looks what each message's way has to carry.
    fn round(&mut self, phase: u32, messages: &[Message], lane_times: &mut [f64]) -> Round {
        let mut round = Round { messages: messages.len() as u64, ..Round::default() };
        self.ways.clear();
        self.links.clear();
        let ties: Vec<Tie> = (0..lane_times.len() as u32).map(|lane| self.schedule.tie(phase, lane)).collect();
        for message in messages {
            let before = self.links.len();
            self.network.route(message.from, message.to, ties[message.lane as usize], |link| {
                self.loads[link as usize] += message.elements as f64;
                self.links.push(link);
            });
            round.hops = round.hops.max((self.links.len() - before) as u32);
            round.size = round.size.max(message.elements);
            self.ways.push((message.lane, self.links.len() as u32));
        }
        let mut times = vec![0.0f64; lane_times.len()];
        let mut begin = 0;
        for &(lane, end) in &self.ways {
            for &link in &self.links[begin as usize..end as usize] {
                let time = self.loads[link as usize] / self.network.capacity(link);
                times[lane as usize] = times[lane as usize].max(time);
            }
            begin = end;
        }
        for &link in &self.links {
            self.loads[link as usize] = 0.0;
        }
        for (total, time) in lane_times.iter_mut().zip(times) {
            *total += time;
            round.time = round.time.max(time);
        }
        round
    }
}

/// Lengths of parts that were asked for lately. A part that is scattered takes long to measure, and is sent by many.
struct Lengths {
    /// Empty if ranks have different layouts.
    known: Vec<(Part, usize)>,
}

impl Lengths {
    const KNOWN: usize = 1 << 14;

    fn new(layouts: &[Layouts]) -> Self {
        let all_same = layouts.windows(2).all(|two| two[0] == two[1]);
        Self { known: if all_same { vec![(Part::NOTHING, 0); Self::KNOWN] } else { Vec::new() } }
    }

    fn of(&mut self, places: Places<'_>, part: Part) -> usize {
        // Blocks in their own order are measured at once.
        if part.len < 2 || part.view == 0 && part.of == 1 || self.known.is_empty() {
            return places.len(part);
        }
        let key =
            u64::from(part.lo) << 32 ^ u64::from(part.seg) << 16 ^ u64::from(part.view) << 8 ^ u64::from(part.len);
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % Self::KNOWN;
        if self.known[slot].0 != part {
            self.known[slot] = (part, places.len(part));
        }
        self.known[slot].1
    }
}
