//! What hierarchical algorithms send between groups.

use std::collections::BTreeMap;

use crate::common::{network, operation};
use treepie_collectives::alltoall::Grid;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::check::{CheckOptions, check};
use treepie_schedule::schedule::for_each_lane;
use treepie_schedule::{BlockLayout, BlockLayouts, Buf, BufferMap, Operation, Schedule, ScheduleOp};
use treepie_topology::Network;

/// Messages and elements over the link of each ordered pair of outermost groups.
type LinkLoads = BTreeMap<(u32, u32), (u64, usize)>;

fn link_loads(id: &str, network: &Network, total: usize) -> LinkLoads {
    let spec = CollectiveSpec::new(operation(id.split('/').next().unwrap(), 0), network);
    let schedule = registry::build(id, &spec).unwrap_or_else(|error| panic!("{error}"));
    let layouts = BlockLayouts::symmetric(BlockLayout::Even { total, blocks: schedule.blocks() });
    let clusters = network.as_clusters().unwrap();
    let group = |rank| clusters.group_of(clusters.levels() - 1, network.node_of(rank));
    let mut loads = LinkLoads::new();
    for_each_lane(&*schedule, |rank, _, _, rounds| {
        let buffers = BufferMap { schedule: &*schedule, layouts: &layouts, rank };
        for op in rounds.iter().flatten() {
            if let ScheduleOp::Send { to, part } = op
                && group(rank) != group(*to)
            {
                let load = loads.entry((group(rank), group(*to))).or_default();
                *load = (load.0 + 1, load.1 + buffers.range_len(*part));
            }
        }
    });
    loads
}

/// Asserts that all links between C groups are used, each for this number of messages and elements.
fn assert_even(id: &str, network: &Network, total: usize, expected: (u64, usize)) {
    let (loads, clusters) = (link_loads(id, network, total), network.as_clusters().unwrap());
    let groups = clusters.groups(clusters.levels() - 1) as usize;
    assert_eq!(loads.len(), groups * (groups - 1), "{id} on {network}");
    assert!(loads.values().all(|load| *load == expected), "{id} on {network}: {loads:?}, not {expected:?}");
}

#[test]
fn links_between_groups_carry_a_share_each() {
    const N: usize = 1 << 12;
    for text in ["clusters:4x4", "clusters:4x2x2", "clusters:4x2x2x4"] {
        let network = network(text);
        // Every block leaves its group once for each other group.
        for operation in ["allgather", "reduce_scatter"] {
            assert_even(&format!("{operation}/hierarchical"), &network, N, (1, N / 4));
            assert_even(&format!("{operation}/hierarchical:segments=8,coordinators=2"), &network, N, (8, N / 4));
        }
        // A quarter in each half.
        assert_even("allreduce/hierarchical", &network, N, (2, 2 * N / 4));
        assert_even("allreduce/hierarchical:segments=4,coordinators=4", &network, N, (8, 2 * N / 4));
        assert_even("allreduce/hierarchical_linear", &network, N, (1, N));
        assert_even("barrier/hierarchical", &network, 0, (1, 0));
        // Only to later groups.
        let loads = link_loads("scan/hierarchical", &network, N);
        assert!(loads.len() == 6 && loads.iter().all(|((from, to), load)| from < to && *load == (1, N)), "{loads:?}");
    }
}

#[test]
fn unequal_groups_have_equal_shares_of_an_allreduce() {
    let network = network("clusters:(1+2)+(7)+(3+3+2)");
    assert_even("allreduce/hierarchical", &network, 300, (2, 200));
    let loads = link_loads("allgather/hierarchical", &network, 18);
    assert_eq!([loads[&(0, 1)].1, loads[&(1, 0)].1, loads[&(2, 0)].1], [3, 7, 8]);
}

/// A tree along the fast links goes around those that are slow, from every root.
#[test]
fn trees_along_links_avoid_slow_ones() {
    let network = network("clusters:4x4");
    // From group 0 to 1, and from 3 to 0.
    let slow = [(0, 1), (3, 0)];
    for root in [0, 5, 10, 15] {
        let spec = CollectiveSpec::new(Operation::Bcast { root }, &network);
        let schedule = registry::build("bcast/hierarchical:wan=links4-300000c", &spec).unwrap();
        let mut crossed = Vec::new();
        for_each_lane(&*schedule, |rank, _, _, rounds| {
            let sends = rounds.iter().flatten().filter_map(|op| match op {
                ScheduleOp::Send { to, .. } => Some((rank / 4, to / 4)),
                _ => None,
            });
            crossed.extend(sends.filter(|(from, to)| from != to));
        });
        assert!(crossed.len() == 3 && !crossed.iter().any(|link| slow.contains(link)), "from {root}: {crossed:?}");
    }
}

/// With a tree for each other group, each link carries a share of a broadcast once, instead of the root's links all.
#[test]
fn several_coordinators_share_a_broadcast() {
    const N: usize = 300;
    let network = network("clusters:4x4");
    let from_root: LinkLoads = (1..4).map(|group| ((0, group), (1, N))).collect();
    assert_eq!(link_loads("bcast/hierarchical", &network, N), from_root);
    let to_root: LinkLoads = (1..4).map(|group| ((group, 0), (1, N))).collect();
    assert_eq!(link_loads("reduce/hierarchical", &network, N), to_root);
    for (id, reversed) in [("bcast/hierarchical:coordinators=3", false), ("reduce/hierarchical:coordinators=3", true)] {
        let loads = link_loads(id, &network, N);
        // From the root to the first group of each tree, and among all others but back to the root.
        assert_eq!(loads.len(), 3 + 3 * 2, "{id}: {loads:?}");
        assert!(loads.values().all(|load| *load == (1, N / 3)), "{id}: {loads:?}");
        assert!(loads.keys().all(|(from, to)| if reversed { *from } else { *to } != 0), "{id}: {loads:?}");
    }
    // No more trees than ranks in a cluster.
    let two = link_loads("bcast/hierarchical:coordinators=3", &crate::common::network("clusters:4x2"), N);
    assert_eq!((two.len(), two[&(0, 1)]), (2 + 2 * 2, (1, N / 2)), "{two:?}");
}

/// A window is that of each tree.
#[test]
fn several_coordinators_have_windows() {
    let network = network("clusters:4x4");
    for operation in ["bcast", "reduce"] {
        let spec = CollectiveSpec::new(crate::common::operation(operation, 0), &network);
        let window = |arguments: &str| {
            let id = format!("{operation}/hierarchical:segments=12,coordinators=3{arguments}");
            registry::build(&id, &spec).unwrap().phase(0).window
        };
        assert_eq!((window(",window=2"), window("")), (6, u32::MAX), "{operation}");
    }
}

/// Reductions with operators that are not commutative follow groups of consecutive ranks, to any root.
#[test]
fn reductions_in_rank_order_need_consecutive_groups() {
    let build = |id: &str, text: &str| {
        let network = network(text);
        let operation = operation(id.split('/').next().unwrap(), 5);
        let spec = CollectiveSpec { commutative: false, ..CollectiveSpec::new(operation, &network) };
        let schedule = registry::build(id, &spec).map_err(|error| error.to_string())?;
        let layouts = BlockLayouts::symmetric(BlockLayout::Even { total: 7, blocks: schedule.blocks() });
        Ok::<bool, String>(check(&*schedule, &|_| layouts.clone(), CheckOptions::default()).unwrap().rank_ordered)
    };
    for id in ["reduce/hierarchical:segments=3,coordinators=2", "allreduce/hierarchical_linear:segments=3"] {
        for text in ["clusters:3+4+2", "clusters:2x2x2", "flat:12,ppn=4"] {
            assert_eq!(build(id, text), Ok(true), "{id} on {text}");
        }
        let message = build(id, "clusters:2x3@0+3+1+4+2+5").unwrap_err();
        assert!(message.contains("or that the ranks of each cluster are consecutive; these do: "), "{message}");
    }
}

#[test]
fn blocks_for_a_cluster_are_combined() {
    let network = network("clusters:4x4");
    // A message of each coordinator, instead of one of each pair of ranks.
    assert_even("alltoall/hierarchical", &network, 16, (1, 16));
    assert_even("alltoall/hierarchical:coordinators=2", &network, 16, (2, 16));
    assert_even("alltoall/hierarchical:coordinators=9", &network, 16, (4, 16));
    assert_even("alltoall/linear", &network, 16, (16, 16));
    let error = |id: &str, text: &str| {
        let network = crate::common::network(text);
        let spec = CollectiveSpec::new(operation(id.split('/').next().unwrap(), 0), &network);
        registry::build(id, &spec).err().expect("an error").to_string()
    };
    let message = error("scan/hierarchical", "clusters:2x2@0+2+1+3");
    assert!(
        message.contains("it requires that the ranks of each cluster are consecutive; these do: scan/"),
        "{message}"
    );
}

/// Groups of one rank to many, in order, dealt in turn and shuffled.
#[test]
fn blocks_of_unequal_clusters_are_combined() {
    for (text, sizes) in [
        ("clusters:3+1+8+5", vec![3, 1, 8, 5]),
        ("clusters:3+1+8+5@0+3+4+12+1+5+13+2+6+14+7+15+8+16+9+10+11", vec![3, 1, 8, 5]),
        ("clusters:1+1+9", vec![1, 1, 9]),
        ("clusters:(3+1)+(2+4+1)+(1)", vec![4, 7, 1]),
        ("clusters:(2x(1+3))+(2x2x3)@19+3-9+12+0+16", vec![6, 5]),
    ] {
        let network = network(text);
        let ranks = network.ranks() as usize;
        for coordinators in [1, 2, 3, 99] {
            let loads = link_loads(&format!("alltoall/hierarchical:coordinators={coordinators}"), &network, ranks);
            let mut expected = LinkLoads::new();
            for (from, of_from) in (0..).zip(&sizes) {
                for (to, of_to) in (0..).zip(&sizes).filter(|(to, _)| *to != from) {
                    expected.insert((from, to), (coordinators.min(*of_from as u64), of_from * of_to));
                }
            }
            assert_eq!(loads, expected, "{coordinators} coordinators on {text}");
        }
    }
}

/// With a coordinator for each rank it sends the messages and blocks of a grid of the levels, in the reverse order.
#[test]
fn an_alltoall_of_equal_clusters_is_that_on_a_grid() {
    let sent = |schedule: &dyn Schedule, rank: u32| {
        let layouts = BlockLayouts::symmetric(BlockLayout::uniform(1, schedule.ranks()));
        let buffers = BufferMap { schedule, layouts: &layouts, rank };
        let mut sent = Vec::new();
        let mut rounds = 0;
        treepie_schedule::schedule::for_each_lane_of(schedule, [rank], |_, _, _, list| {
            rounds += list.len();
            for op in list.iter().flatten() {
                if let ScheduleOp::Send { to, part } = op {
                    sent.push((*to, buffers.range_len(*part)));
                }
            }
        });
        sent.sort_unstable();
        let scratch: usize = (0..schedule.scratch_buffers()).map(|tmp| buffers.buffer_len(Buf::Tmp(tmp))).sum();
        (sent, rounds, scratch)
    };
    for (text, dims) in [
        ("clusters:4x4", &[4, 4][..]),
        ("clusters:2x8", &[8, 2]),
        ("clusters:2x3x4", &[4, 3, 2]),
        ("clusters:2x2x2x2", &[2; 4]),
        ("flat:12,ppn=4", &[4, 3]),
    ] {
        let network = network(text);
        let schedule = registry::build(
            "alltoall/hierarchical:coordinators=99",
            &CollectiveSpec::new(Operation::Alltoall, &network),
        )
        .unwrap();
        for rank in 0..network.ranks() {
            assert_eq!(sent(&*schedule, rank), sent(&Grid::new(dims), rank), "rank {rank} on {text}");
        }
    }
}

/// Clusters of other clusters, hosts of which the last has fewer ranks, and leaves; one group, and groups of one rank.
/// Each with the ranks in order, dealt to the nodes in turn, and in the order of a multiplication.
#[test]
fn alltoalls_over_any_groups_and_placements() {
    let algorithm = registry::find("alltoall/hierarchical").unwrap();
    let mut proofs = 0;
    for ranks in 1..=33u32 {
        let sizes = |pattern: &[u32]| {
            let mut left = ranks;
            let sizes = pattern.iter().cycle().map_while(|size| {
                let size = (*size).min(left);
                left -= size;
                (size > 0).then_some(size)
            });
            sizes.collect::<Vec<u32>>()
        };
        let text = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        let nested = |sizes: &[u32]| sizes.chunks(3).map(|of| format!("({})", text(of))).collect::<Vec<_>>().join("+");
        let unequal = [&[1][..], &[ranks], &[ranks.div_ceil(2)], &[1, 9], &[7, 1, 2], &[4], &[16, 1, 1, 3]].map(sizes);
        let mut texts: Vec<String> = unequal.iter().map(|sizes| format!("clusters:{}", text(sizes))).collect();
        texts.extend([&[2, 1, 5][..], &[3], &[1, 1, 6, 2]].map(|of| format!("clusters:{}", nested(&sizes(of)))));
        texts.extend([1, 2, 4, 64].map(|ppn| format!("flat:{ranks},ppn={ppn}")));
        for (number, text) in texts.iter().enumerate() {
            let Ok(in_order) = text.parse::<Network>() else { panic!("{text}") };
            let nodes: Vec<u32> = (0..ranks).map(|rank| in_order.node_of(rank)).collect();
            // Ranks 0, s, 2s, ... on nodes one after the other, for a number s without a common factor.
            let step = [5, 7, 3, 2, 11].into_iter().find(|step| !ranks.is_multiple_of(*step)).unwrap_or(1);
            let dealt = (0..ranks).step_by(3).chain((1..ranks).step_by(3)).chain((2..ranks).step_by(3));
            let mut networks = vec![in_order.clone()];
            for order in [dealt.collect::<Vec<u32>>(), (0..ranks).map(|rank| rank * step % ranks).collect()] {
                let placement = order.into_iter().map(|rank| nodes[rank as usize]).collect();
                networks.push(in_order.clone().with_placement(placement).unwrap());
            }
            for (place, network) in networks.iter().enumerate() {
                let spec = CollectiveSpec::new(Operation::Alltoall, network);
                if algorithm.check_applicable(&spec).is_err() {
                    // One host, or one rank on each, is a flat network.
                    assert!(text.starts_with("flat:"), "{text}");
                    continue;
                }
                for coordinators in [1, 2, 3, 99] {
                    for levels in ["all", "innermost", "outermost"] {
                        let id = format!("alltoall/hierarchical:levels={levels},coordinators={coordinators}");
                        let schedule = registry::build(&id, &spec).unwrap_or_else(|error| panic!("{error}"));
                        let each = [1, 3, 0, 2][(number + place + ranks as usize) % 4];
                        let layout = BlockLayouts::symmetric(BlockLayout::uniform(each, ranks));
                        check(&*schedule, &|_| layout.clone(), CheckOptions::default())
                            .unwrap_or_else(|fault| panic!("{id} on {network}: {fault}"));
                        proofs += 1;
                    }
                }
            }
        }
    }
    assert!(proofs > 10_000, "{proofs}");
}

/// Memory and messages are spread over the ranks of a group.
#[test]
fn coordinators_of_other_groups_are_different_ranks() {
    let network = network("clusters:16x8");
    let spec = CollectiveSpec::new(Operation::Alltoall, &network);
    let schedule = registry::build("alltoall/hierarchical", &spec).unwrap();
    let layouts = BlockLayouts::symmetric(BlockLayout::uniform(1, 128));
    let mut sent = [0; 128];
    let mut received = [0; 128];
    for_each_lane(&*schedule, |rank, _, _, rounds| {
        for op in rounds.iter().flatten() {
            match op {
                ScheduleOp::Send { to, .. } if to / 8 != rank / 8 => sent[rank as usize] += 1,
                ScheduleOp::Recv { from, .. } if from / 8 != rank / 8 => received[rank as usize] += 1,
                _ => {}
            }
        }
    });
    // 15 other groups, on 8 ranks.
    assert!(sent.iter().chain(&received).all(|messages| (1..=2).contains(messages)), "{sent:?} {received:?}");
    for rank in 0..128 {
        let buffers = BufferMap { schedule: &*schedule, layouts: &layouts, rank };
        // What its group sends to two others, and what it receives from two, with its own.
        let lengths = [0, 1].map(|tmp| buffers.buffer_len(Buf::Tmp(tmp)));
        assert!(lengths[0] <= 2 * 64 + 8 && lengths[1] <= 2 * 64, "{lengths:?}");
    }
}
