//! The makespan of a GOAL program in LogGP, by the simulator's rules but computed independently: operation by operation
//! over an ordered map of events, in floating point. Each of o, L, g, (m - 1) G and t is rounded to whole picoseconds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::parser::{Action, Program};

/// LogGP parameters in picoseconds; gamma per unit of `calc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) latency: f64,
    pub(crate) overhead: f64,
    pub(crate) gap: f64,
    pub(crate) per_byte: f64,
    pub(crate) gamma: f64,
}

enum GoalEvent {
    Ended { rank: usize, operation: usize },
    Arrived { from: usize, to: usize, tag: u32, bytes: u64 },
    Received { from: usize, to: usize, tag: u32, bytes: u64 },
}

#[derive(Clone, Default)]
struct RankState {
    cpu: f64,
    next_out: f64,
    last_in: Option<f64>,
    posted: HashMap<(usize, u32), VecDeque<usize>>,
    /// Bytes of unexpected messages.
    unexpected: HashMap<(usize, u32), VecDeque<u64>>,
}

struct Evaluation<'a> {
    program: &'a Program,
    parameters: Parameters,
    nodes: Vec<RankState>,
    dependencies: Vec<Vec<usize>>,
    /// By the bits of the time, which order like non-negative times, and then by number.
    event_queue: BTreeMap<(u64, u64), GoalEvent>,
    number: u64,
    last: f64,
    num_completed: usize,
}

pub(crate) fn makespan(program: &Program, parameters: Parameters) -> f64 {
    let Parameters { latency, overhead, gap, .. } = parameters;
    let parameters =
        Parameters { latency: latency.round(), overhead: overhead.round(), gap: gap.round(), ..parameters };
    let dependencies: Vec<Vec<usize>> =
        program.ranks.iter().map(|rank| rank.iter().map(|operation| operation.dependencies).collect()).collect();
    let nodes = vec![RankState::default(); program.ranks.len()];
    let mut evaluation = Evaluation {
        program,
        parameters,
        nodes,
        dependencies,
        event_queue: BTreeMap::new(),
        number: 0,
        last: 0.0,
        num_completed: 0,
    };
    for rank in 0..program.ranks.len() {
        for operation in 0..program.ranks[rank].len() {
            if program.ranks[rank][operation].dependencies == 0 {
                evaluation.start_ready(0.0, rank, operation);
            }
        }
    }
    while let Some(((bits, _), event)) = evaluation.event_queue.pop_first() {
        let now = f64::from_bits(bits);
        match event {
            GoalEvent::Ended { rank, operation } => evaluation.on_completed(now, rank, operation),
            GoalEvent::Arrived { from, to, tag, bytes } => {
                let interval = evaluation.message_interval(bytes);
                let admitted = evaluation.nodes[to].last_in.map_or(now, |last| now.max(last + interval));
                evaluation.nodes[to].last_in = Some(admitted);
                if admitted > now {
                    evaluation.schedule_event(admitted, GoalEvent::Received { from, to, tag, bytes });
                } else {
                    evaluation.on_received(now, from, (to, tag), bytes);
                }
            }
            GoalEvent::Received { from, to, tag, bytes } => evaluation.on_received(now, from, (to, tag), bytes),
        }
    }
    assert_eq!(evaluation.num_completed, program.ranks.iter().map(Vec::len).sum::<usize>(), "all operations complete");
    evaluation.last
}

impl Evaluation<'_> {
    fn schedule_event(&mut self, at: f64, event: GoalEvent) {
        self.event_queue.insert((at.to_bits(), self.number), event);
        self.number += 1;
    }

    fn byte_time(&self, bytes: u64) -> f64 {
        ((bytes.max(1) - 1) as f64 * self.parameters.per_byte).round()
    }

    fn message_interval(&self, bytes: u64) -> f64 {
        self.parameters.overhead.max(self.parameters.gap) + self.byte_time(bytes)
    }

    fn satisfy_dependency(&mut self, now: f64, rank: usize, operation: usize) {
        self.dependencies[rank][operation] -= 1;
        if self.dependencies[rank][operation] == 0 {
            self.start_ready(now, rank, operation);
        }
    }

    fn start_ready(&mut self, now: f64, rank: usize, operation: usize) {
        match self.program.ranks[rank][operation].action {
            Action::Send { to, bytes, tag } => {
                // First the interface, then the CPU and what depends on it.
                let begin = self.begin(now, rank, self.parameters.overhead);
                let injected = begin.max(self.nodes[rank].next_out);
                self.nodes[rank].next_out = injected + self.message_interval(bytes);
                let arrival = injected + self.parameters.overhead + self.parameters.latency + self.byte_time(bytes);
                self.schedule_event(arrival, GoalEvent::Arrived { from: rank, to, tag, bytes });
                self.occupy(now, rank, operation, self.parameters.overhead);
            }
            Action::Recv { from, tag, bytes } => {
                let unexpected = self.nodes[rank].unexpected.get_mut(&(from, tag)).and_then(VecDeque::pop_front);
                if let Some(sent) = unexpected {
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

    fn on_received(&mut self, now: f64, from: usize, (to, tag): (usize, u32), sent: u64) {
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

    /// When an operation begins on the CPU: one of zero duration does not wait.
    fn begin(&self, now: f64, rank: usize, duration: f64) -> f64 {
        if duration == 0.0 { now } else { now.max(self.nodes[rank].cpu) }
    }

    /// Occupies the CPU with an operation; one of zero duration completes at once.
    fn occupy(&mut self, now: f64, rank: usize, operation: usize, duration: f64) {
        let begin = self.begin(now, rank, duration);
        if duration > 0.0 {
            self.nodes[rank].cpu = begin + duration;
            self.schedule_event(begin + duration, GoalEvent::Ended { rank, operation });
        }
        for &next in &self.program.ranks[rank][operation].irequired_by {
            self.satisfy_dependency(begin, rank, next);
        }
        if duration == 0.0 {
            self.on_completed(now, rank, operation);
        }
    }

    fn on_completed(&mut self, now: f64, rank: usize, operation: usize) {
        self.last = self.last.max(now);
        self.num_completed += 1;
        for &next in &self.program.ranks[rank][operation].required_by {
            self.satisfy_dependency(now, rank, next);
        }
    }
}
