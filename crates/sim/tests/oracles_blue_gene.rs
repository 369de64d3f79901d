//! Rows E04 to E23 of the thesis that are bandwidths and crossovers, with the cost parameters of its Blue Gene/P: by
//! events, or in lockstep rounds where the thesis starts all buckets of a stage before it waits for any (E22, E23).
//!
//! Blocks are shuffled here by routed messages. The thesis charges for that by bisection bandwidth, which is fewer
//! bytes over a link, and three start-ups more than lockstep rounds here: E22, which is its model's, is reproduced
//! within 1.5%, not within 0.5% as by the formula. By events six buckets are faster with short vectors, as a start-up
//! overlaps another lane's transfer, and E23's crossover would be at some 520 bytes.

use crate::common::{build, network, simulate_id, uniform};
use treepie_model::PaperMachine as Paper;
use treepie_sim::{Settings, Workload, lockstep_cost, symmetric};
use treepie_topology::Network;

fn blue_gene() -> Settings {
    Paper::Bgp.cost_params().into()
}

/// Bytes per microsecond that each rank receives.
fn speed(network: &Network, n: usize, micros: f64) -> f64 {
    n as f64 * f64::from(network.ranks() - 1) / micros
}

fn by_events(id: &str, network: &Network, n: usize) -> f64 {
    speed(network, n, simulate_id(id, network, &blue_gene(), n).micros())
}

/// Microseconds in lockstep rounds.
fn lockstep_micros(id: &str, network: &Network, n: usize) -> f64 {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, n);
    lockstep_cost(Workload { schedule: &*schedule, sizes: &sizes, element: 1 }, network, &blue_gene()).unwrap().micros
}

/// Microseconds by events of one representative rank.
fn representative_micros(id: &str, network: &Network, n: usize) -> f64 {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, n);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    symmetric::simulate(workload, network, &blue_gene()).unwrap().expect("all ranks do the same").micros()
}

fn near(row: &str, got: f64, expected: f64, share: f64) {
    println!("{row}: {got}, expected {expected}");
    assert!((got / expected - 1.0).abs() <= share, "{row}: {got}, and {expected} is expected");
}

#[test]
fn e04_e05_e10_doubling_with_long_vectors() {
    // So long that start-ups are negligible.
    let n = 1 << 24;
    for (row, name, side, expected) in [
        ("E04", "distance_doubling", 8, 201.9),
        ("E04", "distance_doubling", 16, 106.1),
        ("E05", "distance_halving", 8, 262.5),
        ("E05", "distance_halving", 16, 200.9),
        ("E10", "torus_reordered", 8, 333.8),
    ] {
        let network = Network::torus(&[side; 3], &[true; 3]).unwrap();
        near(row, by_events(&format!("allgather/{name}"), &network, n), expected, 0.0005);
    }
    // Measured, with blocks shuffled.
    let small = network("torus:8x8x8");
    near("E10", by_events("allgather/torus_reordered:moved", &small, n), 333.0, 0.015);
}

#[test]
fn e18_e19_start_ups_and_ports() {
    // Empty vectors: 32,767 start-ups, 206 ms.
    let ring = network("torus:32768");
    near("E18", representative_micros("allgather/ring", &ring, 0), 206_000.0, 0.001);
    let large = network("torus:32x32x32");
    for (row, name, expected) in [
        ("E19: a link", "bucket", 425.0 * 0.88),
        ("E19: three ports", "bucket_k:3", 1120.0),
        ("E19: six ports", "bucket_k:6", 2092.5),
    ] {
        let n = 32768;
        near(row, speed(&large, n, representative_micros(&format!("allgather/{name}"), &large, n)), expected, 0.005);
    }
}

#[test]
fn e22_six_buckets_over_sizes() {
    let small = network("torus:8x8x8");
    for (n, expected) in [(1024, 471.0), (16384, 1662.0), (32768, 1815.0)] {
        near("E22", speed(&small, n, lockstep_micros("allgather/bucket_k:6,moved", &small, n)), expected, 0.015);
    }
}

#[test]
fn e23_where_six_buckets_begin_to_win() {
    let small = network("torus:8x8x8");
    let both = |n| {
        let time = |name| lockstep_micros(&format!("allgather/{name}"), &small, n);
        (time("bucket_k:6,moved"), time("torus_reordered:moved"))
    };
    // The thesis's model has 614.
    let (below, above) = (both(576), both(652));
    assert!(below.0 > below.1, "E23 with 576 bytes: {below:?}");
    assert!(above.0 < above.1, "E23 with 652 bytes: {above:?}");
}
