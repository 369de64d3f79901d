//! Levels and groups, found by the latencies between ranks.

use treepie::Network;
use treepie::simulate::{ClusterCosts, Noise, Settings, WanLink, WanLinks};
use treepie_model::plogp::MeasureConfig;
use treepie_tune::{TuneConfig, find_levels};

use crate::common::{clusters, lan, measured_with, seeds};

/// Few and small messages: these tests are about groups.
fn brief() -> TuneConfig {
    let plogp = MeasureConfig {
        min_trips: 1,
        min_large_trips: 1,
        max_trips: 1,
        max_large_trips: 1,
        min_power: 2,
        max_power: 2,
        max_messages: 20,
        ..MeasureConfig::default()
    };
    TuneConfig { plogp, ..TuneConfig::default() }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % u64::from(bound)) as u32
    }

    fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..count).collect();
        (1..all.len()).for_each(|index| all.swap(index, self.below(index as u32 + 1) as usize));
        all
    }
}

/// Numbers of groups in the order of their first ranks.
fn renumbered(groups: &[u32]) -> Vec<u32> {
    let mut seen: Vec<u32> = Vec::new();
    let number = |group: &u32| {
        if !seen.contains(group) {
            seen.push(*group);
        }
        seen.iter().position(|other| other == group).unwrap() as u32
    };
    groups.iter().map(number).collect()
}

#[test]
fn clusters_of_unequal_size_are_recovered() {
    for seed in seeds(12) {
        let mut random = Random(seed);
        let count = 2 + (seed % 7) as u32;
        let sizes: Vec<u32> = (0..count).map(|_| 1 + random.below(5)).collect();
        let ranks: u32 = sizes.iter().sum();
        let text = sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        let network: Network = format!("clusters:{text}").parse().unwrap();
        // Every other time, ranks are anywhere.
        let nodes = if seed % 2 == 0 { random.shuffled(ranks) } else { (0..ranks).collect() };
        let placed = network.clone().with_placement(nodes.clone()).unwrap();
        let noise = Noise { seed, jitter: 15.0, ..Noise::default() };
        let settings = Settings { noise, ..clusters(count, 2000.0, 5.0) };
        let (profile, _) = measured_with(&placed, &settings, &brief()).unwrap();
        let all = network.as_clusters().unwrap();
        let truth: Vec<u32> = nodes.iter().map(|node| all.cluster_of(*node)).collect();
        let is_flat = sizes.iter().all(|size| *size == 1);
        assert_eq!(profile.levels.len(), if is_flat { 1 } else { 2 }, "seed {seed}: {text}");
        if !is_flat {
            let found = profile.groups_of_ranks(0, ranks);
            assert_eq!(renumbered(&found), renumbered(&truth), "seed {seed}: {text} with {nodes:?}");
        }
        assert_eq!(profile.rank_order.is_empty(), renumbered(&truth).is_sorted() || is_flat, "seed {seed}");
    }
}

#[test]
fn three_levels_are_found() {
    // Two sites of two clusters each.
    let mut costs = ClusterCosts::uniform(lan(), WanLink { latency: 10_000.0, bandwidth: 1.0 }, 4);
    for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        let WanLinks::Matrix(links) = &mut costs.wan else { unreachable!("they are uniform") };
        links[from][to] = WanLink { latency: 300.0, bandwidth: 10.0 };
    }
    for (nodes, order) in [
        ((0..11).collect(), vec![]),
        ((0..11).rev().collect(), vec![]),
        (
            vec![0, 5, 1, 6, 2, 7, 3, 8, 4, 9, 10],
            // Clusters have the nodes 0 to 2, 3 and 4, 5 to 8, 9 and 10.
            vec![0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 10],
        ),
    ] {
        let network: Network = "clusters:3+2+4+2".parse::<Network>().unwrap().with_placement(nodes).unwrap();
        let settings = Settings { noise: Noise { seed: 7, jitter: 10.0, ..Noise::default() }, ..costs.clone().into() };
        let (profile, _) = measured_with(&network, &settings, &brief()).unwrap();
        assert_eq!(profile.levels.len(), 3);
        let mut sizes = profile.levels[0].groups.clone();
        sizes.sort_unstable();
        assert_eq!(sizes, [2, 2, 3, 4]);
        assert_eq!((profile.levels[1].groups.len(), profile.levels[2].groups.len()), (2, 0));
        assert_eq!(profile.rank_order, order);
    }
}

/// Of more ranks than are sampled, those in between belong to the groups of their neighbors, and boundaries are found.
#[test]
fn groups_of_many_ranks_are_those_of_a_sample() {
    let settings = clusters(3, 2000.0, 5.0);
    let config = TuneConfig { max_sampled_ranks: 9, ..brief() };
    for text in ["clusters:37+30+23", "clusters:11+60+19"] {
        let (profile, _) = measured_with(&text.parse().unwrap(), &settings, &config).unwrap();
        let groups = profile.levels[0].groups.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        assert_eq!(format!("clusters:{groups}"), text);
    }
}

/// Latencies with noise, without messages: many more seeds.
#[test]
fn noise_moves_no_rank() {
    for seed in seeds(500) {
        let mut random = Random(seed);
        let count = 2 + random.below(7);
        let groups: Vec<u32> = (0..count).flat_map(|group| vec![group; 1 + random.below(6) as usize]).collect();
        let order = random.shuffled(groups.len() as u32);
        let groups: Vec<u32> = order.iter().map(|rank| groups[*rank as usize]).collect();
        let ranks = groups.len();
        let mut latency = vec![0.0; ranks * ranks];
        for a in 0..ranks {
            for b in 0..a {
                let base = if groups[a] == groups[b] { 20.0 } else { 200.0 };
                let noisy = base * (1.0 + 0.4 * f64::from(random.below(1000)) / 1000.0);
                (latency[a * ranks + b], latency[b * ranks + a]) = (noisy, noisy);
            }
        }
        let levels = find_levels(ranks, |a, b| latency[a * ranks + b], TuneConfig::default().level_ratio);
        let has_pairs = groups.len() > count as usize;
        assert_eq!(levels.len(), 1 + usize::from(has_pairs), "seed {seed}");
        if has_pairs {
            assert_eq!(levels[0].groups, renumbered(&groups), "seed {seed}");
            let (low, high) = levels[1].slowest;
            assert!(groups[low] != groups[high] && low < high, "seed {seed}");
        }
    }
}
