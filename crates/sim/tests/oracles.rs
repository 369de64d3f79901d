//! Rows of the papers' numbers that the simulator reproduces, by row id.
//!
//! Rows A and E are by events unless they say otherwise: start-ups and bytes over a link are separated by pricing only
//! one of the two. E15 and E16 are reproduced in lockstep rounds: the thesis starts all six buckets of a stage before
//! it waits for any.

use crate::common::{build, network, simulate_id, uniform, wide_area};
use treepie_sim::costs::{LinkCosts, LogGP};
use treepie_sim::{Machine, Settings, SimEventKind, SimMessage, Workload, lockstep_cost, symmetric, time};
use treepie_topology::{Network, TieBreak};

const MIB: usize = 1 << 20;

/// Milliseconds of an algorithm on clusters.
fn millis(id: &str, clusters: u32, each: u32, bytes: usize) -> f64 {
    simulate_id(id, &network(&format!("clusters:{clusters}x{each}")), &wide_area(clusters), bytes).micros() / 1000.0
}

#[test]
fn c01_to_c05_wide_area_broadcast_and_scatter() {
    let rows = [
        ("C01", "bcast/hierarchical:segments=32,window=32", 8, 1, MIB, 1079.0),
        ("C01", "bcast/hierarchical", 8, 1, MIB, 7425.0),
        ("C02", "bcast/hierarchical:segments=32,window=32", 4, 1, MIB, 1072.0),
        ("C02", "bcast/hierarchical", 4, 1, MIB, 3200.0),
        ("C04", "bcast/hierarchical", 4, 1, 4 * MIB, 12723.3),
        ("C04", "bcast/hierarchical", 4, 16, 4 * MIB, 13224.3),
        ("C05", "scatter/in_turn:segments=32,window=32", 8, 1, MIB, 1078.0),
        ("C05", "scatter/in_turn", 8, 1, MIB, 7437.0),
    ];
    for (row, id, clusters, each, bytes, measured) in rows {
        let simulated = millis(id, clusters, each, bytes);
        let off = simulated / measured - 1.0;
        println!("{row} {id} {clusters}x{each}: {simulated:.1} ms, measured {measured} ({:+.2}%)", off * 100.0);
        assert!(off.abs() < 0.02, "{row} {id} on {clusters} clusters of {each}: {simulated} ms, measured {measured}");
    }
}

#[test]
fn c03_aggregate_bandwidth() {
    // Seven links of 1 MB/s; F9: within 3%.
    let seven = 7.0 * 1024.0 * 1000.0 / 1e6;
    let segmented = seven / (millis("bcast/hierarchical:segments=32,window=32", 8, 1, MIB) / 1000.0);
    let whole = seven / (millis("bcast/hierarchical", 8, 1, MIB) / 1000.0);
    assert!((segmented / 6.65 - 1.0).abs() < 0.03, "{segmented}");
    assert!((whole / 0.96 - 1.0).abs() < 0.03, "{whole}");
}

#[test]
fn c07_segments_cost_one_link_and_their_way_into_the_others() {
    // T = k g_w(m) + (C-2) s(m) + L_w with segments of 64 KiB: s is their time on the local link, 1.31 ms.
    for clusters in [4, 8] {
        let simulated = millis("bcast/hierarchical:segments=16,window=16", clusters, 1, MIB);
        let formula = 1048.576 + f64::from(clusters - 2) * 1.31072 + 10.0;
        assert!((simulated / formula - 1.0).abs() < 0.01, "{clusters} clusters: {simulated} and {formula}");
    }
}

/// alpha 6.29 us, 375 MB/s per link, 0.93 of that when all six ports are active.
fn blue_gene() -> Settings {
    LinkCosts { port_efficiency: 0.93, ..LinkCosts::new(6.29, 1.0 / 375.0) }.into()
}

#[test]
fn e15_e16_e17_six_buckets_on_32_cubed() {
    let network = network("torus:32x32x32");
    let schedule = build("allgather/bucket_k:6", &network);
    for (row, bytes, measured, speed) in [("E15", 16384, 260.797, 2058.5), ("E16", 32768, 517.573, 2074.5)] {
        let sizes = uniform(&*schedule, bytes);
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        let counted = lockstep_cost(workload, &network, &blue_gene()).unwrap();
        assert_eq!(counted.startups, 558, "{row}");
        // The thesis's program shuffles blocks first. That costs 9 messages, and 16 n delta at the bisection bandwidth.
        let shuffle = 9.0 * 6.29 + 16.0 * bytes as f64 / 375.0 / 0.93;
        let simulated = counted.micros / 1000.0;
        let with_shuffle = simulated + shuffle / 1000.0;
        // In events a lane's start-up overlaps another's transfer: a little faster than the thesis's program.
        let events = symmetric::simulate(workload, &network, &blue_gene()).unwrap().unwrap().micros() / 1000.0;
        println!(
            "{row}: {simulated:.3} ms in lockstep, {with_shuffle:.3} ms with blocks shuffled, \
             {events:.3} ms by events, measured {measured}"
        );
        assert!((simulated / measured - 1.0).abs() < 0.003, "{row}: {simulated} ms, measured {measured}");
        assert!((with_shuffle / measured - 1.0).abs() < 0.003, "{row}: {with_shuffle} ms, measured {measured}");
        let reached = bytes as f64 * 32767.0 / (with_shuffle * 1000.0);
        assert!((reached / speed - 1.0).abs() < 0.0015, "E17: {reached} MB/s with {bytes} bytes, not {speed}");
        assert!(events < simulated && events > 0.985 * measured, "{row}: {events} ms by events");
    }
}

const INTREPID: LogGP = LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 };
const JAGUAR: LogGP = LogGP { latency: 9.90, overhead: 1.75, gap: 3.40, per_byte: 0.00058 };
const BIG_RED: LogGP = LogGP { latency: 7.08, overhead: 11.78, gap: 4.19, per_byte: 0.00414 };

#[test]
fn a05_one_message_of_ten_bytes() {
    for (costs, expected) in [(INTREPID, 10.05403), (JAGUAR, 13.40522), (BIG_RED, 30.67726)] {
        let mut machine = Machine::new(&Network::flat(2), &costs.into()).unwrap();
        machine.send(0, SimMessage { from: 0, to: 1, bytes: 10, channel: 0, token: 7, tie: TieBreak::default() });
        let delivery = machine.next().unwrap();
        assert!(matches!(delivery.kind, SimEventKind::Delivered { from: 0, bytes: 10, token: 7, .. }));
        assert_eq!(machine.receive(1, delivery.time, 10), time::from_micros(expected));
        assert_eq!(machine.next(), None);
    }
}

#[test]
fn a07_to_a10_the_greedy_tree() {
    for (row, costs, ranks, expected) in [
        ("A07", INTREPID, 128, 45.860),
        ("A08", INTREPID, 1024, 63.080),
        ("A09", INTREPID, 8192, 80.270),
        ("A10", BIG_RED, 1024, 216.800),
    ] {
        let (gap, time) = (costs.overhead, costs.latency + 2.0 * costs.overhead);
        let id = format!("bcast/greedy:gap={gap},time={time}");
        let micros = simulate_id(&id, &Network::flat(ranks), &costs.into(), 1).micros();
        assert!((micros - expected).abs() < 0.01, "{row}: {micros}, and {expected} is expected");
    }
}

/// Start-ups on the critical path, and bytes over a link on it per contributed byte.
fn coefficients(id: &str, text: &str) -> (f64, f64) {
    let network = network(text);
    // Blocks that lanes and ranks divide evenly. An allgather's n is one of them, others' are all of them.
    let (each, blocks) = (960, build(id, &network).blocks() as usize);
    let bytes = if id.starts_with("allgather") { each } else { each * blocks };
    // Bytes must not be quite free, to tell the start-ups of a rank from its transfers.
    let time = |alpha: f64, delta: f64| simulate_id(id, &network, &LinkCosts::new(alpha, delta).into(), each).micros();
    (time(1.0, 1e-12).round(), time(0.0, 1.0) / bytes as f64)
}

#[test]
fn e_rows_counted_by_events() {
    for (row, id, text, alpha, delta) in [
        ("E01", "allgather/ring", "torus:8x8", 63.0, 63.0),
        ("E02", "allgather/distance_doubling", "flat:256", 8.0, 255.0),
        ("E03", "allgather/distance_doubling", "torus:4x4x4", 6.0, 63.0),
        ("E03", "allgather/distance_doubling", "torus:8x8x8", 9.0, 949.0),
        ("E05", "allgather/distance_halving", "torus:8x8x8", 9.0, 730.0),
        ("E06", "allgather/torus_reordered", "torus:8x8x8", 9.0, 574.0),
        ("E09", "allgather/torus_reordered", "torus:8x8x16", 10.0, 1156.0),
        ("E11", "allgather/bucket", "torus:8x8x8", 21.0, 511.0),
        ("E12", "allgather/bucket", "torus:8x8x16", 29.0, 1023.0),
        // Shuffling blocks takes 9 messages, and 32/6 n by their routes: 24/6 n by the thesis's charge, in all 535/6.
        ("E14, E40", "allgather/bucket_k:6", "torus:8x8x8", 126.0, 511.0 / 6.0),
        ("E14", "allgather/bucket_k:6,moved", "torus:8x8x8", 135.0, 543.0 / 6.0),
        ("E26", "allgather/distance_doubling", "clos:r80,t64,n4096", 12.0, 16191.0),
        ("E27", "allgather/distance_halving", "clos:r80,t64,n4096", 12.0, 4284.0),
        ("E28", "allreduce/ring", "clos:r80,t64,n128", 254.0, 2.0 * 127.0 / 128.0),
        ("E29", "bcast/mesh", "mesh:16x16", 8.0, 8.0),
        ("E29", "allreduce/fan_in_fan_out", "mesh:16x16", 16.0, 16.0),
        ("E30", "allreduce/alternating_exchange:0", "mesh:16x16", 8.0, 16.0),
        ("E31", "allreduce/alternating_exchange", "mesh:16x16", 16.0, 2.15625),
        ("E32", "allreduce/bucket", "mesh:8x8", 28.0, 2.0 * 63.0 / 64.0),
    ] {
        let (startups, bytes) = coefficients(id, text);
        println!("{row} {id} on {text}: {startups} alpha + {bytes} n delta");
        assert_eq!(startups, alpha, "{row} {id} on {text}: alpha");
        assert!((bytes / delta - 1.0).abs() < 1e-9, "{row} {id} on {text}: {bytes} n delta, not {delta}");
    }
}

#[test]
fn e21_ring_on_any_number_of_nodes() {
    for ranks in [16, 512] {
        for (bytes, bandwidth) in [(64, 9.906), (32768, 349.8)] {
            let network = Network::torus(&[ranks], &[true]).unwrap();
            let micros =
                simulate_id("allgather/ring", &network, &LinkCosts::new(6.29, 1.0 / 375.0).into(), bytes).micros();
            let reached = bytes as f64 * f64::from(ranks - 1) / micros;
            assert!((reached / bandwidth - 1.0).abs() < 1e-3, "{ranks} ranks, {bytes} bytes: {reached} MB/s");
        }
    }
}

#[test]
fn e36_messages_over_one_link_share_it() {
    // On a ring of 32, c neighbors send over c hops: c messages share the link between the last of them and the next.
    for congestion in [1u32, 2, 4, 8] {
        let network = Network::torus(&[32], &[true]).unwrap();
        let mut machine = Machine::new(&network, &LinkCosts::new(6.29, 1.0 / 375.0).into()).unwrap();
        for from in 0..congestion {
            machine.send(
                0,
                SimMessage { from, to: from + congestion, bytes: 1 << 20, channel: 0, token: 0, tie: TieBreak::Plus },
            );
        }
        let last = std::iter::from_fn(|| machine.next()).last().unwrap();
        let bandwidth = f64::from(1 << 20) / time::to_micros(last.time);
        assert!((bandwidth / (375.0 / f64::from(congestion)) - 1.0).abs() < 0.02, "{congestion}: {bandwidth}");
    }
}

#[test]
fn e38_three_buckets_beat_six_on_a_mesh() {
    let time = |text, id| simulate_id(id, &network(text), &blue_gene(), 48_000).micros();
    assert!(time("mesh:4x4x4", "allgather/bucket_k:3") < time("mesh:4x4x4", "allgather/bucket_k:6"));
    assert!(time("torus:4x4x4", "allgather/bucket_k:6") < time("torus:4x4x4", "allgather/bucket_k:3"));
}
