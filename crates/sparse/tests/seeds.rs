//! Protocols in the simulator; each seed draws protocol, ranks, patterns, delays and slow ranks. No message is lost,
//! duplicated or delivered in another round, and every exchange completes. The same check finds two injected faults.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Plan, begin_with, first_failure, make_reactors, seeds};
use treepie_base::Bytes;
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};
use treepie_sim::costs::{Handshake, LogGP};
use treepie_sim::noise::{Noise, SplitMix64};
use treepie_sim::{Settings, reactors};
use treepie_sparse::{
    ExchangeBuffers, ExchangeProtocol, ExchangeReactor, ExchangeRoutes, ExchangeSequence, NextExchange,
    ReactorCapabilities, RingPosition, TrafficSummary,
};
use treepie_topology::Network;

/// The protocols that need no more than a barrier.
const PROTOCOLS: [ExchangeProtocol; 6] = [
    ExchangeProtocol::Pex,
    ExchangeProtocol::Pcx,
    ExchangeProtocol::Rsx,
    ExchangeProtocol::Nbx,
    ExchangeProtocol::NbxAllChannels,
    ExchangeProtocol::Crystal,
];

struct Case {
    protocol: ExchangeProtocol,
    capabilities: ReactorCapabilities,
    /// The network that the routes follow, and the id of the barrier; messages take as long between all ranks.
    routes: Option<(Network, &'static str)>,
    plan: Rc<Plan>,
    settings: Settings,
    handler: f64,
}

impl Case {
    fn draw(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let protocol = PROTOCOLS[random.below(PROTOCOLS.len() as u64) as usize];
        let ranks = 2 + random.below(15) as u32;
        let plan = Rc::new(Plan::draw(&mut random, ranks));
        let barrier = random.below(2) == 0;
        let mut up_to = |most: f64| random.next_f64() * most;
        let costs = LogGP { latency: up_to(20.0), overhead: up_to(3.0), gap: up_to(4.0), per_byte: up_to(0.02) };
        let (barrier_time, synchronous, handler) = (up_to(10.0), costs.latency + up_to(30.0), up_to(5.0));
        let latency = Handshake::Latency { latency: synchronous, below: f64::INFINITY };
        let handshake = if random.below(2) == 0 { Handshake::AckMessage } else { latency };
        let jitter = [0.0, 5.0, 100.0, 2000.0][random.below(4) as usize];
        let slow = random.below(3);
        let slow_ranks = (0..slow).map(|_| (random.below(ranks.into()) as u32, 1.0 + 200.0 * random.next_f64()));
        let noise = Noise { seed, jitter, slow_ranks: slow_ranks.collect(), ..Noise::default() };
        let handler = if random.below(2) == 0 { handler } else { 0.0 };
        let settings = Settings { noise, barrier_time, handshake, ..costs.into() };
        let capabilities = ReactorCapabilities { barrier, ..ReactorCapabilities::default() };
        let routes = draw_routes(&mut random, ranks);
        Self { protocol, capabilities, routes, plan, settings, handler }
    }

    /// Starts its exchanges.
    fn begin(&self) -> impl Fn(RingPosition, Vec<(u32, Bytes)>) -> Box<dyn ExchangeReactor> + Clone + 'static {
        let routes = self.routes.as_ref().map(|(network, barrier)| ExchangeRoutes::new(network, barrier));
        begin_with(self.protocol, self.capabilities, routes.unwrap_or_default())
    }

    fn run<R: Reactor>(
        &self,
        begin: impl Fn(RingPosition, Vec<(u32, Bytes)>) -> Box<dyn ExchangeReactor> + Clone + 'static,
        rounds: impl Fn(NextExchange) -> R,
    ) -> Result<(), String> {
        let (ranks, results) = make_reactors(&self.plan, begin, rounds);
        let result = reactors::run(&Network::flat(self.plan.ranks), &self.settings, ranks, self.handler);
        result
            .map_err(|error| error.to_string())
            .and_then(|_| self.plan.check(&results))
            .map_err(|wrong| format!("{self}: {wrong}"))
    }
}

/// Half of the networks are flat; others are clusters of consecutive or scattered ranks, or a ring.
fn draw_routes(random: &mut SplitMix64, ranks: u32) -> Option<(Network, &'static str)> {
    let (kind, first) = (random.below(6), 1 + random.below(ranks.into()) as u32 / 2);
    let sizes = [first, ranks - first];
    Some(match kind {
        0 => (Network::torus(&[ranks], &[true]).unwrap(), "barrier/torus"),
        1 => {
            let mut nodes: Vec<u32> = (0..ranks).collect();
            (1..nodes.len()).for_each(|at| nodes.swap(at, random.below(at as u64 + 1) as usize));
            (Network::clusters(&sizes).unwrap().with_placement(nodes).unwrap(), "barrier/hierarchical")
        }
        2 => {
            // Two groups, the first of two clusters if it has two ranks.
            let clusters = if first > 1 { vec![1, first - 1, ranks - first] } else { sizes.to_vec() };
            let groups = vec![clusters.len() as u32 - 1, 1];
            let barrier = ["barrier/hierarchical", "barrier/magpie"][random.below(2) as usize];
            (Network::nested_clusters(&[clusters, groups]).unwrap(), barrier)
        }
        _ => return None,
    })
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { protocol, capabilities, routes, plan, settings, .. } = self;
        let (ranks, rounds) = (plan.ranks, plan.rounds.len());
        let barrier = if capabilities.barrier { " with a barrier" } else { "" };
        let routes =
            routes.as_ref().map(|(network, barrier)| format!(" over {barrier} on {network}")).unwrap_or_default();
        write!(f, "{protocol}{barrier}{routes}, {ranks} ranks, {rounds} rounds, jitter {} us", settings.noise.jitter)
    }
}

#[test]
fn no_message_is_lost_duplicated_or_late() {
    let wrong = first_failure(seeds(), |seed| {
        let case = Case::draw(seed);
        case.run(case.begin(), ExchangeSequence::new)
    });
    assert!(wrong.is_none(), "seed {}: {}", wrong.as_ref().unwrap().0, wrong.as_ref().unwrap().1);
}

#[test]
fn seeds_draw_everything() {
    let cases: Vec<Case> = (0..1000).map(Case::draw).collect();
    let mut kinds = BTreeMap::new();
    for case in &cases {
        *kinds.entry((case.protocol, case.capabilities.barrier, case.plan.ranks)).or_insert(0) += 1;
    }
    assert!(kinds.len() > 6 * 2 * 15 * 9 / 10, "{}", kinds.len());
    let rounds = || cases.iter().flat_map(|case| &case.plan.rounds);
    let empty = rounds().filter(|round| round.iter().all(Vec::is_empty)).count();
    assert!(empty > 100, "{empty}");
    let is_to_itself = |(rank, sent): (usize, &Vec<(u32, usize)>)| sent.iter().all(|(to, _)| *to as usize == rank);
    let to_itself = rounds().filter(|round| round.iter().enumerate().all(is_to_itself)).count();
    assert!(to_itself > empty + 50, "{to_itself}");
    let to_all = rounds().filter(|round| round.iter().all(|sent| sent.len() + 1 == round.len())).count();
    assert!(to_all > 50, "{to_all}");
    let twice =
        |sent: &Vec<(u32, usize)>| sent.iter().enumerate().any(|(at, it)| sent[..at].iter().any(|o| o.0 == it.0));
    assert!(rounds().filter(|round| round.iter().any(twice)).count() > 500);
    for jitter in [0.0, 5.0, 100.0, 2000.0] {
        assert!(cases.iter().filter(|case| case.settings.noise.jitter == jitter).count() > 200);
    }
    assert!(cases.iter().filter(|case| case.settings.handshake == Handshake::AckMessage).count() > 400);
    assert!(cases.iter().filter(|case| case.settings.noise.slow_ranks.is_empty()).count() > 200);
}

/// A fault: synchronous sends complete before their message is received.
struct Unacknowledged(Box<dyn ExchangeReactor>);

impl Reactor for Unacknowledged {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.0.poll_transmit()?;
        if transmit.synchronous {
            self.0.on_ack(transmit.to, transmit.tag);
        }
        Some(Transmit { synchronous: false, ..transmit })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        self.0.on_message(now, from, tag, bytes)
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.0.poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> treepie_base::Result<()> {
        self.0.on_barrier(result)
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.0.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

impl ExchangeReactor for Unacknowledged {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        self.0.buffers()
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.0.traffic_summary()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }
}

/// A fault: all rounds use the same tags, so early messages are delivered in the current round.
struct UntaggedRounds {
    next: NextExchange,
    current: Option<Box<dyn ExchangeReactor>>,
    round: u32,
}

impl UntaggedRounds {
    fn new(mut next: NextExchange) -> Self {
        let current = next(0, None);
        let mut this = Self { next, current, round: 0 };
        this.advance();
        this
    }

    fn advance(&mut self) {
        while let Some(done) = self.current.take_if(|current| current.is_done()) {
            self.round += 1;
            self.current = (self.next)(self.round, Some(done));
        }
    }
}

impl Reactor for UntaggedRounds {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        loop {
            if let Some(transmit) = self.current.as_mut()?.poll_transmit() {
                return Some(transmit);
            }
            let round = self.round;
            self.advance();
            if self.round == round {
                return None;
            }
        }
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.on_message(now, from, tag, bytes)?;
        self.advance();
        Ok(())
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        if let Some(current) = &mut self.current {
            current.on_ack(to, tag);
        }
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.current.as_mut()?.poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> treepie_base::Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.on_barrier(result))
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.current.as_ref().map_or(PeerDependency::Nothing, |current| current.dependency_on(rank))
    }

    fn is_done(&self) -> bool {
        self.current.is_none()
    }
}

/// The first of 1,000 seeds that finds a fault, by protocol.
fn found(check: impl Fn(&Case) -> Result<(), String>) -> BTreeMap<ExchangeProtocol, u64> {
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
        let begin = case.begin();
        case.run(move |position, messages| Box::new(Unacknowledged(begin(position, messages))), ExchangeSequence::new)
    });
    println!("found by these seeds: {found:?}");
    // The others send no synchronous messages.
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [ExchangeProtocol::Rsx, ExchangeProtocol::Nbx], "{found:?}");
}

#[test]
fn rounds_with_the_same_tags_are_found() {
    let found = found(|case| case.run(case.begin(), UntaggedRounds::new));
    println!("found by these seeds: {found:?}");
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), PROTOCOLS, "{found:?}");
}
