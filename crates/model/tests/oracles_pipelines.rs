//! Row C19 of the P-LogP paper: the error of its formulas.
//!
//! The paper compares with measurements that it shows as figures. Here each segment is simulated through processors and
//! links, independently of gamma and lambda: a processor receives for or, sends for s to each child in turn; a link
//! accepts a segment every g and delivers it L + g later. Receiving may overlap the arrival of the segment (section
//! 2.1). Asserted are the paper's bounds for its configurations, 4 and 8 clusters of 1 and 16 ranks, over its simulated
//! wide-area link. For gather no bound is printed.

use treepie_model::machines::{myrinet, simulated_wan};
use treepie_model::plogp::{
    ClusterSizes, GatewayLink, PLogPLink, allgather_cost, plan_bcast, plan_segments, scatter_cost,
    tree_cost as tree_pace, tree_height,
};

/// The cost of a segment over a link.
#[derive(Clone, Copy)]
struct SegmentCost {
    send_time: f64,
    gap: f64,
    latency: f64,
    recv_overhead: f64,
}

impl SegmentCost {
    fn new(link: &dyn PLogPLink, bytes: f64) -> Self {
        Self {
            send_time: link.send_time(bytes),
            gap: link.gap(bytes),
            latency: link.latency(),
            recv_overhead: link.recv_overhead(bytes),
        }
    }
}

/// A link in time: when it accepts the next message.
#[derive(Clone, Copy, Default)]
struct LinkClock(f64);

impl LinkClock {
    /// When a message accepted at `given` arrives.
    fn carry(&mut self, given: f64, hop: SegmentCost) -> f64 {
        self.0 = self.0.max(given) + hop.gap;
        self.0 + hop.latency
    }
}

/// Children of each rank in a tree of at most `degree` children, level by level.
fn tree_children(ranks: usize, degree: usize) -> Vec<Vec<usize>> {
    let mut children = vec![vec![]; ranks];
    (1..ranks).for_each(|rank| children[(rank - 1) / degree].push(rank));
    children
}

/// When the last rank has the last segment: a tree of clusters, and in each a tree of its ranks.
fn simulate_broadcast(
    clusters: (usize, usize),
    ranks: (usize, usize),
    segments: usize,
    wan: SegmentCost,
    lan: SegmentCost,
) -> f64 {
    let (outer, inner) = (tree_children(clusters.0, clusters.1), tree_children(ranks.0, ranks.1));
    let all = clusters.0 * ranks.0;
    // When each segment arrives at each rank; the root has all.
    let mut arrivals = vec![vec![0.0f64; segments]; all];
    for rank in 0..all {
        let (cluster, local) = (rank / ranks.0, rank % ranks.0);
        let over = if local == 0 { &outer[cluster][..] } else { &[] };
        let children: Vec<(usize, SegmentCost)> = over
            .iter()
            .map(|child| (child * ranks.0, wan))
            .chain(inner[local].iter().map(|child| (cluster * ranks.0 + child, lan)))
            .collect();
        let receiving = match (rank, local) {
            (0, _) => 0.0,
            (_, 0) => wan.recv_overhead,
            _ => lan.recv_overhead,
        };
        let mut links = vec![LinkClock::default(); children.len()];
        let mut processor = 0.0f64;
        for (segment, arrived) in arrivals[rank].clone().into_iter().enumerate() {
            processor = arrived.max(processor + receiving);
            for ((child, hop), link) in children.iter().zip(&mut links) {
                arrivals[*child][segment] = link.carry(processor, *hop);
                processor += hop.send_time;
            }
        }
    }
    arrivals.iter().map(|times| times[segments - 1]).fold(0.0, f64::max)
}

/// Segments of all blocks from one rank, to the first rank of each cluster, then to the second, and so on.
fn simulate_scatter(clusters: ClusterSizes, segments: usize, wan: SegmentCost, lan: SegmentCost) -> f64 {
    let mut links = vec![LinkClock::default(); clusters.count as usize - 1];
    let mut own = LinkClock::default();
    let (mut processor, mut last) = (0.0f64, 0.0f64);
    for _ in 0..segments {
        for _ in 0..clusters.ranks {
            for link in &mut links {
                last = last.max(link.carry(processor, wan));
                processor += wan.send_time;
            }
            last = last.max(own.carry(processor, lan));
            processor += lan.send_time;
        }
        // The root's own block.
        processor += lan.recv_overhead;
    }
    last
}

/// All coordinators behave alike, so one is simulated: what it sends to the next at some time arrives at it from the
/// previous one.
fn simulate_allgather(clusters: usize, segments: usize, wan: SegmentCost, lan: SegmentCost) -> f64 {
    let mut links = vec![LinkClock::default(); clusters - 1];
    let mut coming = std::collections::VecDeque::new();
    let receiving = lan.gap.max(wan.recv_overhead);
    let mut processor = 0.0f64;
    for _ in 0..segments {
        for link in &mut links {
            coming.push_back(link.carry(processor, wan));
            processor += wan.send_time;
        }
        while coming.front().is_some_and(|time| *time <= processor) {
            coming.pop_front();
            processor += receiving;
        }
    }
    // Receiving the last segments overlaps their arrival.
    coming.into_iter().fold(processor, |processor, time| time.max(processor + receiving))
}

/// Largest error of the formula above and below the simulation, for small and large messages.
#[derive(Default)]
struct Errors {
    small: (f64, f64),
    large: (f64, f64),
}

impl Errors {
    fn add(&mut self, bytes: u64, formula: f64, simulated: f64) {
        let of = if bytes >= 1 << 20 { &mut self.large } else { &mut self.small };
        let error = formula / simulated - 1.0;
        *of = (of.0.max(error), of.1.max(-error));
    }

    fn check(&self, what: &str, small: f64, large: f64) {
        let percent = |(above, below): (f64, f64)| format!("{:.2}% above, {:.2}% below", 100.0 * above, 100.0 * below);
        let text = format!("{what}: small {}; large {}", percent(self.small), percent(self.large));
        println!("C19: {text}");
        assert!(self.small.0 <= small && self.large.0 <= large, "C19: {text}");
        assert!(self.small.1.max(self.large.1) < 1e-9, "C19: formulas are upper bounds: {text}");
    }
}

const CONFIGURATIONS: [(u32, u32); 4] = [(4, 1), (4, 16), (8, 1), (8, 16)];

fn sizes() -> impl Iterator<Item = u64> {
    (6..=22).map(|power| 1 << power)
}

#[test]
fn c19_broadcast() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for (clusters, ranks) in CONFIGURATIONS {
        for bytes in sizes() {
            let plan = plan_bcast(&gateway, &lan, clusters, ranks, bytes, 8);
            let size = plan.bytes as f64;
            let shape = |ranks: u32, degree: u32| (ranks as usize, degree.max(1) as usize);
            let (outer, inner) = (shape(clusters, plan.shape.wan), shape(ranks, plan.shape.lan));
            let segments = plan.segments as usize;
            let simulated = simulate_broadcast(
                outer,
                inner,
                segments,
                SegmentCost::new(&gateway, size),
                SegmentCost::new(&lan, size),
            );
            errors.add(bytes, plan.time, simulated);
        }
    }
    errors.check("broadcast", 0.04, 0.01);
}

/// Not only the best shapes. The formula is made for full trees; others are lower where they are not full.
#[test]
fn c19_all_trees() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    for link in [&gateway as &dyn PLogPLink, &lan] {
        for (ranks, degree) in [(8, 1), (7, 2), (15, 2), (13, 3), (21, 4), (8, 7), (8, 2), (16, 3), (64, 5)] {
            let levels = tree_height(ranks, degree);
            let full = ranks == (0..=levels).map(|level| degree.pow(level)).sum::<u32>();
            for (bytes, segments) in [(64.0, 1), (1024.0, 4), (8192.0, 40)] {
                let formula = tree_pace(link, bytes, degree, levels).time(f64::from(segments));
                let shape = (ranks as usize, degree as usize);
                let hop = SegmentCost::new(link, bytes);
                let simulated = simulate_broadcast((1, 1), shape, segments as usize, hop, hop);
                let error = formula / simulated - 1.0;
                assert!(error > -1e-9, "C19: {ranks} ranks, degree {degree}, {segments} x {bytes}: {error}");
                assert!(!full || error < 0.04, "C19: {ranks} ranks, degree {degree}, {segments} x {bytes}: {error}");
            }
        }
    }
}

#[test]
fn c19_scatter() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for (count, ranks) in CONFIGURATIONS {
        let clusters = ClusterSizes { count, ranks };
        for bytes in sizes() {
            let plan = plan_segments(bytes, 8, |size, _| (scatter_cost(&gateway, &lan, size, clusters), ()));
            let (size, segments) = (plan.bytes as f64, plan.segments as usize);
            let simulated =
                simulate_scatter(clusters, segments, SegmentCost::new(&gateway, size), SegmentCost::new(&lan, size));
            errors.add(bytes, plan.time, simulated);
        }
    }
    errors.check("scatter", 0.14, 0.011);
}

#[test]
fn c19_allgather() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for clusters in [4u32, 8] {
        for bytes in sizes() {
            let plan = plan_segments(bytes, 8, |size, _| (allgather_cost(&gateway, &lan, size, clusters), ()));
            let (size, segments) = (plan.bytes as f64, plan.segments as usize);
            let simulated = simulate_allgather(
                clusters as usize,
                segments,
                SegmentCost::new(&gateway, size),
                SegmentCost::new(&lan, size),
            );
            errors.add(bytes, plan.time, simulated);
        }
    }
    errors.check("allgather", 0.16, 0.16);
    // With many clusters not the links but the coordinators are the bottleneck, which receive as long as they send.
    for (clusters, bytes, segments) in [(60u32, 64.0, 20), (120, 1024.0, 50), (200, 8192.0, 40)] {
        let formula = allgather_cost(&gateway, &lan, bytes, clusters).time(f64::from(segments));
        let hops = (SegmentCost::new(&gateway, bytes), SegmentCost::new(&lan, bytes));
        let simulated = simulate_allgather(clusters as usize, segments as usize, hops.0, hops.1);
        let error = formula / simulated - 1.0;
        assert!(error.abs() < 0.16, "C19: allgather of {clusters} clusters, {segments} x {bytes}: {error}");
    }
}
