//! Hierarchical algorithms on clusters of three levels, against the same ones that know only two of them.

use crate::common::{build, network, uniform};
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink};
use treepie_sim::{Settings, Workload, simulate_schedule};
use treepie_topology::Network;

/// Links of which each level is ten times slower than the one below: 20 us and 50 MB/s within clusters.
fn tenfold() -> Settings {
    let link = |factor: f64| WanLink { latency: 20.0 * factor, bandwidth: 50.0 / factor };
    ClusterCosts::per_level(PLogP::from_latency_bandwidth(20.0, 50.0), vec![link(10.0), link(100.0)]).into()
}

/// Microseconds of an algorithm with a vector, or all blocks, of this number of bytes.
fn micros(id: &str, network: &Network, bytes: usize) -> f64 {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, bytes / schedule.blocks().max(1) as usize);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    simulate_schedule(workload, network, &tenfold()).unwrap_or_else(|error| panic!("{id}: {error}")).micros()
}

/// The best time of an operation with some segments, coordinators and shapes that distinguishes these levels.
fn best(operation: &str, levels: &str, network: &Network, bytes: usize, segments: &[usize]) -> (f64, String) {
    let groups = network.as_clusters().unwrap().groups(1);
    let has_segments = !["barrier", "alltoall"].contains(&operation);
    let has_coordinators = ["bcast", "reduce", "allgather", "reduce_scatter", "allreduce"].contains(&operation);
    // All ranks of a cluster: long blocks need not be combined.
    let least_coordinators = if operation == "alltoall" { groups } else { 1 };
    let mut ids = Vec::new();
    for segments in segments.iter().filter(|segments| **segments == 1 || has_segments && bytes / **segments >= 1024) {
        for coordinators in [1, 2, groups - 1, groups] {
            let is_more = coordinators > least_coordinators;
            if is_more && (!has_coordinators || *segments == 1) || coordinators < least_coordinators {
                continue;
            }
            for lan in ["flat", "binomial", "chain"] {
                let mut arguments = vec![format!("levels={levels}")];
                if operation != "alltoall" {
                    arguments.push(format!("lan={lan}"));
                } else if lan != "flat" {
                    continue;
                }
                if has_segments {
                    arguments.push(format!("segments={segments}"));
                }
                if coordinators > 1 {
                    arguments.push(format!("coordinators={coordinators}"));
                }
                ids.push(format!("{operation}/hierarchical:{}", arguments.join(",")));
                if operation == "allreduce" && coordinators == 1 {
                    ids.push(format!("{operation}/hierarchical_linear:{}", arguments.join(",")));
                }
            }
        }
    }
    let times = ids.into_iter().map(|id| (micros(&id, network, bytes), id));
    times.min_by(|one, other| one.0.total_cmp(&other.0)).expect("there are some")
}

const OPERATIONS: [&str; 10] =
    ["barrier", "bcast", "scatter", "gather", "reduce", "allgather", "reduce_scatter", "allreduce", "scan", "alltoall"];

/// Long vectors on 4 x 4 x 4 ranks: never slower than with two levels, and far faster than with the innermost alone.
#[test]
fn three_levels_are_never_slower_than_two_for_long_vectors() {
    let network = network("clusters:4x4x4");
    for operation in OPERATIONS.into_iter().filter(|operation| *operation != "barrier") {
        let best = |levels| best(operation, levels, &network, 1 << 20, &[1, 16]);
        let (all, innermost, outermost) = (best("all"), best("innermost"), best("outermost"));
        let ratios = (innermost.0 / all.0, outermost.0 / all.0);
        println!("{operation}: {:.0} us by {}; innermost {:.2}, outermost {:.2}", all.0, all.1, ratios.0, ratios.1);
        assert!(ratios.0 >= 0.99 && ratios.1 >= 0.99, "{operation}: {all:?}, {innermost:?}, {outermost:?}");
        if !["scatter", "gather", "alltoall"].contains(&operation) {
            assert!(ratios.0 > 3.0, "{operation}: {all:?}, {innermost:?}");
        }
    }
}

/// Short messages take one latency between any two clusters if only these are distinguished.
#[test]
fn short_messages_prefer_the_innermost_level() {
    let network = network("clusters:4x4x4");
    for (operation, bytes) in [("barrier", 0), ("allgather", 64), ("reduce_scatter", 64)] {
        let [all, innermost] = ["all", "innermost"].map(|levels| best(operation, levels, &network, bytes, &[1]));
        assert!(innermost.0 < 0.9 * all.0, "{operation}: {all:?}, {innermost:?}");
    }
}
