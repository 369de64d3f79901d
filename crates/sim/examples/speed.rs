//! Prints how fast the simulator is on one core.
//!
//! `cargo run --release -p treepie-sim --example speed`

use std::time::Instant;

use treepie_collectives::registry::{Request, build};
use treepie_schedule::{Layout, Layouts, Operation};
use treepie_sim::costs::{Links, LogGP};
use treepie_sim::{Piece, Settings, Sizes, play};
use treepie_topology::Network;

fn run(id: &str, network: &str, settings: &Settings, bytes: usize) {
    let network: Network = network.parse().expect("a network");
    let operation = match id.split('/').next() {
        Some("allreduce") => Operation::Allreduce,
        Some("barrier") => Operation::Barrier,
        _ => Operation::Allgather,
    };
    let schedule = build(id, &Request::new(operation, &network)).expect("an algorithm");
    let sizes = Sizes::Shared(Layouts::both(Layout::uniform(bytes, schedule.blocks())));
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let begun = Instant::now();
    let played = play(piece, &network, settings).expect("it comes to its end");
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{id} on {network}: {:.3} us simulated, {} messages, {:.2} s, {:.2} M events/s, {:.1} MB, {:.0} bytes a rank, {:.0} of links, {:.0} a message on the way",
        played.micros(),
        played.messages,
        seconds,
        played.events as f64 / seconds / 1e6,
        played.memory as f64 / 1e6,
        played.memory_ranks as f64 / f64::from(network.ranks()),
        played.memory_links as f64 / f64::from(network.ranks()),
        played.memory_in_flight as f64 / played.most_in_flight as f64,
    );
}

fn main() {
    let loggp = Settings::from(LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 });
    let links = Settings::from(Links::new(6.29, 1.0 / 375.0));
    let only: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    if wanted("flat") {
        for _ in 0..3 {
            run("allgather/distance_doubling", "flat:32768", &loggp, 8);
        }
    }
    if wanted("torus") {
        run("allgather/bucket", "torus:16x16x16", &links, 1024);
        run("allgather/torus_reordered", "torus:16x16x16", &links, 1024);
        run("allgather/distance_doubling", "torus:16x16x16", &links, 1024);
    }
    if wanted("lanes") {
        run("allgather/bucket_k:6", "torus:16x16x16", &links, 1024);
    }
    if wanted("clos") {
        run("allgather/distance_doubling", "clos:r80,t64,n4096", &links, 1024);
    }
    if wanted("million") {
        run("allreduce/recursive_doubling", "flat:1048576", &loggp, 8);
        run("barrier/dissemination", "flat:1048576", &loggp, 0);
    }
}
