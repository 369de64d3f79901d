//! Reactors in virtual time: order, delays from thousands of seeds, many ranks, failures.

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::Bytes;
use treepie_fabric::{PeerDependency, Reactor, Transmit};
use treepie_sim::costs::{ClusterCosts, LinkCosts, LogGP, PLogP, PiecewiseLinear, WanLink};
use treepie_sim::noise::{Noise, SplitMix64};
use treepie_sim::{Error, Settings, reactors};
use treepie_topology::Network;

const MACHINE: LogGP = LogGP { latency: 10.0, overhead: 2.0, gap: 3.0, per_byte: 0.01 };

fn noisy(seed: u64, jitter: f64) -> Settings {
    Settings { noise: Noise { seed, jitter, ..Noise::default() }, ..MACHINE.into() }
}

fn words(bytes: &Bytes) -> Vec<u64> {
    bytes.as_slice().chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
}

/// A token that goes around a ring `left` times.
#[derive(Debug)]
struct Ring {
    rank: u32,
    size: u32,
    left: u32,
    out: VecDeque<Transmit>,
    seen: Vec<u64>,
    last: Duration,
}

impl Ring {
    fn world(size: u32, times: u32) -> Vec<Self> {
        let ring = |rank| {
            let mut ring =
                Self { rank, size, left: times, out: VecDeque::new(), seen: Vec::new(), last: Duration::ZERO };
            if rank == 0 {
                ring.pass(0);
            }
            ring
        };
        (0..size).map(ring).collect()
    }

    fn pass(&mut self, token: u64) {
        let to = (self.rank + 1) % self.size;
        self.out.push_back(Transmit::new(to, 0, vec![token]));
    }
}

impl Reactor for Ring {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    fn on_message(&mut self, now: Duration, from: u32, _tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        assert_eq!(from, (self.rank + self.size - 1) % self.size);
        assert!(now >= self.last, "time goes on");
        self.last = now;
        let token = words(&bytes)[0];
        self.seen.push(token);
        self.left -= 1;
        if self.left > 0 || self.rank != 0 {
            self.pass(token + 1);
        }
        Ok(())
    }

    fn dependency_on(&self, _rank: u32) -> PeerDependency {
        PeerDependency::Nothing
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn a_ring_takes_the_modeled_time() {
    for (ranks, handler) in [(1, 5.0), (2, 0.0), (7, 5.0), (100, 0.5)] {
        let result =
            reactors::run(&Network::flat(ranks), &MACHINE.into(), Ring::world(ranks, 3), handler).expect("it runs");
        let hops = f64::from(3 * ranks);
        // A message to itself costs only its handling.
        let hop = if ranks == 1 { handler } else { 2.0 + 10.0 + 7.0 * 0.01 + 2.0 + handler };
        assert!((result.micros() - hops * hop).abs() < 1e-6, "{ranks}: {} and not {}", result.micros(), hops * hop);
        assert_eq!(result.messages, if ranks == 1 { 0 } else { u64::from(3 * ranks) });
        for (rank, ring) in result.reactors.iter().enumerate() {
            let first = (rank as u64 + u64::from(ranks) - 1) % u64::from(ranks);
            assert_eq!(ring.seen, [first, first + u64::from(ranks), first + 2 * u64::from(ranks)]);
        }
    }
}

/// All-to-all over a hypercube: in round k a rank sends its partner across bit k all blocks for that half. A round
/// begins when the previous one is complete; messages of later rounds may arrive early and wait.
#[derive(Debug)]
struct Hypercube {
    rank: u32,
    rounds: u32,
    round: u32,
    /// (from, to, value).
    blocks: Vec<[u64; 3]>,
    early: Vec<Option<Vec<[u64; 3]>>>,
    out: VecDeque<Transmit>,
}

fn value(from: u64, to: u64) -> u64 {
    from * 1_000_003 + to
}

impl Hypercube {
    fn world(rounds: u32) -> Vec<Self> {
        let size = 1u64 << rounds;
        let cube = |rank: u64| {
            let blocks = (0..size).map(|to| [rank, to, value(rank, to)]).collect();
            let early = (0..rounds).map(|_| None).collect();
            let mut cube = Self { rank: rank as u32, rounds, round: 0, blocks, early, out: VecDeque::new() };
            cube.send();
            cube
        };
        (0..size).map(cube).collect()
    }

    fn send(&mut self) {
        if self.round == self.rounds {
            return;
        }
        let bit = 1 << self.round;
        let (theirs, kept): (Vec<_>, Vec<_>) =
            self.blocks.drain(..).partition(|[_, to, _]| (*to as u32 ^ self.rank) & bit != 0);
        self.blocks = kept;
        let bytes = Bytes::from(theirs.concat());
        self.out.push_back(Transmit::new(self.rank ^ bit, self.round, bytes));
    }
}

impl Reactor for Hypercube {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        assert_eq!(from, self.rank ^ 1 << tag);
        self.early[tag as usize] = Some(words(&bytes).chunks_exact(3).map(|b| [b[0], b[1], b[2]]).collect());
        while let Some(blocks) = self.early.get_mut(self.round as usize).and_then(Option::take) {
            self.blocks.extend(blocks);
            self.round += 1;
            self.send();
        }
        Ok(())
    }

    fn dependency_on(&self, _rank: u32) -> PeerDependency {
        PeerDependency::Nothing
    }

    fn is_done(&self) -> bool {
        self.round == self.rounds
    }
}

fn check_blocks(cubes: &[Hypercube]) {
    for (rank, cube) in cubes.iter().enumerate() {
        let mut got = cube.blocks.clone();
        got.sort_unstable();
        let expected: Vec<[u64; 3]> =
            (0..cubes.len() as u64).map(|from| [from, rank as u64, value(from, rank as u64)]).collect();
        assert_eq!(got, expected, "rank {rank}");
    }
}

#[test]
fn a_hypercube_delivers_whatever_the_delays() {
    let network = Network::flat(16);
    let mut times = std::collections::BTreeSet::new();
    for seed in 0..3000 {
        // From none to far beyond the time of a message.
        let jitter = [0.0, 1.0, 50.0, 5000.0][seed as usize % 4];
        let result = reactors::run(&network, &noisy(seed, jitter), Hypercube::world(4), 0.5).expect("it runs");
        check_blocks(&result.reactors);
        assert_eq!(result.messages, 16 * 4);
        times.insert(result.makespan);
    }
    assert!(times.len() > 2000, "seeds make a difference: {}", times.len());
}

#[test]
fn a_hypercube_on_a_torus() {
    let network = Network::torus(&[4, 4, 4], &[true; 3]).expect("a torus");
    let result = reactors::run(&network, &LinkCosts::new(2.0, 0.01).into(), Hypercube::world(6), 0.0).expect("it runs");
    check_blocks(&result.reactors);
}

/// Rank 0 sends numbered messages of varying length under three tags; rank 1 records them.
#[derive(Debug, Default)]
struct Stream {
    out: VecDeque<Transmit>,
    got: Vec<Vec<u64>>,
    order: Vec<u32>,
    waits: usize,
}

const TAGS: u32 = 3;
const EACH: u64 = 30;

fn streams(seed: u64) -> Vec<Stream> {
    let mut random = SplitMix64::new(seed);
    let mut sender = Stream::default();
    for number in 0..EACH {
        for tag in 0..TAGS {
            let mut data = vec![number; 1 + random.below(100) as usize];
            data[0] = number;
            sender.out.push_back(Transmit::new(1, tag, data));
        }
    }
    let receiver =
        Stream { got: vec![Vec::new(); TAGS as usize], waits: (EACH * u64::from(TAGS)) as usize, ..Stream::default() };
    vec![sender, receiver]
}

impl Reactor for Stream {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    fn on_message(&mut self, _now: Duration, _from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        self.got[tag as usize].push(words(&bytes)[0]);
        self.order.push(tag);
        self.waits -= 1;
        Ok(())
    }

    fn dependency_on(&self, _rank: u32) -> PeerDependency {
        PeerDependency::Nothing
    }

    fn is_done(&self) -> bool {
        self.waits == 0
    }
}

#[test]
fn messages_of_a_tag_stay_in_order_and_tags_are_reordered() {
    let mut mixed = 0;
    for seed in 0..1000 {
        let result = reactors::run(&Network::flat(2), &noisy(seed, 200.0), streams(seed), 0.1).expect("it runs");
        let receiver = &result.reactors[1];
        for got in &receiver.got {
            assert_eq!(*got, (0..EACH).collect::<Vec<_>>(), "seed {seed}");
        }
        let as_sent: Vec<u32> = (0..EACH).flat_map(|_| 0..TAGS).collect();
        mixed += u32::from(receiver.order != as_sent);
    }
    assert!(mixed > 990, "{mixed}");
}

#[test]
fn free_receives_do_not_overtake() {
    // Receives of up to 100 bytes are free, of 1000 bytes they take 90 us.
    let receive = PiecewiseLinear::new("a receive", &[(0.0, 0.0), (100.0, 0.0), (1000.0, 90.0)]).expect("it rises");
    let link = PLogP { recv_overhead: receive, ..PLogP::from_latency_bandwidth(10.0, 1000.0) };
    let settings = Settings::from(ClusterCosts::uniform(link, WanLink { latency: 1.0, bandwidth: 1.0 }, 1));
    let network = Network::clusters(&[2]).expect("one cluster");
    for seed in 0..20 {
        let result = reactors::run(&network, &settings, streams(seed), 0.0).expect("it runs");
        for got in &result.reactors[1].got {
            assert_eq!(*got, (0..EACH).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| {
        let result = reactors::run_traced(&Network::flat(16), &noisy(seed, 20.0), Hypercube::world(4), 0.5);
        let mut text = String::new();
        result
            .expect("it runs")
            .trace
            .expect("it was recorded")
            .write_json(&mut text)
            .expect("a string takes everything");
        text
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

#[test]
fn a_hundred_thousand_reactors() {
    let ranks = 100_000;
    let result = reactors::run(&Network::flat(ranks), &MACHINE.into(), Ring::world(ranks, 1), 0.0).expect("it runs");
    assert_eq!((result.messages, result.reactors[0].seen[0]), (u64::from(ranks), u64::from(ranks) - 1));
    assert_eq!(result.max_in_flight, 1);
}

#[test]
fn a_rank_fails_once_and_time_overflows_are_errors() {
    // The earlier failure counts, whatever the order.
    for failures in [vec![(2, 28.0), (2, 900.0)], vec![(2, 900.0), (2, 28.0)]] {
        let failing = Settings { noise: Noise { failures, ..Noise::default() }, ..MACHINE.into() };
        let error = reactors::run(&Network::flat(5), &failing, Ring::world(5, 1), 0.0).unwrap_err();
        assert!(error.to_string().starts_with("deadlock: 3 of 5"), "{error}");
    }
    let late =
        Settings { noise: Noise { failures: vec![(2, 900.0), (2, 800.0)], ..Noise::default() }, ..MACHINE.into() };
    assert_eq!(reactors::run(&Network::flat(5), &late, Ring::world(5, 1), 0.0).expect("it runs").failed, [2]);
    let error = reactors::run(&Network::flat(2), &MACHINE.into(), Ring::world(2, 20), 1e12).unwrap_err();
    assert_eq!(error, Error::TimeOverflow);
}

#[test]
fn unfinished_ranks_are_reported() {
    let failing = Settings { noise: Noise { failures: vec![(2, 28.0)], ..Noise::default() }, ..MACHINE.into() };
    let error = reactors::run(&Network::flat(5), &failing, Ring::world(5, 1), 0.0).unwrap_err();
    // Rank 2 failed while it received the token.
    let text = "deadlock: 3 of 5 ranks wait forever: rank 0; rank 3; rank 4";
    assert_eq!(error.to_string(), text);
    let error = reactors::run(&Network::flat(5), &MACHINE.into(), Ring::world(4, 1), 0.0).unwrap_err();
    assert_eq!(error, Error::ReactorCountMismatch { reactors: 4, network: 5 });
    let error = reactors::run(&Network::flat(4), &MACHINE.into(), Ring::world(4, 1), -1.0).unwrap_err();
    assert!(error.to_string().contains("handler"));
    // Messages that wait for the CPU count towards the memory cap.
    let small = Settings { memory_cap: Some(1000), ..MACHINE.into() };
    let error = reactors::run(&Network::flat(2), &small, streams(1), 1000.0).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { rank: 1, cap: 1000, .. }), "{error}");
    let result = reactors::run(&Network::flat(2), &small, streams(1), 0.0).expect("handled messages are released");
    assert!(result.bytes > 1000);
}
