//! Playing one rank gives what playing all gives, where it says that it can.

mod common;

use common::{build, links, loggp, network, operation, play_id, uniform};
use treepie_collectives::registry::{self, Request};
use treepie_schedule::{Layout, Layouts};
use treepie_sim::costs::{Links, LogGP};
use treepie_sim::{Piece, Played, Settings, Sizes, play, symmetric};
use treepie_topology::Network;

fn one_rank(id: &str, network: &Network, settings: &Settings, each: usize) -> Option<Played> {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, each);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    symmetric::play(piece, network, settings).unwrap()
}

#[test]
fn one_rank_stands_for_all() {
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
        ("allgather/bucket_k:6", "torus:4x4x4", Links { efficiency: 0.93, ..Links::new(6.25, 0.0025) }.into()),
        ("allgather/bruck", "torus:5x3", links()),
        ("allgather/bruck", "torus:9", links()),
        ("alltoall/pairwise", "flat:11", loggp()),
    ] {
        let network = network(text);
        let Some(one) = one_rank(id, &network, &settings, 5000) else {
            // Bruck's ranks are in a line, which a torus of several dimensions is not.
            assert!(id == "allgather/bruck" && text == "torus:5x3", "{id} on {text} is symmetric");
            continue;
        };
        let all = play_id(id, &network, &settings, 5000);
        assert_eq!(one.makespan, all.makespan, "{id} on {text}, {:?}", settings.costs);
        assert_eq!((one.messages, one.bytes), (all.messages, all.bytes), "{id} on {text}");
        assert_eq!(one.worst_link.map(|(_, bytes)| bytes), all.worst_link.map(|(_, bytes)| bytes), "{id} on {text}");
        assert_eq!(all.first_done, all.makespan, "{id} on {text}: all ranks are done together");
    }
}

#[test]
fn what_is_not_symmetric_is_not_taken_for_it() {
    for (id, text, settings) in [
        ("bcast/binomial", "flat:16", loggp()),
        ("allgather/distance_doubling", "flat:12", loggp()),
        ("allgather/distance_doubling", "torus:4x4", links()),
        ("allgather/bucket", "mesh:4x4", links()),
        ("allgather/ring", "torus:4x4", links()),
        ("allgather/ring", "clos:r10,t6,n24", links()),
        ("gather/binomial", "flat:8", links()),
        ("scan/linear", "flat:8", loggp()),
        // Even and odd places send another way over half a ring.
        ("allgather/bruck", "torus:8", links()),
    ] {
        assert_eq!(one_rank(id, &network(text), &settings, 100), None, "{id} on {text}");
    }
    let slow = treepie_sim::noise::Noise { slow_ranks: vec![(3, 2.0)], ..Default::default() };
    assert_eq!(one_rank("allgather/ring", &network("flat:8"), &Settings { noise: slow, ..loggp() }, 8), None);
}

/// Few ranks, so that all are looked at, and parameters that make much happen at one instant.
#[test]
fn one_rank_is_played_only_where_all_are_served_alike() {
    let loggp = |latency, overhead, gap, per_byte| Settings::from(LogGP { latency, overhead, gap, per_byte });
    let gamma = |settings: Settings| Settings { gamma: 0.125, ..settings };
    let ported = |ports, alpha| Links { ports: Some(ports), hop: 1.0, ..Links::new(alpha, 0.125) };
    let settings = [
        loggp(1.0, 1.0, 1.0, 0.0),
        gamma(loggp(2.0, 1.0, 1.0, 0.125)),
        gamma(loggp(2.0, 0.0, 1.0, 0.125)),
        gamma(Links::new(1.0, 0.125).into()),
        gamma(Links::new(0.0, 0.125).into()),
        Links::new(0.0, 0.125).into(),
        gamma(ported(1, 1.0).into()),
        gamma(ported(2, 0.0).into()),
    ];
    let (mut played, mut left) = (0, 0);
    for text in ["flat:12", "flat:16", "torus:6", "torus:3x4", "torus:3x5", "torus:5x13", "torus:4x4x5"] {
        let network = network(text);
        for id in registry::all().iter().flat_map(|algorithm| algorithm.variants()) {
            let Ok(schedule) = registry::build(&id, &Request::new(operation(&id, 0), &network)) else { continue };
            let sizes = uniform(&*schedule, if id.starts_with("barrier") { 0 } else { 8 });
            let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
            for settings in &settings {
                let Some(one) = symmetric::play(piece, &network, settings).unwrap() else {
                    left += 1;
                    continue;
                };
                let all = play(piece, &network, settings).unwrap();
                assert_eq!(one.makespan, all.makespan, "{id} on {text}, {settings:?}");
                assert_eq!((one.messages, one.bytes), (all.messages, all.bytes), "{id} on {text}");
                played += 1;
            }
        }
    }
    assert!(played > 1500 && left > 1500, "{played} and {left}");
}

/// No sample of ranks and rounds would find the one block that is longer.
#[test]
fn blocks_of_different_lengths_are_not_symmetric() {
    for (ranks, longer) in [(12, 7), (20_000, 12_345)] {
        let network = Network::flat(ranks);
        let schedule = build("allgather/ring", &network);
        let mut counts = vec![8; ranks as usize];
        let played = |counts: &[usize]| {
            let sizes = Sizes::Shared(Layouts::both(Layout::of_counts(counts)));
            let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
            symmetric::play(piece, &network, &links()).unwrap()
        };
        assert!(played(&counts).is_some());
        counts[longer] = 1_000_000;
        assert_eq!(played(&counts), None);
    }
    let schedule = build("allgather/ring", &Network::flat(12));
    let sizes = Sizes::Shared(Layouts::both(Layout::Even { total: 30, blocks: 12 }));
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    assert_eq!(symmetric::play(piece, &Network::flat(12), &links()).unwrap(), None);
}

#[test]
fn a_ring_of_a_million_ranks_is_answered() {
    let network = Network::flat(1 << 20);
    let played = one_rank("allgather/ring", &network, &links(), 64).unwrap();
    // (P - 1)(alpha + n beta)
    assert_eq!(played.makespan, ((1 << 20) - 1) * (6_250_000 + 64 * 2500));
    assert_eq!(played.messages, ((1 << 20) - 1) << 20);
}
