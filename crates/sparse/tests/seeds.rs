//! Protocols in the simulator, where each seed draws protocol, ranks, patterns, delays and slow ranks: nothing is lost, comes
//! twice or in another round, and everything ends. Two faults that protocols could have are found in the same way.

mod common;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use common::{Plan, by, first_wrong, seeds, world};
use treepie_base::Bytes;
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};
use treepie_sim::costs::{Handshake, LogGP};
use treepie_sim::noise::{Noise, Random};
use treepie_sim::{Settings, reactors};
use treepie_sparse::{Census, Exchange, Means, Next, Place, Post, Protocol, Rounds};
use treepie_topology::Network;

/// Those that run where there is no more than a barrier.
const PROTOCOLS: [Protocol; 6] =
    [Protocol::Pex, Protocol::Pcx, Protocol::Rsx, Protocol::Nbx, Protocol::NbxAllChannels, Protocol::Crystal];

struct Case {
    protocol: Protocol,
    means: Means,
    plan: Rc<Plan>,
    settings: Settings,
    handler: f64,
}

impl Case {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let protocol = PROTOCOLS[random.below(PROTOCOLS.len() as u64) as usize];
        let ranks = 2 + random.below(15) as u32;
        let plan = Rc::new(Plan::draw(&mut random, ranks));
        let barrier = random.below(2) == 0;
        let mut up_to = |most: f64| random.unit() * most;
        let costs = LogGP { latency: up_to(20.0), overhead: up_to(3.0), gap: up_to(4.0), per_byte: up_to(0.02) };
        let (barrier_time, synchronous, handler) = (up_to(10.0), costs.latency + up_to(30.0), up_to(5.0));
        let handshake = if random.below(2) == 0 { Handshake::Answers } else { Handshake::Latency(synchronous) };
        let jitter = [0.0, 5.0, 100.0, 2000.0][random.below(4) as usize];
        let slow = random.below(3);
        let slow_ranks = (0..slow).map(|_| (random.below(ranks.into()) as u32, 1.0 + 200.0 * random.unit()));
        let noise = Noise { seed, jitter, slow_ranks: slow_ranks.collect(), ..Noise::default() };
        let handler = if random.below(2) == 0 { handler } else { 0.0 };
        let settings = Settings { noise, barrier: barrier_time, handshake, ..costs.into() };
        let means = Means { barrier, ..Means::default() };
        Self { protocol, means, plan, settings, handler }
    }

    fn run<R: Reactor>(
        &self,
        begin: impl Fn(Place, Vec<(u32, Bytes)>) -> Box<dyn Exchange> + Clone + 'static,
        rounds: impl Fn(Next) -> R,
    ) -> Result<(), String> {
        let (ranks, got) = world(&self.plan, begin, rounds);
        let ran = reactors::run(&Network::flat(self.plan.ranks), &self.settings, ranks, self.handler);
        ran.map_err(|error| error.to_string())
            .and_then(|_| self.plan.check(&got))
            .map_err(|wrong| format!("{self}: {wrong}"))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { protocol, means, plan, settings, .. } = self;
        let (ranks, rounds) = (plan.ranks, plan.rounds.len());
        let barrier = if means.barrier { " with a barrier" } else { "" };
        write!(f, "{protocol}{barrier}, {ranks} ranks, {rounds} rounds, jitter {} us", settings.noise.jitter)
    }
}

#[test]
fn nothing_is_lost_doubled_or_late_whatever_the_delays() {
    let wrong = first_wrong(seeds(), |seed| {
        let case = Case::draw(seed);
        case.run(by(case.protocol, case.means), Rounds::new)
    });
    assert!(wrong.is_none(), "seed {}: {}", wrong.as_ref().unwrap().0, wrong.as_ref().unwrap().1);
}

#[test]
fn seeds_draw_everything() {
    let cases: Vec<Case> = (0..1000).map(Case::draw).collect();
    let mut kinds = BTreeMap::new();
    for case in &cases {
        *kinds.entry((case.protocol, case.means.barrier, case.plan.ranks)).or_insert(0) += 1;
    }
    assert!(kinds.len() > 6 * 2 * 15 * 9 / 10, "{}", kinds.len());
    let rounds = || cases.iter().flat_map(|case| &case.plan.rounds);
    let empty = rounds().filter(|round| round.iter().all(Vec::is_empty)).count();
    assert!(empty > 100, "{empty}");
    let is_own = |(rank, sent): (usize, &Vec<(u32, usize)>)| sent.iter().all(|(to, _)| *to as usize == rank);
    let own = rounds().filter(|round| round.iter().enumerate().all(is_own)).count();
    assert!(own > empty + 50, "{own}");
    let to_all = rounds().filter(|round| round.iter().all(|sent| sent.len() + 1 == round.len())).count();
    assert!(to_all > 50, "{to_all}");
    let twice =
        |sent: &Vec<(u32, usize)>| sent.iter().enumerate().any(|(at, it)| sent[..at].iter().any(|o| o.0 == it.0));
    assert!(rounds().filter(|round| round.iter().any(twice)).count() > 500);
    for jitter in [0.0, 5.0, 100.0, 2000.0] {
        assert!(cases.iter().filter(|case| case.settings.noise.jitter == jitter).count() > 200);
    }
    assert!(cases.iter().filter(|case| case.settings.handshake == Handshake::Answers).count() > 400);
    assert!(cases.iter().filter(|case| case.settings.noise.slow_ranks.is_empty()).count() > 200);
}

/// A fault: messages that must be answered are not, and the protocol is told at once that they were taken.
struct Unanswered(Box<dyn Exchange>);

impl Reactor for Unanswered {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.0.poll_transmit()?;
        if transmit.synchronous {
            self.0.on_taken(transmit.to, transmit.tag);
        }
        Some(Transmit { synchronous: false, ..transmit })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        self.0.on_message(now, from, tag, bytes)
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.0.poll_arrive()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> treepie_base::Result<()> {
        self.0.on_gathered(gathered)
    }

    fn needs(&self, rank: u32) -> Needs {
        self.0.needs(rank)
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

impl Exchange for Unanswered {
    fn post(&mut self) -> &mut Post {
        self.0.post()
    }

    fn census(&self) -> Census {
        self.0.census()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }
}

/// A fault: all rounds use the same tags, so what comes early belongs to the round that this rank is in.
struct Unseparated {
    next: Next,
    current: Option<Box<dyn Exchange>>,
    round: u32,
}

impl Unseparated {
    fn new(mut next: Next) -> Self {
        let current = next(0, None);
        let mut this = Self { next, current, round: 0 };
        this.settle();
        this
    }

    fn settle(&mut self) {
        while let Some(done) = self.current.take_if(|current| current.is_done()) {
            self.round += 1;
            self.current = (self.next)(self.round, Some(done));
        }
    }
}

impl Reactor for Unseparated {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        loop {
            if let Some(transmit) = self.current.as_mut()?.poll_transmit() {
                return Some(transmit);
            }
            let round = self.round;
            self.settle();
            if self.round == round {
                return None;
            }
        }
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.on_message(now, from, tag, bytes)?;
        self.settle();
        Ok(())
    }

    fn on_taken(&mut self, to: u32, tag: u32) {
        if let Some(current) = &mut self.current {
            current.on_taken(to, tag);
        }
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.current.as_mut()?.poll_arrive()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> treepie_base::Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.on_gathered(gathered))
    }

    fn needs(&self, rank: u32) -> Needs {
        self.current.as_ref().map_or(Needs::Nothing, |current| current.needs(rank))
    }

    fn is_done(&self) -> bool {
        self.current.is_none()
    }
}

/// The first seed of 1,000 that finds a fault, for each protocol that it was drawn with.
fn found(check: impl Fn(&Case) -> Result<(), String>) -> BTreeMap<Protocol, u64> {
    let mut found = BTreeMap::new();
    for seed in 0..1000 {
        let case = Case::draw(seed);
        if !found.contains_key(&case.protocol) && check(&case).is_err() {
            found.insert(case.protocol, seed);
        }
    }
    found
}

#[test]
fn plain_sends_instead_of_synchronous_ones_are_found() {
    let found = found(|case| {
        let begin = by(case.protocol, case.means);
        case.run(move |at, messages| Box::new(Unanswered(begin(at, messages))), Rounds::new)
    });
    println!("found by these seeds: {found:?}");
    // The others send no synchronous messages.
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [Protocol::Rsx, Protocol::Nbx], "{found:?}");
}

#[test]
fn rounds_that_are_not_kept_apart_are_found() {
    let found = found(|case| case.run(by(case.protocol, case.means), Unseparated::new));
    println!("found by these seeds: {found:?}");
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), PROTOCOLS, "{found:?}");
}
