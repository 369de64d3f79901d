//! Shared by the tests: exchange plans with known results, and the reactors that run them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use treepie_base::Bytes;
use treepie_model::PaperMachine;
use treepie_sim::costs::SharedMemoryCosts;
use treepie_sim::noise::SplitMix64;
use treepie_sim::{Settings, reactors};
use treepie_sparse::{
    ExchangeProtocol, ExchangeReactor, ExchangeRoutes, ExchangeSequence, Microbenchmark, NextExchange,
    ReactorCapabilities, RingPosition, TrafficSummary,
};
use treepie_topology::Network;

/// Whether the full range is requested.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The number of seeds.
pub(crate) fn seeds() -> u64 {
    if is_long_run() { 20_000 } else { 1000 }
}

/// The messages of all ranks, by round and rank: destination and bytes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: u32,
    pub(crate) rounds: Vec<Vec<Vec<(u32, usize)>>>,
}

impl Plan {
    /// Draws some rounds of random patterns.
    pub(crate) fn draw(random: &mut SplitMix64, ranks: u32) -> Self {
        let rounds = 2 + random.below(4);
        Self { ranks, rounds: (0..rounds).map(|_| draw_round(random, ranks)).collect() }
    }

    /// The destination and content of a message; the content depends on round, ranks and index alone.
    fn content(&self, round: u32, from: u32, index: usize) -> (u32, Bytes) {
        let (to, len) = self.rounds[round as usize][from as usize][index];
        let seed = [round, from, to, index as u32].into_iter().fold(1, |seed, part| {
            let mut random = SplitMix64::new(seed ^ u64::from(part));
            random.next_u64()
        });
        let mut random = SplitMix64::new(seed);
        (to, Bytes::from((0..len).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()))
    }

    /// The messages of a rank in a round.
    pub(crate) fn messages(&self, round: u32, rank: u32) -> Vec<(u32, Bytes)> {
        let count = self.rounds[round as usize][rank as usize].len();
        (0..count).map(|index| self.content(round, rank, index)).collect()
    }

    /// The messages all ranks must receive in a round, sorted by source and then in the order sent.
    fn expected(&self, round: u32) -> Vec<Vec<(u32, Bytes)>> {
        let mut expected: Vec<Vec<(u32, Bytes)>> = (0..self.ranks).map(|_| Vec::new()).collect();
        for from in 0..self.ranks {
            for (to, bytes) in self.messages(round, from) {
                expected[to as usize].push((from, bytes));
            }
        }
        expected
    }

    /// The maxima in the traffic summary that all ranks must have after a round.
    fn expected_summary(&self, round: u32) -> (Option<u64>, Option<u64>) {
        let all = &self.rounds[round as usize];
        let messages = all.iter().map(Vec::len).max().unwrap_or(0);
        let longest = all.iter().flatten().map(|(_, len)| *len).max().unwrap_or(0);
        let summary = TrafficSummary::new(messages, longest);
        (summary.max_neighbors(), summary.max_message_bytes())
    }

    /// Compares the results of all ranks with the plan.
    pub(crate) fn check(&self, results: &[RoundResults]) -> Result<(), String> {
        for round in 0..self.rounds.len() as u32 {
            let expected = self.expected(round);
            let first = results[0].borrow().get(round as usize).map(|result| result.summary);
            for (rank, (results, expected)) in results.iter().zip(expected).enumerate() {
                let results = results.borrow();
                let Some(result) = results.get(round as usize) else {
                    return Err(format!("round {round} did not complete on rank {rank}"));
                };
                let sources = |all: &[(u32, Bytes)]| -> Vec<(u32, usize)> {
                    all.iter().map(|(from, bytes)| (*from, bytes.as_slice().len())).collect()
                };
                let is_same = result.received.len() == expected.len()
                    && result
                        .received
                        .iter()
                        .zip(&expected)
                        .all(|(a, b)| a.0 == b.0 && a.1.as_slice() == b.1.as_slice());
                if !is_same {
                    let (received, expected) = (sources(&result.received), sources(&expected));
                    return Err(format!("round {round}: rank {rank} received {received:?} and not {expected:?}"));
                }
                let summary = (result.summary.max_neighbors(), result.summary.max_message_bytes());
                if Some(result.summary) != first || summary != self.expected_summary(round) {
                    return Err(format!("round {round}: rank {rank} has the traffic summary {:?}", result.summary));
                }
            }
        }
        let more = results.iter().position(|results| results.borrow().len() != self.rounds.len());
        more.map_or(Ok(()), |rank| Err(format!("rank {rank} had more rounds than there are")))
    }
}

fn draw_round(random: &mut SplitMix64, ranks: u32) -> Vec<Vec<(u32, usize)>> {
    let p = u64::from(ranks);
    let kind = random.below(6);
    let neighbors = random.below(p + 1).min(p - 1);
    let (one, count) = (random.below(p) as u32, random.below(2 * p));
    let longest = [1, 40, 40, 3000][random.below(4) as usize];
    let mut draw = |rank: u32| -> Vec<u32> {
        match kind {
            // k distinct destinations.
            0 | 1 => {
                let mut others: Vec<u32> = (0..ranks).filter(|other| *other != rank).collect();
                (0..neighbors).map(|_| others.swap_remove(random.below(others.len() as u64) as usize)).collect()
            }
            // All to one, some twice.
            2 => vec![one; 1 + random.below(2) as usize],
            // Few ranks send, to any rank including themselves, several messages to one.
            3 if random.below(4) > 0 => Vec::new(),
            3 => (0..count).map(|_| random.below(p) as u32).collect(),
            // A random number of messages.
            4 => (0..random.below(p + 1)).map(|_| random.below(p) as u32).collect(),
            // Nothing, or only messages to itself.
            _ if one % 2 == 0 => Vec::new(),
            _ => vec![rank; random.below(3) as usize],
        }
    };
    let targets: Vec<Vec<u32>> = (0..ranks).map(&mut draw).collect();
    let mut sized = |to: u32| (to, random.below(longest) as usize);
    targets.into_iter().map(|targets| targets.into_iter().map(&mut sized).collect()).collect()
}

/// The result of a round on one rank.
pub(crate) struct RoundResult {
    pub(crate) received: Vec<(u32, Bytes)>,
    pub(crate) summary: TrafficSummary,
    /// Bytes of protocol memory.
    pub(crate) memory: usize,
}

/// The results of a rank, by round.
pub(crate) type RoundResults = Rc<RefCell<Vec<RoundResult>>>;

/// Makes a reactor per rank that runs the plan, and the results they will fill. `begin` makes the exchange of a rank
/// and round, `rounds` a reactor of consecutive exchanges.
pub(crate) fn make_reactors<R>(
    plan: &Rc<Plan>,
    begin: impl Fn(RingPosition, Vec<(u32, Bytes)>) -> Box<dyn ExchangeReactor> + Clone + 'static,
    rounds: impl Fn(NextExchange) -> R,
) -> (Vec<R>, Vec<RoundResults>) {
    let one = |rank: u32| {
        let position = RingPosition { rank, ranks: plan.ranks };
        let results = RoundResults::default();
        let (plan, begin, into) = (plan.clone(), begin.clone(), results.clone());
        let next = move |round: u32, done: Option<Box<dyn ExchangeReactor>>| {
            if let Some(mut done) = done {
                let (memory, summary) = (done.memory(), done.traffic_summary());
                into.borrow_mut().push(RoundResult { received: done.buffers().take_sorted(), summary, memory });
            }
            ((round as usize) < plan.rounds.len()).then(|| begin(position, plan.messages(round, rank)))
        };
        (rounds(Box::new(next)), results)
    };
    (0..plan.ranks).map(one).unzip()
}

/// Starts exchanges with a protocol.
pub(crate) fn begin_with(
    protocol: ExchangeProtocol,
    capabilities: ReactorCapabilities,
    routes: ExchangeRoutes,
) -> impl Fn(RingPosition, Vec<(u32, Bytes)>) -> Box<dyn ExchangeReactor> + Clone + 'static {
    move |position, messages| protocol.begin(position, capabilities, &routes, messages)
}

/// The first failing seed, and its error.
pub(crate) fn first_failure(seeds: u64, check: impl Fn(u64) -> Result<(), String>) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| check(seed).err().map(|wrong| (seed, wrong)))
}

/// Result of the paper's microbenchmark on one of its machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchmarkResult {
    /// Microseconds per round.
    pub(crate) micros: f64,
    /// Bytes of protocol memory, maximum over ranks.
    pub(crate) memory: usize,
}

/// Neighbors in the paper's microbenchmark.
pub(crate) const NEIGHBORS: u32 = 6;

/// Simulates rounds of the microbenchmark with the machine's hardware barrier, if any, and its latency of synchronous
/// sends, with one rank on each host.
pub(crate) fn microbenchmark(
    protocol: ExchangeProtocol,
    machine: PaperMachine,
    ranks: u32,
    rounds: u32,
) -> BenchmarkResult {
    microbenchmark_on(protocol, machine, &Network::flat(ranks), SharedMemoryCosts::default(), rounds)
}

/// As [`microbenchmark`] on a network, with costs within its hosts.
pub(crate) fn microbenchmark_on(
    protocol: ExchangeProtocol,
    machine: PaperMachine,
    network: &Network,
    shared_memory: SharedMemoryCosts,
    rounds: u32,
) -> BenchmarkResult {
    let ranks = network.ranks();
    let benchmark = Rc::new(Microbenchmark::new(1, ranks, NEIGHBORS));
    let memory = Rc::new(Cell::new(0));
    let capabilities =
        ReactorCapabilities { barrier: machine.hardware_barrier().is_some(), ..ReactorCapabilities::default() };
    let routes = ExchangeRoutes::default();
    let rank = |rank: u32| {
        let (routes, benchmark, memory) = (routes.clone(), benchmark.clone(), memory.clone());
        let next = move |round: u32, done: Option<Box<dyn ExchangeReactor>>| {
            memory.set(memory.get().max(done.map_or(0, |done| done.memory())));
            let zeros = |(to, length)| (to, Bytes::zeroed(length, 1));
            let messages = || benchmark.messages(rank, round).into_iter().map(zeros).collect();
            (round < rounds).then(|| protocol.begin(RingPosition { rank, ranks }, capabilities, &routes, messages()))
        };
        ExchangeSequence::new(Box::new(next))
    };
    let settings = Settings {
        barrier_time: machine.hardware_barrier().unwrap_or(0.0),
        shared_memory,
        handshake: machine.handshake().expect("the paper measured it"),
        ..machine.loggp().expect("the paper measured it").into()
    };
    let result = reactors::run(network, &settings, (0..ranks).map(rank).collect(), 0.0);
    let result = result.unwrap_or_else(|error| panic!("{protocol} on {ranks} ranks: {error}"));
    BenchmarkResult { micros: result.micros() / f64::from(rounds), memory: memory.get() }
}
