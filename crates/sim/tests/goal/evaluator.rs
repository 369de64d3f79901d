//! How long a GOAL program takes in LogGP, by the rules that the simulator states, worked out another way: operation by
//! operation over an ordered map of what is due, in floating point. Each of o, L, g, (m - 1) G and t is a whole number of
//! picoseconds, the nearest one.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::parser::{Action, Program};

/// In picoseconds; gamma for a unit of `calc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) latency: f64,
    pub(crate) overhead: f64,
    pub(crate) gap: f64,
    pub(crate) per_byte: f64,
    pub(crate) gamma: f64,
}

enum Due {
    Ended { rank: usize, operation: usize },
    Arrived { from: usize, to: usize, tag: u32, bytes: u64 },
    In { from: usize, to: usize, tag: u32, bytes: u64 },
}

#[derive(Clone, Default)]
struct Node {
    cpu: f64,
    next_out: f64,
    last_in: Option<f64>,
    posted: HashMap<(usize, u32), VecDeque<usize>>,
    /// Bytes of each.
    unexpected: HashMap<(usize, u32), VecDeque<u64>>,
}

struct Evaluation<'a> {
    program: &'a Program,
    parameters: Parameters,
    nodes: Vec<Node>,
    waits_for: Vec<Vec<usize>>,
    /// By the bits of the time, which order as times from 0 on do, and then by number.
    due: BTreeMap<(u64, u64), Due>,
    number: u64,
    last: f64,
    ended: usize,
}

pub(crate) fn makespan(program: &Program, parameters: Parameters) -> f64 {
    let Parameters { latency, overhead, gap, .. } = parameters;
    let parameters =
        Parameters { latency: latency.round(), overhead: overhead.round(), gap: gap.round(), ..parameters };
    let waits_for: Vec<Vec<usize>> =
        program.ranks.iter().map(|rank| rank.iter().map(|operation| operation.waits_for).collect()).collect();
    let nodes = vec![Node::default(); program.ranks.len()];
    let mut evaluation =
        Evaluation { program, parameters, nodes, waits_for, due: BTreeMap::new(), number: 0, last: 0.0, ended: 0 };
    for rank in 0..program.ranks.len() {
        for operation in 0..program.ranks[rank].len() {
            if program.ranks[rank][operation].waits_for == 0 {
                evaluation.ready(0.0, rank, operation);
            }
        }
    }
    while let Some(((bits, _), due)) = evaluation.due.pop_first() {
        let now = f64::from_bits(bits);
        match due {
            Due::Ended { rank, operation } => evaluation.ended(now, rank, operation),
            Due::Arrived { from, to, tag, bytes } => {
                let spacing = evaluation.spacing(bytes);
                let inside = evaluation.nodes[to].last_in.map_or(now, |last| now.max(last + spacing));
                evaluation.nodes[to].last_in = Some(inside);
                if inside > now {
                    evaluation.put(inside, Due::In { from, to, tag, bytes });
                } else {
                    evaluation.inside(now, from, (to, tag), bytes);
                }
            }
            Due::In { from, to, tag, bytes } => evaluation.inside(now, from, (to, tag), bytes),
        }
    }
    assert_eq!(evaluation.ended, program.ranks.iter().map(Vec::len).sum::<usize>(), "all operations come to their end");
    evaluation.last
}

impl Evaluation<'_> {
    fn put(&mut self, at: f64, due: Due) {
        self.due.insert((at.to_bits(), self.number), due);
        self.number += 1;
    }

    fn body(&self, bytes: u64) -> f64 {
        ((bytes.max(1) - 1) as f64 * self.parameters.per_byte).round()
    }

    fn spacing(&self, bytes: u64) -> f64 {
        self.parameters.overhead.max(self.parameters.gap) + self.body(bytes)
    }

    fn one_less(&mut self, now: f64, rank: usize, operation: usize) {
        self.waits_for[rank][operation] -= 1;
        if self.waits_for[rank][operation] == 0 {
            self.ready(now, rank, operation);
        }
    }

    fn ready(&mut self, now: f64, rank: usize, operation: usize) {
        match self.program.ranks[rank][operation].action {
            Action::Send { to, bytes, tag } => {
                // First the interface, then what may follow at once if the CPU has nothing to do.
                let begin = self.begin(now, rank, self.parameters.overhead);
                let taken = begin.max(self.nodes[rank].next_out);
                self.nodes[rank].next_out = taken + self.spacing(bytes);
                let arrival = taken + self.parameters.overhead + self.parameters.latency + self.body(bytes);
                self.put(arrival, Due::Arrived { from: rank, to, tag, bytes });
                self.occupy(now, rank, operation, self.parameters.overhead);
            }
            Action::Recv { from, tag, bytes } => {
                let there = self.nodes[rank].unexpected.get_mut(&(from, tag)).and_then(VecDeque::pop_front);
                if let Some(sent) = there {
                    assert_eq!(sent, bytes, "rank {rank} receives what {from} sends with tag {tag}");
                    self.occupy(now, rank, operation, self.parameters.overhead);
                } else {
                    self.nodes[rank].posted.entry((from, tag)).or_default().push_back(operation);
                }
            }
            Action::Calc { units } => {
                self.occupy(now, rank, operation, (units as f64 * self.parameters.gamma).round());
            }
        }
    }

    fn inside(&mut self, now: f64, from: usize, (to, tag): (usize, u32), sent: u64) {
        match self.nodes[to].posted.get_mut(&(from, tag)).and_then(VecDeque::pop_front) {
            Some(operation) => {
                let Action::Recv { bytes, .. } = self.program.ranks[to][operation].action else {
                    unreachable!("only receives are posted")
                };
                assert_eq!(sent, bytes, "rank {to} receives what {from} sends with tag {tag}");
                self.occupy(now, to, operation, self.parameters.overhead);
            }
            None => self.nodes[to].unexpected.entry((from, tag)).or_default().push_back(sent),
        }
    }

    /// When something begins on the CPU: what takes no time does not wait.
    fn begin(&self, now: f64, rank: usize, duration: f64) -> f64 {
        if duration == 0.0 { now } else { now.max(self.nodes[rank].cpu) }
    }

    /// An operation takes the CPU; it is over at once if it takes no time.
    fn occupy(&mut self, now: f64, rank: usize, operation: usize, duration: f64) {
        let begin = self.begin(now, rank, duration);
        if duration > 0.0 {
            self.nodes[rank].cpu = begin + duration;
            self.put(begin + duration, Due::Ended { rank, operation });
        }
        for &next in &self.program.ranks[rank][operation].after_begin {
            self.one_less(begin, rank, next);
        }
        if duration == 0.0 {
            self.ended(now, rank, operation);
        }
    }

    fn ended(&mut self, now: f64, rank: usize, operation: usize) {
        self.last = self.last.max(now);
        self.ended += 1;
        for &next in &self.program.ranks[rank][operation].after_end {
            self.one_less(now, rank, next);
        }
    }
}
