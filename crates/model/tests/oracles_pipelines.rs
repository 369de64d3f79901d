//! Row C19 of the P-LogP paper: how far its formulas are from what happens.
//!
//! The paper compares with measurements that it shows as figures. Here each segment is followed through processors and
//! links, which knows nothing of gamma and lambda: a processor receives for or, sends for s to each child in turn; a
//! link takes a segment every g and delivers it L + g later. Receiving may go on while the segment still comes in
//! (section 2.1). Asserted are the paper's bounds for its configurations, 4 and 8 clusters of 1 and 16 ranks, over its
//! simulated wide-area link. Of gather no bound is printed.

use treepie_model::machines::{myrinet, simulated_wan};
use treepie_model::plogp::{Clusters, Link, Wide, allgather, bcast, height, scatter, segments, tree as tree_pace};

/// What a segment costs over a link.
#[derive(Clone, Copy)]
struct Hop {
    sent: f64,
    gap: f64,
    latency: f64,
    receiving: f64,
}

impl Hop {
    fn new(link: &dyn Link, bytes: f64) -> Self {
        Self { sent: link.sent(bytes), gap: link.gap(bytes), latency: link.latency(), receiving: link.receiving(bytes) }
    }
}

/// A link in time: when the next message may enter.
#[derive(Clone, Copy, Default)]
struct Busy(f64);

impl Busy {
    /// When a message that is given to it at that time is there.
    fn carry(&mut self, given: f64, hop: Hop) -> f64 {
        self.0 = self.0.max(given) + hop.gap;
        self.0 + hop.latency
    }
}

/// Children of each of so many ranks, none of which has more than `degree`, level by level.
fn tree(ranks: usize, degree: usize) -> Vec<Vec<usize>> {
    let mut children = vec![vec![]; ranks];
    (1..ranks).for_each(|rank| children[(rank - 1) / degree].push(rank));
    children
}

/// When the last rank has the last segment: clusters in a tree, and in each its ranks in another.
fn broadcast(clusters: (usize, usize), ranks: (usize, usize), segments: usize, wan: Hop, lan: Hop) -> f64 {
    let (outer, inner) = (tree(clusters.0, clusters.1), tree(ranks.0, ranks.1));
    let all = clusters.0 * ranks.0;
    // When each segment is at each rank; the root has all.
    let mut there = vec![vec![0.0f64; segments]; all];
    for rank in 0..all {
        let (cluster, local) = (rank / ranks.0, rank % ranks.0);
        let over = if local == 0 { &outer[cluster][..] } else { &[] };
        let children: Vec<(usize, Hop)> = over
            .iter()
            .map(|child| (child * ranks.0, wan))
            .chain(inner[local].iter().map(|child| (cluster * ranks.0 + child, lan)))
            .collect();
        let receiving = match (rank, local) {
            (0, _) => 0.0,
            (_, 0) => wan.receiving,
            _ => lan.receiving,
        };
        let mut links = vec![Busy::default(); children.len()];
        let mut processor = 0.0f64;
        for (segment, arrived) in there[rank].clone().into_iter().enumerate() {
            processor = arrived.max(processor + receiving);
            for ((child, hop), link) in children.iter().zip(&mut links) {
                there[*child][segment] = link.carry(processor, *hop);
                processor += hop.sent;
            }
        }
    }
    there.iter().map(|times| times[segments - 1]).fold(0.0, f64::max)
}

/// Segments of all blocks from one rank, to the first rank of each cluster, then to the second, and so on.
fn scattered(clusters: Clusters, segments: usize, wan: Hop, lan: Hop) -> f64 {
    let mut links = vec![Busy::default(); clusters.count as usize - 1];
    let mut own = Busy::default();
    let (mut processor, mut last) = (0.0f64, 0.0f64);
    for _ in 0..segments {
        for _ in 0..clusters.ranks {
            for link in &mut links {
                last = last.max(link.carry(processor, wan));
                processor += wan.sent;
            }
            last = last.max(own.carry(processor, lan));
            processor += lan.sent;
        }
        // Its own.
        processor += lan.receiving;
    }
    last
}

/// All coordinators do the same, so one is followed: what it sends to the next at some time comes to it from the one
/// before.
fn all_gathered(clusters: usize, segments: usize, wan: Hop, lan: Hop) -> f64 {
    let mut links = vec![Busy::default(); clusters - 1];
    let mut coming = std::collections::VecDeque::new();
    let receiving = lan.gap.max(wan.receiving);
    let mut processor = 0.0f64;
    for _ in 0..segments {
        for link in &mut links {
            coming.push_back(link.carry(processor, wan));
            processor += wan.sent;
        }
        while coming.front().is_some_and(|time| *time <= processor) {
            coming.pop_front();
            processor += receiving;
        }
    }
    // What comes last is received while it comes in.
    coming.into_iter().fold(processor, |processor, time| time.max(processor + receiving))
}

/// By how much the formula is above and below what happens, over small and large messages.
#[derive(Default)]
struct Errors {
    small: (f64, f64),
    large: (f64, f64),
}

impl Errors {
    fn add(&mut self, bytes: u64, formula: f64, happened: f64) {
        let of = if bytes >= 1 << 20 { &mut self.large } else { &mut self.small };
        let error = formula / happened - 1.0;
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
    let wide = Wide { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for (clusters, ranks) in CONFIGURATIONS {
        for bytes in sizes() {
            let plan = bcast(&wide, &lan, clusters, ranks, bytes, 8);
            let size = plan.bytes as f64;
            let shape = |ranks: u32, degree: u32| (ranks as usize, degree.max(1) as usize);
            let (outer, inner) = (shape(clusters, plan.shape.wan), shape(ranks, plan.shape.lan));
            let segments = plan.segments as usize;
            let happened = broadcast(outer, inner, segments, Hop::new(&wide, size), Hop::new(&lan, size));
            errors.add(bytes, plan.time, happened);
        }
    }
    errors.check("broadcast", 0.04, 0.01);
}

/// Not only with the best shapes. Full trees are what the formula is made for; others are lower where they are not
/// full.
#[test]
fn c19_all_trees() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let wide = Wide { wan: &wan, lan: &lan };
    for link in [&wide as &dyn Link, &lan] {
        for (ranks, degree) in [(8, 1), (7, 2), (15, 2), (13, 3), (21, 4), (8, 7), (8, 2), (16, 3), (64, 5)] {
            let levels = height(ranks, degree);
            let full = ranks == (0..=levels).map(|level| degree.pow(level)).sum::<u32>();
            for (bytes, segments) in [(64.0, 1), (1024.0, 4), (8192.0, 40)] {
                let formula = tree_pace(link, bytes, degree, levels).time(f64::from(segments));
                let shape = (ranks as usize, degree as usize);
                let hop = Hop::new(link, bytes);
                let happened = broadcast((1, 1), shape, segments as usize, hop, hop);
                let error = formula / happened - 1.0;
                assert!(error > -1e-9, "C19: {ranks} ranks, degree {degree}, {segments} x {bytes}: {error}");
                assert!(!full || error < 0.04, "C19: {ranks} ranks, degree {degree}, {segments} x {bytes}: {error}");
            }
        }
    }
}

#[test]
fn c19_scatter() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let wide = Wide { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for (count, ranks) in CONFIGURATIONS {
        let clusters = Clusters { count, ranks };
        for bytes in sizes() {
            let plan = segments(bytes, 8, |size, _| (scatter(&wide, &lan, size, clusters), ()));
            let (size, segments) = (plan.bytes as f64, plan.segments as usize);
            let happened = scattered(clusters, segments, Hop::new(&wide, size), Hop::new(&lan, size));
            errors.add(bytes, plan.time, happened);
        }
    }
    errors.check("scatter", 0.14, 0.011);
}

#[test]
fn c19_allgather() {
    let (wan, lan) = (simulated_wan(), myrinet());
    let wide = Wide { wan: &wan, lan: &lan };
    let mut errors = Errors::default();
    for clusters in [4u32, 8] {
        for bytes in sizes() {
            let plan = segments(bytes, 8, |size, _| (allgather(&wide, &lan, size, clusters), ()));
            let (size, segments) = (plan.bytes as f64, plan.segments as usize);
            let happened = all_gathered(clusters as usize, segments, Hop::new(&wide, size), Hop::new(&lan, size));
            errors.add(bytes, plan.time, happened);
        }
    }
    errors.check("allgather", 0.16, 0.16);
    // With many clusters it is not the links that are slow but the coordinators, who receive as long as they send.
    for (clusters, bytes, segments) in [(60u32, 64.0, 20), (120, 1024.0, 50), (200, 8192.0, 40)] {
        let formula = allgather(&wide, &lan, bytes, clusters).time(f64::from(segments));
        let hops = (Hop::new(&wide, bytes), Hop::new(&lan, bytes));
        let happened = all_gathered(clusters as usize, segments as usize, hops.0, hops.1);
        let error = formula / happened - 1.0;
        assert!(error.abs() < 0.16, "C19: allgather of {clusters} clusters, {segments} x {bytes}: {error}");
    }
}
