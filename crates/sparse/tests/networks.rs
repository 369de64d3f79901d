//! Exchanges on networks with a structure: what barriers and counts that follow it save, in time and in messages over
//! links between clusters.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::Bytes;
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};
use treepie_sim::costs::{ClusterCosts, LinkCosts, PLogP, WanLink};
use treepie_sim::noise::SplitMix64;
use treepie_sim::{Settings, reactors};
use treepie_sparse::{
    ExchangeProtocol, ExchangeReactor, ExchangeRoutes, Microbenchmark, ReactorCapabilities, RingPosition,
};
use treepie_topology::Network;

/// Counts the messages of an exchange to other clusters.
struct Counted {
    exchange: Box<dyn ExchangeReactor>,
    cluster: Rc<dyn Fn(u32) -> u32>,
    rank: u32,
    crossing: Rc<Cell<u32>>,
}

impl Reactor for Counted {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.exchange.poll_transmit()?;
        let crosses = (self.cluster)(self.rank) != (self.cluster)(transmit.to);
        self.crossing.set(self.crossing.get() + u32::from(crosses));
        Some(transmit)
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> treepie_base::Result<()> {
        self.exchange.on_message(now, from, tag, bytes)
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        self.exchange.on_ack(to, tag);
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.exchange.poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> treepie_base::Result<()> {
        self.exchange.on_barrier(result)
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.exchange.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.exchange.is_done()
    }
}

/// Microseconds of an exchange of this number of short messages per rank, and its messages to other clusters.
fn simulate(
    protocol: ExchangeProtocol,
    network: &Network,
    settings: &Settings,
    neighbors: u32,
    routes: &ExchangeRoutes,
) -> (f64, u32) {
    let ranks = network.ranks();
    let benchmark = Microbenchmark::new(1, ranks, neighbors.max(1));
    let crossing = Rc::new(Cell::new(0));
    let clusters = network.as_clusters().cloned();
    let cluster: Rc<dyn Fn(u32) -> u32> =
        Rc::new(move |rank| clusters.as_ref().map_or(0, |clusters| clusters.cluster_of(rank)));
    let one = |rank: u32| {
        let (position, capabilities) = (RingPosition { rank, ranks }, ReactorCapabilities::default());
        let targets = benchmark.messages(rank, 0).into_iter().take(neighbors as usize);
        let messages = targets.map(|(to, _)| (to, Bytes::zeroed(8, 1))).collect();
        let exchange = protocol.begin(position, capabilities, routes, messages);
        Counted { exchange, cluster: cluster.clone(), rank, crossing: crossing.clone() }
    };
    let result = reactors::run(network, settings, (0..ranks).map(one).collect(), 0.0).unwrap();
    let (micros, mut received) = (result.micros(), 0);
    for mut rank in result.reactors {
        received += rank.exchange.buffers().take_received().len() as u32;
        assert_eq!(rank.exchange.traffic_summary().max_message_bytes(), Some(if neighbors == 0 { 0 } else { 8 }));
    }
    assert_eq!(received, ranks * neighbors);
    (micros, crossing.get())
}

/// Links of 10 ms and 1 MB/s between clusters of 20 us and 50 MB/s.
fn wide_area(clusters: u32) -> Settings {
    let wan = WanLink { latency: 10_000.0, bandwidth: 1.0 };
    ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wan, clusters).into()
}

#[test]
fn on_clusters_consensus_takes_one_wide_area_latency() {
    let network: Network = "clusters:4x8".parse().unwrap();
    let settings = wide_area(4);
    let (flat, routed) = (ExchangeRoutes::default(), ExchangeRoutes::new(&network, "barrier/hierarchical"));
    let compare = |protocol, neighbors| {
        let (before, crossed) = simulate(protocol, &network, &settings, neighbors, &flat);
        let (after, crossing) = simulate(protocol, &network, &settings, neighbors, &routed);
        println!("{protocol}, {neighbors} neighbors: {before:.0} us, {crossed} messages between clusters over a");
        println!("    dissemination; {after:.0} us, {crossing} messages over coordinators");
        (before / after, crossed - crossing, after)
    };
    // Nothing is sent but the barrier: a message from each coordinator to each other one.
    for protocol in [ExchangeProtocol::Nbx, ExchangeProtocol::Rsx] {
        let (speedup, _, micros) = compare(protocol, 0);
        assert!(speedup > 2.9 && micros < 10_300.0, "{speedup} times, {micros} us");
        assert_eq!(simulate(protocol, &network, &settings, 0, &routed).1, 4 * 3);
    }
    // Data, acknowledgement and barrier are three latencies.
    let (speedup, saved, micros) = compare(ExchangeProtocol::Nbx, 2);
    assert!(speedup > 1.6 && micros < 30_500.0 && saved == 80, "{speedup} times, {micros} us, {saved}");
    // Counts and data are in flight at the same time, and no acknowledgement or fence follows.
    let (speedup, saved, micros) = compare(ExchangeProtocol::Rsx, 2);
    assert!(speedup > 5.5 && micros < 10_400.0 && saved > 120, "{speedup} times, {micros} us, {saved}");
}

#[test]
fn a_level_of_links_is_crossed_once() {
    // Two sites of four clusters; the links between sites are ten times slower.
    let network: Network = "clusters:2x4x4".parse().unwrap();
    let [near, far] = [1000.0, 10_000.0].map(|latency| WanLink { latency, bandwidth: 1.0 });
    let settings = ClusterCosts::per_level(PLogP::from_latency_bandwidth(20.0, 50.0), vec![near, far]).into();
    let (flat, routed) = (ExchangeRoutes::default(), ExchangeRoutes::new(&network, "barrier/hierarchical"));
    let before = simulate(ExchangeProtocol::Nbx, &network, &settings, 0, &flat).0;
    let after = simulate(ExchangeProtocol::Nbx, &network, &settings, 0, &routed).0;
    println!("{before:.0} us, and {after:.0} us over coordinators");
    assert!((12_000.0..12_500.0).contains(&after) && before > 1.5 * after, "{before} us, {after} us");
}

#[test]
fn on_a_torus_messages_stay_on_its_rings() {
    let settings: Settings = LinkCosts { per_hop: 0.5, ..LinkCosts::new(2.0, 0.002) }.into();
    let mut random = SplitMix64::new(1);
    let mut times = |text: &str, is_shuffled: bool| {
        let network: Network = text.parse().unwrap();
        let mut nodes: Vec<u32> = (0..network.ranks()).collect();
        if is_shuffled {
            (1..nodes.len()).for_each(|at| nodes.swap(at, random.below(at as u64 + 1) as usize));
        }
        let network = network.with_placement(nodes).unwrap();
        let time = |routes: &ExchangeRoutes| simulate(ExchangeProtocol::Nbx, &network, &settings, 0, routes).0;
        let (before, after) = (time(&ExchangeRoutes::default()), time(&ExchangeRoutes::new(&network, "barrier/torus")));
        println!(
            "{text}{}: {before:.1} us, along the rings {after:.1} us",
            if is_shuffled { ", shuffled" } else { "" }
        );
        (before, after)
    };
    for text in ["torus:8x8", "torus:4x4x4", "torus:5x5x5", "torus:16x16"] {
        // In the order of nodes a dissemination leaves a ring only where it ends.
        let (before, after) = times(text, false);
        assert!(after < before, "{text}: {before} us, {after} us");
        let (before, after) = times(text, true);
        assert!(after < 0.9 * before, "{text}: {before} us, {after} us");
    }
}
