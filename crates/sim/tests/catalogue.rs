//! Every registered algorithm completes on every kind of network, and sends the counted messages and bytes.

use crate::common::{is_long_run, links, loggp, network, operation, uniform, wide_area};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::count::count;
use treepie_sim::costs::{LinkCosts, Routing};
use treepie_sim::{Settings, Workload, lockstep_cost, simulate_schedule};
use treepie_topology::Network;

fn simulate_all(network: &Network, settings: &[Settings], roots: &[u32]) -> u32 {
    let mut simulations = 0;
    for algorithm in registry::all() {
        let roots = if operation(&algorithm.id, 0).root().is_some() { roots } else { &[0] };
        for (variant, root) in algorithm.variants().into_iter().flat_map(|v| roots.iter().map(move |r| (v.clone(), *r)))
        {
            let request = CollectiveSpec::new(operation(&variant, root), network);
            let Ok(schedule) = registry::build(&variant, &request) else { continue };
            let sizes = uniform(&*schedule, if variant.starts_with("barrier") { 0 } else { 120 });
            let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 8 };
            let counted = count(&*schedule, &|rank| sizes.layouts(rank).clone(), network);
            for settings in settings {
                let result = simulate_schedule(workload, network, settings).unwrap_or_else(|error| {
                    panic!("{variant} on {network}, root {root}, {:?}: {error}", settings.costs)
                });
                let sent = (result.messages, result.bytes);
                assert_eq!(sent, (counted.messages, counted.volume * 8), "{variant} on {network}, root {root}");
                assert!(result.first_completion <= result.makespan);
                simulations += 1;
            }
        }
    }
    simulations
}

#[test]
fn on_flat_networks() {
    let mut simulations = 0;
    for ranks in 1..=17 {
        let gamma = Settings { gamma: 0.001, ..loggp() };
        simulations += simulate_all(&Network::flat(ranks), &[loggp(), gamma, links()], &[0, ranks - 1]);
    }
    assert!(simulations > 5000, "{simulations}");
}

#[test]
fn on_tori_and_meshes() {
    let texts =
        ["torus:3x5", "torus:4x4", "mesh:4x4", "torus:2x2x2x2", "mesh:2x3x2", "torus:17", "mesh:4x4@0-2+9+14+7"];
    for text in texts {
        simulate_all(&network(text), &[links(), loggp()], &[0, 1]);
    }
}

#[test]
fn on_clos_networks() {
    for ranks in [1, 5, 12, 17] {
        let fixed = LinkCosts { routing: Routing::Static, ..LinkCosts::new(6.25, 0.0025) };
        simulate_all(&network("clos:r6,t4").for_ranks(ranks).unwrap(), &[links(), fixed.into()], &[0, ranks / 2]);
    }
}

#[test]
fn on_clusters() {
    for (text, clusters) in [("clusters:1x1", 1), ("clusters:3+5+8", 3), ("clusters:4x4", 4), ("clusters:2+1", 2)] {
        let network = network(text);
        let last = network.ranks() - 1;
        simulate_all(&network, &[wide_area(clusters), links(), loggp()], &[0, last]);
    }
    for text in ["clusters:2x2x3", "clusters:(3+1)+(2+4+1)"] {
        let network = network(text);
        let nested = Settings::for_network(&network).unwrap();
        simulate_all(&network, &[nested, links(), loggp()], &[0, network.ranks() - 1]);
    }
}

#[test]
fn on_hosts_of_several_ranks() {
    for text in ["flat:8,ppn=4", "flat:13,ppn=3", "flat:16,ppn=4@15+0+1+7+4+2"] {
        let network = network(text);
        simulate_all(&network, &[links(), loggp()], &[0, network.ranks() - 1]);
    }
}

/// Maximum number of messages of an algorithm simulated by events on a large network.
const MAX_EVENT_MESSAGES: u64 = 3 << 20;

/// Simulates algorithms on a large network by events, and only in lockstep where there are P^2 messages. Returns the
/// number of each.
fn large(network: &Network, chosen: impl Fn(&str) -> bool) -> (u32, u32) {
    let ranks = u64::from(network.ranks());
    let limit = MAX_EVENT_MESSAGES.min(ranks * (ranks - 1) - 1);
    let (mut num_by_events, mut num_lockstep) = (0, 0);
    for algorithm in registry::all().iter().filter(|algorithm| chosen(&algorithm.id)) {
        let Ok(schedule) = algorithm.build(&CollectiveSpec::new(operation(&algorithm.id, 0), network)) else {
            continue;
        };
        let sizes = uniform(&*schedule, if algorithm.id.starts_with("barrier") { 0 } else { 96 });
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        let begun = std::time::Instant::now();
        let lockstep = lockstep_cost(workload, network, &links()).unwrap();
        let lockstep_seconds = begun.elapsed().as_secs_f64();
        assert!(lockstep.micros > 0.0, "{} on {network}", algorithm.id);
        if lockstep.messages > limit {
            println!(
                "{} on {network}: {} messages, {lockstep_seconds:.2} s in lockstep",
                algorithm.id, lockstep.messages
            );
            num_lockstep += 1;
            continue;
        }
        let result = simulate_schedule(workload, network, &links())
            .unwrap_or_else(|error| panic!("{} on {network}: {error}", algorithm.id));
        let total = begun.elapsed().as_secs_f64();
        println!(
            "{} on {network}: {} messages, {lockstep_seconds:.2} s in lockstep, {:.2} s by events",
            algorithm.id,
            lockstep.messages,
            total - lockstep_seconds
        );
        let sent = (result.messages, result.bytes);
        assert_eq!(sent, (lockstep.messages, lockstep.bytes), "{} on {network}", algorithm.id);
        num_by_events += 1;
    }
    (num_by_events, num_lockstep)
}

/// Algorithms simulated on 16x16x16 unless the full range is requested.
const SOME: [&str; 10] = [
    "barrier/dissemination",
    "bcast/binomial",
    "scatter/mesh",
    "allgather/bucket",
    "allgather/bruck",
    "allgather/torus_reordered",
    "allreduce/recursive_doubling",
    "reduce_scatter/bucket",
    "scan/recursive_doubling",
    "alltoall/linear",
];

/// Algorithms on 16x16x16, in long runs also without wrap-around links.
#[test]
fn on_4096_nodes() {
    for text in if is_long_run() { vec!["torus:16x16x16", "mesh:16x16x16"] } else { vec!["torus:16x16x16"] } {
        let (num_by_events, num_lockstep) = large(&network(text), |id| is_long_run() || SOME.contains(&id));
        println!("{text}: {num_by_events} by events, {num_lockstep} in lockstep");
        assert!(num_by_events >= if is_long_run() { 79 } else { 9 }, "{text}: {num_by_events} by events");
        assert!(num_lockstep >= if is_long_run() { 12 } else { 1 }, "{text}: {num_lockstep} in lockstep");
    }
}

#[test]
fn all_algorithms_on_256_nodes() {
    for text in ["torus:8x8x4", "mesh:8x8x4"] {
        let (num_by_events, num_lockstep) = large(&network(text), |_| true);
        println!("{text}: {num_by_events} by events, {num_lockstep} in lockstep");
        assert!(
            num_by_events >= 79 && num_lockstep >= 12,
            "{text}: {num_by_events} by events, {num_lockstep} in lockstep"
        );
    }
}

#[test]
fn recursive_doubling_on_a_million_ranks() {
    let ranks = if is_long_run() { 1 << 20 } else { 1 << 16 };
    let network = Network::flat(ranks);
    let request = CollectiveSpec::new(operation("allreduce", 0), &network);
    let schedule = registry::build("allreduce/recursive_doubling", &request).unwrap();
    let sizes = uniform(&*schedule, 1);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 8 };
    let result = simulate_schedule(workload, &network, &loggp()).unwrap();
    let rounds = u64::from(ranks.ilog2());
    assert_eq!(result.messages, u64::from(ranks) * rounds);
    // Each round L + 2 o + 7 G.
    assert_eq!(result.makespan, rounds * (4_290_000 + 2 * 2_870_000 + 7 * 2670));
    assert!(result.memory_ranks <= 200 * ranks as usize, "{result:?}");
    // 1M ranks in less than 2 GB.
    assert!(result.memory < 2048 * ranks as usize, "{result:?}");
}
