//! What the tests share: exchanges of which it is known what must come, and worlds of reactors that do them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use treepie_base::Bytes;
use treepie_model::Machine;
use treepie_sim::costs::Handshake;
use treepie_sim::noise::Random;
use treepie_sim::{Settings, reactors};
use treepie_sparse::{Census, Exchange, Means, Microbenchmark, Next, Place, Protocol, Rounds};
use treepie_topology::Network;

/// Whether the full range is asked for.
pub(crate) fn long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// How many seeds.
pub(crate) fn seeds() -> u64 {
    if long() { 20_000 } else { 1000 }
}

/// What ranks send, by round and rank: to whom, and how many bytes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: u32,
    pub(crate) rounds: Vec<Vec<Vec<(u32, usize)>>>,
}

impl Plan {
    /// Some rounds of patterns of all kinds.
    pub(crate) fn draw(random: &mut Random, ranks: u32) -> Self {
        let rounds = 2 + random.below(4);
        Self { ranks, rounds: (0..rounds).map(|_| draw_round(random, ranks)).collect() }
    }

    /// What a message says: it follows from where it belongs.
    fn content(&self, round: u32, from: u32, place: usize) -> (u32, Bytes) {
        let (to, len) = self.rounds[round as usize][from as usize][place];
        let seed = [round, from, to, place as u32].into_iter().fold(1, |seed, part| {
            let mut random = Random::new(seed ^ u64::from(part));
            random.word()
        });
        let mut random = Random::new(seed);
        (to, Bytes::from((0..len).map(|_| random.word() as u8).collect::<Vec<u8>>()))
    }

    /// What a rank sends in a round.
    pub(crate) fn messages(&self, round: u32, rank: u32) -> Vec<(u32, Bytes)> {
        let count = self.rounds[round as usize][rank as usize].len();
        (0..count).map(|place| self.content(round, rank, place)).collect()
    }

    /// What all ranks must get in a round: source and bytes, in the order of sources and then as they were sent.
    fn expected(&self, round: u32) -> Vec<Vec<(u32, Bytes)>> {
        let mut expected: Vec<Vec<(u32, Bytes)>> = (0..self.ranks).map(|_| Vec::new()).collect();
        for from in 0..self.ranks {
            for (to, bytes) in self.messages(round, from) {
                expected[to as usize].push((from, bytes));
            }
        }
        expected
    }

    /// The census that all ranks must have of a round, as far as it can be read.
    fn census(&self, round: u32) -> (Option<u64>, Option<u64>) {
        let all = &self.rounds[round as usize];
        let messages = all.iter().map(Vec::len).max().unwrap_or(0);
        let longest = all.iter().flatten().map(|(_, len)| *len).max().unwrap_or(0);
        let census = Census::of(messages, longest);
        (census.neighbours(), census.longest())
    }

    /// Whether what ranks have got is what they must have got.
    pub(crate) fn check(&self, got: &[Got]) -> Result<(), String> {
        for round in 0..self.rounds.len() as u32 {
            let expected = self.expected(round);
            let first = got[0].borrow().get(round as usize).map(|got| got.census);
            for (rank, (got, expected)) in got.iter().zip(expected).enumerate() {
                let got = got.borrow();
                let Some(got) = got.get(round as usize) else {
                    return Err(format!("round {round} of rank {rank} did not end"));
                };
                let sources = |all: &[(u32, Bytes)]| -> Vec<(u32, usize)> {
                    all.iter().map(|(from, bytes)| (*from, bytes.as_slice().len())).collect()
                };
                let is_same = got.received.len() == expected.len()
                    && got.received.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && a.1.as_slice() == b.1.as_slice());
                if !is_same {
                    let (got, expected) = (sources(&got.received), sources(&expected));
                    return Err(format!("round {round}: rank {rank} got {got:?} and not {expected:?}"));
                }
                let census = (got.census.neighbours(), got.census.longest());
                if Some(got.census) != first || census != self.census(round) {
                    return Err(format!("round {round}: rank {rank} has the census {:?}", got.census));
                }
            }
        }
        let more = got.iter().position(|got| got.borrow().len() != self.rounds.len());
        more.map_or(Ok(()), |rank| Err(format!("rank {rank} had more rounds than there are")))
    }
}

fn draw_round(random: &mut Random, ranks: u32) -> Vec<Vec<(u32, usize)>> {
    let p = u64::from(ranks);
    let kind = random.below(6);
    let neighbours = random.below(p + 1).min(p - 1);
    let (one, count) = (random.below(p) as u32, random.below(2 * p));
    let longest = [1, 40, 40, 3000][random.below(4) as usize];
    let mut draw = |rank: u32| -> Vec<u32> {
        match kind {
            // k different others.
            0 | 1 => {
                let mut others: Vec<u32> = (0..ranks).filter(|other| *other != rank).collect();
                (0..neighbours).map(|_| others.swap_remove(random.below(others.len() as u64) as usize)).collect()
            }
            // All to one, some twice.
            2 => vec![one; 1 + random.below(2) as usize],
            // Few send at all, to anybody, also to themselves, several to one.
            3 if random.below(4) > 0 => Vec::new(),
            3 => (0..count).map(|_| random.below(p) as u32).collect(),
            // Each as many as it likes.
            4 => (0..random.below(p + 1)).map(|_| random.below(p) as u32).collect(),
            // Nothing, or only to oneself.
            _ if one % 2 == 0 => Vec::new(),
            _ => vec![rank; random.below(3) as usize],
        }
    };
    let targets: Vec<Vec<u32>> = (0..ranks).map(&mut draw).collect();
    let mut sized = |to: u32| (to, random.below(longest) as usize);
    targets.into_iter().map(|targets| targets.into_iter().map(&mut sized).collect()).collect()
}

/// What a rank has got in a round.
pub(crate) struct Round {
    pub(crate) received: Vec<(u32, Bytes)>,
    pub(crate) census: Census,
    /// What the protocol held.
    pub(crate) memory: usize,
}

/// What a rank has got, round by round.
pub(crate) type Got = Rc<RefCell<Vec<Round>>>;

/// A reactor for each rank that does the plan, and where each puts what it has got. `begin` makes the exchange of a rank
/// and round, `rounds` a reactor of exchanges that follow each other.
pub(crate) fn world<R>(
    plan: &Rc<Plan>,
    begin: impl Fn(Place, Vec<(u32, Bytes)>) -> Box<dyn Exchange> + Clone + 'static,
    rounds: impl Fn(Next) -> R,
) -> (Vec<R>, Vec<Got>) {
    let one = |rank: u32| {
        let at = Place { rank, ranks: plan.ranks };
        let got = Got::default();
        let (plan, begin, into) = (plan.clone(), begin.clone(), got.clone());
        let next = move |round: u32, done: Option<Box<dyn Exchange>>| {
            if let Some(mut done) = done {
                let (memory, census) = (done.memory(), done.census());
                into.borrow_mut().push(Round { received: done.post().take_sorted(), census, memory });
            }
            ((round as usize) < plan.rounds.len()).then(|| begin(at, plan.messages(round, rank)))
        };
        (rounds(Box::new(next)), got)
    };
    (0..plan.ranks).map(one).unzip()
}

/// Exchanges by a protocol.
pub(crate) fn by(
    protocol: Protocol,
    means: Means,
) -> impl Fn(Place, Vec<(u32, Bytes)>) -> Box<dyn Exchange> + Clone + 'static {
    move |at, messages| protocol.begin(at, means, messages)
}

/// The first seed that goes wrong, and how.
pub(crate) fn first_wrong(seeds: u64, check: impl Fn(u64) -> Result<(), String>) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| check(seed).err().map(|wrong| (seed, wrong)))
}

/// What came out of the paper's microbenchmark on a machine of the paper's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Of a round, in microseconds.
    pub(crate) micros: f64,
    /// Bytes of the protocol on the rank that had most.
    pub(crate) memory: usize,
}

/// Neighbours in the paper's microbenchmark.
pub(crate) const NEIGHBOURS: u32 = 6;

/// Simulates some rounds of the microbenchmark, with the machine's own barrier if it has one, and its latency of synchronous
/// messages.
pub(crate) fn microbenchmark(protocol: Protocol, machine: Machine, ranks: u32, rounds: u32) -> Seen {
    let benchmark = Rc::new(Microbenchmark::new(1, ranks, NEIGHBOURS));
    let memory = Rc::new(Cell::new(0));
    let means = Means { barrier: machine.hardware_barrier().is_some(), ..Means::default() };
    let rank = |rank: u32| {
        let (benchmark, memory) = (benchmark.clone(), memory.clone());
        let next = move |round: u32, done: Option<Box<dyn Exchange>>| {
            memory.set(memory.get().max(done.map_or(0, |done| done.memory())));
            let zeros = |(to, length)| (to, Bytes::zeroed(length, 1));
            let messages = || benchmark.messages(rank, round).into_iter().map(zeros).collect();
            (round < rounds).then(|| protocol.begin(Place { rank, ranks }, means, messages()))
        };
        Rounds::new(Box::new(next))
    };
    let (latency, _) = machine.synchronous().expect("it was measured");
    let settings = Settings {
        barrier: machine.hardware_barrier().unwrap_or(0.0),
        handshake: Handshake::Latency(latency),
        ..machine.loggp().expect("it was measured").into()
    };
    let ran = reactors::run(&Network::flat(ranks), &settings, (0..ranks).map(rank).collect(), 0.0);
    let ran = ran.unwrap_or_else(|error| panic!("{protocol} on {ranks} ranks: {error}"));
    Seen { micros: ran.micros() / f64::from(rounds), memory: memory.get() }
}
