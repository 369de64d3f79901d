//! Rows C06 to C22 of the P-LogP paper that are about the model.
//!
//! Not here: C01 to C05 are times of a simulation with a gateway's window, and belong to the simulator; C10 to C12 and
//! C24 are in `oracles_measurement.rs`, C19 is in `oracles_pipelines.rs`; C23 is a measurement.

use crate::common::{near, within};
use treepie_model::machines::{PaperMachine, myrinet, simulated_wan};
use treepie_model::plogp::{
    ClusterSizes, GatewayLink, PLogP, PLogPLink, PiecewiseLinear, PipelineCost, RoundTrip, allgather_cost, gather_cost,
    max_lan_degree, plan_bcast, plan_bcast_exhaustive, plan_segments, plan_segments_exhaustive, scatter_cost,
    tree_cost, tree_height, two_layer_cost,
};

const MEGABYTE: f64 = 1_048_576.0;

/// A wide-area link on which a megabyte takes the time that C01 implies.
fn fitted() -> PLogP {
    let gap = PiecewiseLinear::new("the gap g", &[(0.0, 0.0), (MEGABYTE, 1_059_290.0)]).unwrap();
    let busy = || PiecewiseLinear::constant("an overhead", 10.0).unwrap();
    PLogP::new(10_000.0, busy(), busy(), gap).unwrap()
}

#[test]
fn c06_one_blocking_send_after_the_other() {
    // Blocking sends: s = g. Milliseconds.
    let time = |clusters: u32, bytes| tree_cost(&fitted(), bytes, clusters - 1, 1).time(1.0) / 1e3;
    near("C06 (C01)", time(8, MEGABYTE), 7425.0, 1e-5);
    near("C06", time(4, MEGABYTE), 3187.9, 1e-4);
    near("C06 (C02)", time(4, MEGABYTE), 3200.0, 0.005);
    near("C06", time(4, 4.0 * MEGABYTE), 12721.4, 1e-4);
    near("C06 (C04)", time(4, 4.0 * MEGABYTE), 12723.3, 0.005);
}

#[test]
fn c07_segments() {
    let (wan, lan) = (fitted(), myrinet());
    let link = GatewayLink { wan: &wan, lan: &lan };
    let segment = 65536.0;
    for (clusters, measured, implied) in [(8u32, 1079.0, 1.62), (4, 1072.0, 1.36)] {
        let time = tree_cost(&link, segment, clusters - 1, 1).time(16.0) / 1e3;
        near("C07", time, measured, 0.01);
        near("C07", link.send_time(segment) / 1e3, implied, 0.25);
    }
}

#[test]
fn c08_as_loggp() {
    let table = |points: &[(f64, f64)]| PiecewiseLinear::new("a table", points).unwrap();
    let link = PLogP::new(
        30.0,
        table(&[(0.0, 3.0), (1.0, 4.0), (4096.0, 10.0)]),
        table(&[(0.0, 5.0), (1.0, 7.0), (4096.0, 20.0)]),
        table(&[(0.0, 8.0), (1.0, 9.0), (4096.0, 100.0), (8192.0, 196.0)]),
    );
    let loggp = link.unwrap().to_loggp(8192.0).unwrap();
    assert_eq!((loggp.latency, loggp.overhead, loggp.gap), (30.0 + 9.0 - 4.0 - 7.0, (4.0 + 7.0) / 2.0, 9.0), "C08");
    assert_eq!(loggp.per_byte, 196.0 / 8192.0, "C08");
    // A message of one byte takes as long in both.
    within("C08", loggp.transfer(1.0), 30.0 + 9.0, 1e-12);
}

#[test]
fn c09_solved_from_round_trips() {
    let sizes: Vec<f64> = std::iter::once(0.0).chain((0..=18).map(|bit| f64::from(1 << bit))).collect();
    for (latency, start, per_byte, knee) in
        [(10_000.0, 12.5, 1.0, 70_000.0), (7.25, 0.75, 0.02, 131_072.0), (0.0, 0.0, 0.5, 1.0)]
    {
        let gap = |size: f64| start + per_byte * size + if size > knee { 250.0 } else { 0.0 };
        let (send, receive) = (|size: f64| 1.5 + 0.001 * size, |size: f64| 2.5 + 0.002 * size);
        let trips: Vec<RoundTrip> = sizes
            .iter()
            .map(|&bytes| {
                // A message of m bytes and an empty reply.
                let time = latency + gap(bytes) + latency + gap(0.0);
                RoundTrip { bytes, time, send_overhead: send(bytes), recv_overhead: receive(bytes) }
            })
            .collect();
        let solved = PLogP::from_round_trips(gap(0.0), &trips).unwrap();
        within("C09", solved.latency, latency, 1e-9);
        for trip in &trips {
            within("C09", solved.gap.at(trip.bytes), gap(trip.bytes), 1e-9);
            within("C09", solved.send_overhead.at(trip.bytes), trip.send_overhead, 1e-9);
            within("C09", solved.recv_overhead.at(trip.bytes), trip.recv_overhead, 1e-9);
            within("C09", solved.round_trip_time(trip.bytes), trip.time, 1e-9);
        }
    }
    // A round trip cannot be shorter than two gaps.
    let trip = RoundTrip { bytes: 0.0, time: 1.0, send_overhead: 0.0, recv_overhead: 0.0 };
    let refused = PLogP::from_round_trips(2.0, &[trip]).unwrap_err().to_string();
    assert_eq!(refused, "the latency L is -1.5, and must be a non-negative number");
}

#[test]
fn c13_c14_heights() {
    let heights = |ranks, degrees: &[u32]| degrees.iter().map(|degree| tree_height(ranks, *degree)).collect::<Vec<_>>();
    assert_eq!(heights(8, &[1, 2, 3, 4, 5, 6, 7]), [7, 3, 2, 2, 2, 2, 1], "C13");
    assert_eq!(heights(4, &[1, 2, 3]), [3, 2, 1], "C14");
    assert_eq!(heights(64, &[1, 2, 3, 4, 7, 8, 63]), [63, 6, 4, 3, 3, 2, 1], "C14");
}

/// Parameters that are all different, so that none can be mistaken for another.
fn links() -> (PLogP, PLogP) {
    let flat = |time| PiecewiseLinear::constant("a table", time).unwrap();
    let wan = PLogP::new(1000.0, flat(7.0), flat(11.0), flat(300.0)).unwrap();
    (wan, PLogP::new(20.0, flat(2.0), flat(3.0), flat(5.0)).unwrap())
}

#[test]
fn c15_one_layer() {
    let (_, lan) = links();
    let cost = tree_cost(&lan, 64.0, 3, 2);
    assert_eq!((cost.gamma, cost.lambda), (3.0 + 3.0 * 5.0, 2.0 * (2.0 * 5.0 + 25.0)), "C15");
    assert_eq!(cost.time(10.0), 9.0 * 18.0 + 70.0, "C15");
    let (wan, _) = links();
    assert_eq!(tree_cost(&wan, 64.0, 1, 7).gamma, 311.0, "C15: or + s");
    // Behind a gateway the sender is free before the link is: gamma = g.
    let both = links();
    let gateway = GatewayLink { wan: &both.0, lan: &both.1 };
    let cost = tree_cost(&gateway, 64.0, 7, 1);
    assert_eq!((cost.gamma, cost.lambda), (300.0, 6.0 * 7.0 + 1300.0), "C15: s_w = max(g_l, os_w)");
}

#[test]
fn c16_two_layers() {
    let (wan, lan) = links();
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    let cost = two_layer_cost(&gateway, &lan, 64.0, (7, 1), (2, 3));
    assert_eq!(cost.gamma, 300f64.max(11.0 + 7.0 * 7.0 + 2.0 * 5.0), "C16");
    assert_eq!(cost.lambda, (6.0 * 7.0 + 1300.0) + 3.0 * (5.0 + 25.0), "C16");
    assert_eq!(cost.time(4.0), 3.0 * cost.gamma + cost.lambda, "C16");
    assert_eq!(
        two_layer_cost(&gateway, &lan, 64.0, (50, 1), (2, 3)).gamma,
        11.0 + 350.0 + 10.0,
        "C16: the coordinator is the slowest"
    );
    // gamma' = g_w - or_w - d_w s_w = 240: 48 children.
    assert_eq!((max_lan_degree(&gateway, &lan, 64.0, 7), max_lan_degree(&gateway, &lan, 64.0, 50)), (48, 1), "C16");
}

#[test]
fn c17_scatter_gather_allgather() {
    let (wan, lan) = links();
    let gateway = GatewayLink { wan: &wan, lan: &lan };
    let (few, many) = (ClusterSizes { count: 4, ranks: 16 }, ClusterSizes { count: 100, ranks: 16 });
    let cost = scatter_cost(&gateway, &lan, 64.0, few);
    assert_eq!((cost.gamma, cost.lambda), (16.0 * 300.0 + 3.0, 15.0 * 300.0 + 3.0 * 7.0 + 1300.0), "C17: scatter");
    let turn = 99.0 * 7.0 + 5.0;
    let cost = scatter_cost(&gateway, &lan, 64.0, many);
    assert_eq!((cost.gamma, cost.lambda), (16.0 * turn + 3.0, 15.0 * turn + 99.0 * 7.0 + 1300.0), "C17: scatter");
    let cost = gather_cost(&gateway, &lan, 64.0, few);
    assert_eq!((cost.gamma, cost.lambda), (16.0 * 300.0, 1000.0 + 16.0 * 300.0), "C17: gather");
    let receiving = 16.0 * 3.0 + 99.0 * 16.0 * 11.0;
    let cost = gather_cost(&gateway, &lan, 64.0, many);
    assert_eq!((cost.gamma, cost.lambda), (receiving + 2.0, 20.0 + receiving), "C17: gather");
    let cost = allgather_cost(&gateway, &lan, 64.0, 4);
    assert_eq!((cost.gamma, cost.lambda), (300.0, 2.0 * 7.0 + 1300.0), "C17: allgather");
    assert_eq!(allgather_cost(&gateway, &lan, 64.0, 100).gamma, 99.0 * (7.0 + 11.0), "C17: allgather");
    // A single cluster has no wide area: only the terms of the local network remain.
    let one = ClusterSizes { count: 1, ranks: 16 };
    let cost = scatter_cost(&gateway, &lan, 64.0, one);
    assert_eq!((cost.gamma, cost.lambda), (16.0 * 5.0 + 3.0, 15.0 * 5.0 + 25.0), "C17: scatter");
    let cost = gather_cost(&gateway, &lan, 64.0, one);
    assert_eq!((cost.gamma, cost.lambda), (16.0 * 3.0 + 2.0, 20.0 + 16.0 * 3.0), "C17: gather");
    assert_eq!(allgather_cost(&gateway, &lan, 64.0, 1).time(1.0), 0.0, "C17: allgather");
}

/// Links with various gaps: linear, with a knee, with a wide-area link that is hardly slower.
fn pairs() -> Vec<(PLogP, PLogP)> {
    let kneed = |latency: f64, points: &[(f64, f64)]| {
        let busy = |time| PiecewiseLinear::linear("an overhead", time, 0.002).unwrap();
        PLogP::new(latency, busy(4.0), busy(5.0), PiecewiseLinear::new("the gap g", points).unwrap()).unwrap()
    };
    let das = PaperMachine::Das.wan_links().unwrap();
    vec![
        (simulated_wan(), myrinet()),
        (das.link(1, 3).clone(), myrinet()),
        (das.link(2, 0).clone(), myrinet()),
        (PLogP::linear(50.0, 3.0, 20.0).unwrap(), PLogP::linear(5.0, 2.0, 100.0).unwrap()),
        (
            kneed(500.0, &[(0.0, 20.0), (4096.0, 700.0), (4096.0, 1400.0), (65536.0, 12_000.0)]),
            kneed(8.0, &[(0.0, 6.0), (1024.0, 30.0), (8192.0, 120.0), (8192.0, 170.0), (65536.0, 900.0)]),
        ),
    ]
}

#[test]
fn c18_the_search_agrees_with_the_exhaustive_search() {
    let mut worst = 1.0f64;
    for (wan, lan) in pairs() {
        let gateway = GatewayLink { wan: &wan, lan: &lan };
        for (clusters, ranks) in [(4, 1), (8, 1), (1, 16), (1, 64), (4, 16), (8, 8)] {
            for bytes in [0, 1, 64, 1000, 4096, 30_000, 65_536, 200_000] {
                let unit = if bytes > 5000 { 64 } else { 4 };
                let found = plan_bcast(&gateway, &lan, clusters, ranks, bytes, unit);
                let best = plan_bcast_exhaustive(&gateway, &lan, clusters, ranks, bytes, unit);
                assert!(found.time <= 1.01 * best.time, "C18: {clusters} x {ranks}, {bytes} B: {found:?} {best:?}");
                assert!(best.time <= found.time, "C18: {found:?} {best:?}");
                assert!(found.segments * found.bytes >= bytes, "C18: {found:?}");
                worst = worst.max(found.time / best.time);
            }
            let clusters = ClusterSizes { count: clusters.max(2), ranks };
            let cost = |size: f64, _| (scatter_cost(&gateway, &lan, size, clusters), ());
            let (found, best) = (plan_segments(65_536, 16, cost), plan_segments_exhaustive(65_536, 16, cost));
            assert!(found.time <= 1.01 * best.time, "C18: scatter {clusters:?}: {found:?} {best:?}");
        }
    }
    println!("C18: at most {worst:.4} times the best");
    // A minimum between two halvings is reached from both sides.
    for lowest in [1.0, 3.0, 13.0, 23.0, 30.0, 47.0, 93.0] {
        let valley = |_, count: f64| (PipelineCost { gamma: 0.0, lambda: (count - lowest).powi(2) }, ());
        assert_eq!(plan_segments(1 << 20, 1, valley).time, 0.0, "C18: {lowest} segments");
    }
}

#[test]
fn c20_c21_c22_the_links_of_the_das() {
    let links = PaperMachine::Das.wan_links().unwrap();
    let names: Vec<&str> = (0..4).map(|cluster| links.name(cluster)).collect();
    assert_eq!(names, ["VU", "Leiden", "UvA", "Delft"]);
    // One way, in milliseconds, the same in both directions.
    for (a, b, latency) in [(0, 1, 3.5), (0, 2, 1.5), (0, 3, 2.5), (1, 2, 3.0), (1, 3, 4.0), (2, 3, 2.0)] {
        assert_eq!((links.link(a, b).latency, links.link(b, a).latency), (latency * 1e3, latency * 1e3), "C20");
    }
    // Megabits a second, in the order of names without itself; not the same in both directions.
    let rows = [[5.0, 26.0, 7.0], [3.5, 4.0, 3.0], [28.0, 6.0, 7.5], [6.0, 4.5, 6.5]];
    for (from, row) in rows.into_iter().enumerate() {
        for (to, megabits) in (0..4).filter(|to| *to != from).zip(row) {
            let gap = &links.link(from, to).gap;
            within("C21", 8.0 * 1000.0 / (gap.at(1000.0) - gap.at(0.0)), megabits, 1e-9);
        }
    }
    let (from, to) = links.slowest_pair(65_536.0).unwrap();
    assert_eq!((links.name(from), links.name(to)), ("Leiden", "Delft"), "C22");
    near("C22", 8.0 / (links.link(from, to).gap.at(2.0) - links.link(from, to).gap.at(1.0)), 3.0, 1e-9);
}

#[test]
fn invalid_links_are_refused() {
    let refused = PLogP::linear(1.0, 1.0, 0.0).unwrap_err().to_string();
    assert_eq!(refused, "the bandwidth is 0, and must be a positive number");
    let links =
        treepie_model::plogp::LinkMatrix::from_latency_bandwidth(&["a", "b"], myrinet(), &[0.0, 1.0], &[0.0; 4]);
    assert_eq!(links.unwrap_err().to_string(), "the matrix of latencies has 2 values, and 4 are needed");
    let links = treepie_model::plogp::LinkMatrix::new(&["a"], vec![myrinet()], vec![1]);
    assert_eq!(links.unwrap_err().to_string(), "the list of link classes has 1 values, and 2 are needed");
}
