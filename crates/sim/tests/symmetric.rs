//! Simulating one representative rank gives the same result as simulating all, where it applies.

use crate::common::{build, links, loggp, network, operation, simulate_id, uniform};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{BlockLayout, BlockLayouts};
use treepie_sim::costs::{LinkCosts, LogGP};
use treepie_sim::{BlockSizes, Settings, SimResult, Workload, simulate_schedule, symmetric};
use treepie_topology::Network;

fn simulate_symmetric(id: &str, network: &Network, settings: &Settings, each: usize) -> Option<SimResult> {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, each);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    symmetric::simulate(workload, network, settings).unwrap()
}

#[test]
fn one_rank_represents_all() {
    let gamma = |settings: Settings| Settings { gamma: 0.001, ..settings };
    for (id, text, settings) in [
        ("allgather/ring", "flat:13", loggp()),
        ("allgather/ring", "flat:200", loggp()),
        ("allgather/ring", "flat:13", links()),
        ("allgather/bruck", "flat:37", loggp()),
        ("allgather/bruck", "flat:37", links()),
        ("barrier/dissemination", "flat:100", loggp()),
        ("barrier/dissemination", "flat:16", links()),
        ("reduce_scatter/ring", "flat:10", gamma(loggp())),
        ("allreduce/ring", "flat:10", gamma(links())),
        ("allgather/distance_doubling", "flat:64", loggp()),
        ("allreduce/recursive_doubling", "flat:64", gamma(loggp())),
        ("allreduce/recursive_doubling", "flat:64", links()),
        ("allgather/bucket", "torus:4x4x4", links()),
        ("allgather/bucket", "torus:3x5", links()),
        ("allgather/bucket_k:6", "torus:4x4x4", links()),
        ("allgather/bucket_k:6", "torus:4x6x5", links()),
        ("allgather/bucket_k:6", "torus:4x4x4", loggp()),
        ("reduce_scatter/bucket_k:6", "torus:4x4x4", gamma(links())),
        (
            "allgather/bucket_k:6",
            "torus:4x4x4",
            LinkCosts { port_efficiency: 0.93, ..LinkCosts::new(6.25, 0.0025) }.into(),
        ),
        ("allgather/bruck", "torus:5x3", links()),
        ("allgather/bruck", "torus:9", links()),
        ("alltoall/pairwise", "flat:11", loggp()),
    ] {
        let network = network(text);
        let Some(one) = simulate_symmetric(id, &network, &settings, 5000) else {
            // Bruck's ranks form a ring, which a torus of several dimensions does not.
            assert!(id == "allgather/bruck" && text == "torus:5x3", "{id} on {text} is symmetric");
            continue;
        };
        let all = simulate_id(id, &network, &settings, 5000);
        assert_eq!(one.makespan, all.makespan, "{id} on {text}, {:?}", settings.costs);
        assert_eq!((one.messages, one.bytes), (all.messages, all.bytes), "{id} on {text}");
        assert_eq!(
            one.busiest_link.map(|(_, bytes)| bytes),
            all.busiest_link.map(|(_, bytes)| bytes),
            "{id} on {text}"
        );
        assert_eq!(all.first_completion, all.makespan, "{id} on {text}: all ranks are done together");
    }
}

#[test]
fn asymmetric_schedules_are_refused() {
    for (id, text, settings) in [
        ("bcast/binomial", "flat:16", loggp()),
        ("allgather/distance_doubling", "flat:12", loggp()),
        ("allgather/distance_doubling", "torus:4x4", links()),
        ("allgather/bucket", "mesh:4x4", links()),
        ("allgather/ring", "torus:4x4", links()),
        ("allgather/ring", "clos:r10,t6,n24", links()),
        ("gather/binomial", "flat:8", links()),
        ("scan/linear", "flat:8", loggp()),
        // Even and odd coordinates choose different directions over half a ring.
        ("allgather/bruck", "torus:8", links()),
    ] {
        assert_eq!(simulate_symmetric(id, &network(text), &settings, 100), None, "{id} on {text}");
    }
    let slow = treepie_sim::noise::Noise { slow_ranks: vec![(3, 2.0)], ..Default::default() };
    assert_eq!(simulate_symmetric("allgather/ring", &network("flat:8"), &Settings { noise: slow, ..loggp() }, 8), None);
}

/// Few ranks, so that all are verified, and parameters that cause many simultaneous events.
#[test]
fn one_rank_is_simulated_only_where_all_are_served_alike() {
    let loggp = |latency, overhead, gap, per_byte| Settings::from(LogGP { latency, overhead, gap, per_byte });
    let gamma = |settings: Settings| Settings { gamma: 0.125, ..settings };
    let ported = |ports, alpha| LinkCosts { ports: Some(ports), per_hop: 1.0, ..LinkCosts::new(alpha, 0.125) };
    let settings = [
        loggp(1.0, 1.0, 1.0, 0.0),
        gamma(loggp(2.0, 1.0, 1.0, 0.125)),
        gamma(loggp(2.0, 0.0, 1.0, 0.125)),
        gamma(LinkCosts::new(1.0, 0.125).into()),
        gamma(LinkCosts::new(0.0, 0.125).into()),
        LinkCosts::new(0.0, 0.125).into(),
        gamma(ported(1, 1.0).into()),
        gamma(ported(2, 0.0).into()),
    ];
    let (mut simulated, mut refused) = (0, 0);
    for text in ["flat:12", "flat:16", "torus:6", "torus:3x4", "torus:3x5", "torus:5x13", "torus:4x4x5"] {
        let network = network(text);
        for id in registry::all().iter().flat_map(|algorithm| algorithm.variants()) {
            let Ok(schedule) = registry::build(&id, &CollectiveSpec::new(operation(&id, 0), &network)) else {
                continue;
            };
            let sizes = uniform(&*schedule, if id.starts_with("barrier") { 0 } else { 8 });
            let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
            for settings in &settings {
                let Some(one) = symmetric::simulate(workload, &network, settings).unwrap() else {
                    refused += 1;
                    continue;
                };
                let all = simulate_schedule(workload, &network, settings).unwrap();
                assert_eq!(one.makespan, all.makespan, "{id} on {text}, {settings:?}");
                assert_eq!((one.messages, one.bytes), (all.messages, all.bytes), "{id} on {text}");
                simulated += 1;
            }
        }
    }
    assert!(simulated > 1500 && refused > 1500, "{simulated} and {refused}");
}

/// A sample of ranks and rounds would miss the one block that is longer.
#[test]
fn blocks_of_different_lengths_are_not_symmetric() {
    for (ranks, longer) in [(12, 7), (20_000, 12_345)] {
        let network = Network::flat(ranks);
        let schedule = build("allgather/ring", &network);
        let mut counts = vec![8; ranks as usize];
        let simulated = |counts: &[usize]| {
            let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::from_counts(counts)));
            let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
            symmetric::simulate(workload, &network, &links()).unwrap()
        };
        assert!(simulated(&counts).is_some());
        counts[longer] = 1_000_000;
        assert_eq!(simulated(&counts), None);
    }
    let schedule = build("allgather/ring", &Network::flat(12));
    let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::Even { total: 30, blocks: 12 }));
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    assert_eq!(symmetric::simulate(workload, &Network::flat(12), &links()).unwrap(), None);
}

#[test]
fn a_ring_of_a_million_ranks() {
    let network = Network::flat(1 << 20);
    let simulated = simulate_symmetric("allgather/ring", &network, &links(), 64).unwrap();
    // (P - 1)(alpha + n beta)
    assert_eq!(simulated.makespan, ((1 << 20) - 1) * (6_250_000 + 64 * 2500));
    assert_eq!(simulated.messages, ((1 << 20) - 1) << 20);
}
