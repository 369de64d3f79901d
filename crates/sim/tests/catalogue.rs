//! Every algorithm of the catalogue comes to its end on every kind of network, and moves what was counted.

mod common;

use common::{links, loggp, long, network, operation, uniform, wide_area};
use treepie_collectives::registry::{self, Request};
use treepie_schedule::count::count;
use treepie_sim::costs::{Links, Routing};
use treepie_sim::{Piece, Settings, phases, play};
use treepie_topology::Network;

fn play_all(network: &Network, settings: &[Settings], roots: &[u32]) -> u32 {
    let mut plays = 0;
    for algorithm in registry::all() {
        let roots = if operation(&algorithm.id, 0).root().is_some() { roots } else { &[0] };
        for (variant, root) in algorithm.variants().into_iter().flat_map(|v| roots.iter().map(move |r| (v.clone(), *r)))
        {
            let request = Request::new(operation(&variant, root), network);
            let Ok(schedule) = registry::build(&variant, &request) else { continue };
            let sizes = uniform(&*schedule, if variant.starts_with("barrier") { 0 } else { 120 });
            let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 8 };
            let counted = count(&*schedule, &|rank| sizes.of(rank).clone(), network);
            for settings in settings {
                let played = play(piece, network, settings).unwrap_or_else(|error| {
                    panic!("{variant} on {network}, root {root}, {:?}: {error}", settings.costs)
                });
                let moved = (played.messages, played.bytes);
                assert_eq!(moved, (counted.messages, counted.volume * 8), "{variant} on {network}, root {root}");
                assert!(played.first_done <= played.makespan);
                plays += 1;
            }
        }
    }
    plays
}

#[test]
fn on_flat_networks() {
    let mut plays = 0;
    for ranks in 1..=17 {
        let gamma = Settings { gamma: 0.001, ..loggp() };
        plays += play_all(&Network::flat(ranks), &[loggp(), gamma, links()], &[0, ranks - 1]);
    }
    assert!(plays > 5000, "{plays}");
}

#[test]
fn on_tori_and_meshes() {
    let texts =
        ["torus:3x5", "torus:4x4", "mesh:4x4", "torus:2x2x2x2", "mesh:2x3x2", "torus:17", "mesh:4x4@0-2+9+14+7"];
    for text in texts {
        play_all(&network(text), &[links(), loggp()], &[0, 1]);
    }
}

#[test]
fn on_clos_networks() {
    for ranks in [1, 5, 12, 17] {
        let fixed = Links { routing: Routing::Static, ..Links::new(6.25, 0.0025) };
        play_all(&network("clos:r6,t4").for_ranks(ranks).unwrap(), &[links(), fixed.into()], &[0, ranks / 2]);
    }
}

#[test]
fn on_clusters() {
    for (text, clusters) in [("clusters:1x1", 1), ("clusters:3+5+8", 3), ("clusters:4x4", 4), ("clusters:2+1", 2)] {
        let network = network(text);
        let last = network.ranks() - 1;
        play_all(&network, &[wide_area(clusters), links(), loggp()], &[0, last]);
    }
}

/// Messages of all ranks up to which an algorithm is played by events on a large network.
const BY_EVENTS: u64 = 3 << 20;

/// Algorithms on a large network: by events, and only in step where there are P^2 messages. How many of each.
fn large(network: &Network, chosen: impl Fn(&str) -> bool) -> (u32, u32) {
    let ranks = u64::from(network.ranks());
    let limit = BY_EVENTS.min(ranks * (ranks - 1) - 1);
    let (mut by_events, mut in_step) = (0, 0);
    for algorithm in registry::all().iter().filter(|algorithm| chosen(&algorithm.id)) {
        let Ok(schedule) = algorithm.build(&Request::new(operation(&algorithm.id, 0), network)) else { continue };
        let sizes = uniform(&*schedule, if algorithm.id.starts_with("barrier") { 0 } else { 96 });
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        let begun = std::time::Instant::now();
        let phased = phases(piece, network, &links()).unwrap();
        let in_rounds = begun.elapsed().as_secs_f64();
        assert!(phased.micros > 0.0, "{} on {network}", algorithm.id);
        if phased.messages > limit {
            println!("{} on {network}: {} messages, {in_rounds:.2} s in step", algorithm.id, phased.messages);
            in_step += 1;
            continue;
        }
        let played =
            play(piece, network, &links()).unwrap_or_else(|error| panic!("{} on {network}: {error}", algorithm.id));
        let total = begun.elapsed().as_secs_f64();
        println!(
            "{} on {network}: {} messages, {in_rounds:.2} s in step, {:.2} s by events",
            algorithm.id,
            phased.messages,
            total - in_rounds
        );
        let moved = (played.messages, played.bytes);
        assert_eq!(moved, (phased.messages, phased.bytes), "{} on {network}", algorithm.id);
        by_events += 1;
    }
    (by_events, in_step)
}

/// What is played on 16x16x16 unless the full range is asked for.
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

/// All algorithms on 16x16x16, with and without links around.
#[test]
fn on_4096_nodes() {
    for text in ["torus:16x16x16", "mesh:16x16x16"] {
        let (by_events, in_step) = large(&network(text), |id| long() || SOME.contains(&id));
        println!("{text}: {by_events} by events, {in_step} in step");
        assert!(by_events >= if long() { 79 } else { 9 }, "{text}: {by_events} by events");
        assert!(in_step >= if long() { 12 } else { 1 }, "{text}: {in_step} in step");
    }
}

#[test]
fn all_algorithms_on_256_nodes() {
    for text in ["torus:8x8x4", "mesh:8x8x4"] {
        let (by_events, in_step) = large(&network(text), |_| true);
        println!("{text}: {by_events} by events, {in_step} in step");
        assert!(by_events >= 79 && in_step >= 12, "{text}: {by_events} by events, {in_step} in step");
    }
}

#[test]
fn recursive_doubling_on_a_million_ranks() {
    let ranks = if long() { 1 << 20 } else { 1 << 16 };
    let network = Network::flat(ranks);
    let request = Request::new(operation("allreduce", 0), &network);
    let schedule = registry::build("allreduce/recursive_doubling", &request).unwrap();
    let sizes = uniform(&*schedule, 1);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 8 };
    let played = play(piece, &network, &loggp()).unwrap();
    let rounds = u64::from(ranks.ilog2());
    assert_eq!(played.messages, u64::from(ranks) * rounds);
    // Each round L + 2 o + 7 G.
    assert_eq!(played.makespan, rounds * (4_290_000 + 2 * 2_870_000 + 7 * 2670));
    assert!(played.memory_ranks <= 200 * ranks as usize, "{played:?}");
    // 1M ranks in less than 2 GB.
    assert!(played.memory < 2048 * ranks as usize, "{played:?}");
}
