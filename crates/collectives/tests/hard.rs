//! Four cases that break weak representations: buckets with odd sizes, a pipeline over two layers, a permuted order of
//! ranks whose number is not a power of two, and an in-place reduction in rank order.

use std::sync::Arc;

use treepie_collectives::allgather_cores::{Bucket, Distance, Doubling, Parallel};
use treepie_collectives::from_allgather::{Allgather, ReduceScatter};
use treepie_schedule::check::{CheckOptions, check};
use treepie_schedule::count::count;
use treepie_schedule::{BlockLayout, BlockLayouts};
use treepie_topology::Network;

fn six(dims: &[u32], shuffled: bool) -> Parallel<Bucket> {
    let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]];
    let cores = orders.iter().flat_map(|order| [false, true].map(|minus| Bucket::new(dims, order, minus, shuffled)));
    Parallel::new(cores.collect(), shuffled)
}

fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> BlockLayouts {
    move |_| BlockLayouts::symmetric(BlockLayout::uniform(each, blocks))
}

#[test]
fn six_buckets_on_a_torus_that_is_not_a_cube_with_sizes_that_six_does_not_divide() {
    for dims in [[2, 3, 4], [3, 3, 3], [4, 1, 5]] {
        let ranks = dims.iter().product();
        for shuffled in [false, true] {
            for in_place in [false, true] {
                for each in [0, 1, 7, 12] {
                    let schedule = Allgather::new(six(&dims, shuffled));
                    check(&schedule, &uniform(each, ranks), CheckOptions { in_place }).unwrap_or_else(|error| {
                        panic!("{dims:?} shuffled {shuffled} in place {in_place} {each}: {error}")
                    });
                    let schedule = ReduceScatter::new(six(&dims, shuffled));
                    check(&schedule, &uniform(each, ranks), CheckOptions { in_place })
                        .unwrap_or_else(|error| panic!("mirror {dims:?} {shuffled} {in_place} {each}: {error}"));
                }
            }
        }
    }
}

#[test]
fn six_buckets_cost_what_the_thesis_says() {
    let network = Network::torus(&[8, 16, 32], &[true; 3]).unwrap();
    let schedule = Allgather::new(six(&[8, 16, 32], false));
    let counted = count(&schedule, &uniform(6, 4096), &network);
    let core: u64 = counted.phases[1..].iter().map(|phase| phase.messages).sum();
    let times: Vec<f64> = counted.phases[1..].iter().map(|phase| phase.time).collect();
    assert_eq!(core, 3 * 106);
    assert_eq!(times, [31.0, 496.0, 3968.0]);
}

#[test]
fn allgatherv_by_reordered_recursive_doubling() {
    for ranks in [1u32, 2, 5, 6, 7, 12, 13] {
        let counts: Vec<usize> = (0..ranks as usize).map(|rank| rank * 5 % 7).collect();
        let layouts = |_| BlockLayouts::symmetric(BlockLayout::from_counts(&counts));
        let order: Vec<u32> = (0..ranks).map(|at| (at * 5 + 2) % ranks).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let order = if sorted.iter().copied().eq(0..ranks) { order } else { (0..ranks).rev().collect() };
        for distance in [Distance::Doubling, Distance::Halving] {
            for shuffled in [false, true] {
                let core = Doubling::new(distance, order.clone(), shuffled);
                check(&Allgather::new(core.clone()), &layouts, CheckOptions::default())
                    .unwrap_or_else(|error| panic!("{ranks} {distance:?} {shuffled}: {error}"));
                check(&ReduceScatter::new(core.clone()), &layouts, CheckOptions::default())
                    .unwrap_or_else(|error| panic!("mirror {ranks} {distance:?} {shuffled}: {error}"));
                if !shuffled {
                    check(&Allgather::reordered(core), &layouts, CheckOptions::default())
                        .unwrap_or_else(|error| panic!("reordered {ranks} {distance:?}: {error}"));
                }
            }
        }
    }
}

#[test]
fn reduce_scatter_in_place_with_an_operator_that_does_not_commute() {
    for ranks in 1..40 {
        let core = Doubling::new(Distance::Halving, (0..ranks).collect(), false);
        let report = check(&ReduceScatter::new(core), &uniform(3, ranks), CheckOptions { in_place: true }).unwrap();
        assert!(report.rank_ordered, "{ranks} ranks");
    }
    let core = Doubling::new(Distance::Doubling, (0..8).collect(), false);
    assert!(!check(&ReduceScatter::new(core), &uniform(3, 8), CheckOptions::default()).unwrap().rank_ordered);
}

#[test]
fn reordered_doubling_costs_what_the_thesis_says() {
    let network = Network::torus(&[8; 3], &[true; 3]).unwrap();
    let order = match network.kind() {
        treepie_topology::NetworkKind::Torus(torus) => torus.morton_order(),
        _ => unreachable!(),
    };
    let schedule = Allgather::new(Doubling::new(Distance::Halving, order, true));
    let counted = count(&schedule, &uniform(1, 512), &network);
    let stages = &counted.phases[1].rounds;
    assert_eq!(stages.iter().map(|round| round.hops).collect::<Vec<_>>(), [4, 4, 4, 2, 2, 2, 1, 1, 1]);
    let congestion: Vec<f64> = stages.iter().map(|round| round.congestion()).collect();
    assert_eq!(congestion, [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
    assert_eq!((counted.phases[1].messages, counted.phases[1].time), (9, 574.0));
}

#[test]
fn a_broadcast_enters_each_group_of_nested_clusters_once() {
    use treepie_collectives::trees::{Bcast, RankTree, TreeShape};
    use treepie_topology::Network;
    let layouts = |_| BlockLayouts::symmetric(BlockLayout::uniform(31, 1));
    for text in ["clusters:2x3x2", "clusters:(3+1)+(2+4+1)", "clusters:2x2x2x2", "clusters:3x2x2@11+0+7+3+8+5+1"] {
        let network: Network = text.parse().unwrap();
        let clusters = network.as_clusters().unwrap();
        let group = |level, rank| clusters.group_of(level, network.node_of(rank));
        let of_level = |level| (0..network.ranks()).map(|rank| group(level, rank)).collect::<Vec<_>>();
        let groups: Vec<Vec<u32>> = (0..clusters.levels()).map(of_level).collect();
        for root in 0..network.ranks() {
            for (wan, lan) in [(TreeShape::Flat, TreeShape::Binomial), (TreeShape::Kary(2), TreeShape::Chain)] {
                let tree = Arc::new(RankTree::multi_layer(&groups, root, wan, lan));
                for level in 0..clusters.levels() {
                    let others: std::collections::BTreeSet<u32> = groups[level as usize].iter().copied().collect();
                    let entered =
                        (0..tree.ranks()).filter(|&rank| group(level, rank) != group(level, tree.parent(rank)));
                    assert_eq!(entered.count(), others.len() - 1, "{text}: level {level}, root {root}");
                }
                for segments in [1, 7] {
                    check(&Bcast::new(tree.clone(), segments, 2), &layouts, CheckOptions::default()).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_broadcast_over_two_layers_in_a_pipeline() {
    use treepie_collectives::trees::{Bcast, RankTree, TreeShape};
    let layouts = |_| BlockLayouts::symmetric(BlockLayout::uniform(31, 1));
    // Unequal clusters; in the second case their ranks are scattered.
    for clusters in [&[0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3][..], &[2, 0, 1, 1, 3, 0, 2, 1, 1, 0, 3, 1, 0]] {
        for root in 0..clusters.len() as u32 {
            for (wan, lan) in [(TreeShape::Flat, TreeShape::Binomial), (TreeShape::Kary(2), TreeShape::Kary(3))] {
                let tree = Arc::new(RankTree::two_layer(clusters, root, wan, lan));
                let cluster = |rank: u32| clusters[rank as usize];
                let crossings = (0..tree.ranks()).filter(|rank| cluster(*rank) != cluster(tree.parent(*rank)));
                assert_eq!(crossings.count(), 3, "the message enters each other cluster once");
                for segments in [1, 2, 7, 40] {
                    for window in [1, 2, 8, u32::MAX] {
                        check(&Bcast::new(tree.clone(), segments, window), &layouts, CheckOptions::default()).unwrap();
                    }
                }
            }
        }
    }
}
