//! What hierarchical algorithms send between groups.

use std::collections::BTreeMap;

use crate::common::{network, operation};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::check::{CheckOptions, check};
use treepie_schedule::schedule::for_each_lane;
use treepie_schedule::{BlockLayout, BlockLayouts, BufferMap, Operation, ScheduleOp};
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
    // A message for each rank of the other cluster, instead of each pair of ranks.
    assert_even("alltoall/hierarchical", &network, 16, (4, 16));
    assert_even("alltoall/linear", &network, 16, (16, 16));
    let error = |id: &str, text: &str| {
        let network = crate::common::network(text);
        let spec = CollectiveSpec::new(operation(id.split('/').next().unwrap(), 0), &network);
        registry::build(id, &spec).err().expect("an error").to_string()
    };
    let message = error("alltoall/hierarchical", "clusters:3+4");
    assert!(message.contains("all groups of a level have consecutive ranks, and the same number"), "{message}");
    let message = error("scan/hierarchical", "clusters:2x2@0+2+1+3");
    assert!(
        message.contains("it requires that the ranks of each cluster are consecutive; these do: scan/"),
        "{message}"
    );
}
