//! Slow and failed ranks, message by message.

use crate::common::{build, network, simulate_id, uniform, wide_area};
use treepie_sim::costs::{LinkCosts, LogGP};
use treepie_sim::noise::Noise;
use treepie_sim::{Error, Machine, Settings, SimEventKind, SimMessage, Workload, lockstep_cost, simulate_schedule};
use treepie_topology::{Network, TieBreak};

const MICROSECOND: u64 = 1_000_000;

fn message(from: u32, to: u32, bytes: u64) -> SimMessage {
    SimMessage { from, to, bytes, channel: 0, token: 0, tie: TieBreak::Plus }
}

/// Times of deliveries in microseconds.
fn deliveries(machine: &mut Machine) -> Vec<u64> {
    std::iter::from_fn(|| machine.next())
        .filter(|event| matches!(event.kind, SimEventKind::Delivered { .. }))
        .map(|event| event.time / MICROSECOND)
        .collect()
}

#[test]
fn failed_ranks_send_nothing() {
    let failing =
        |settings: Settings| Settings { noise: Noise { failures: vec![(0, 5.0)], ..Noise::default() }, ..settings };
    let sent = |settings: Settings, text: &str| {
        let network = network(text);
        let mut machine = Machine::new(&network, &failing(settings)).unwrap();
        (1..network.ranks()).for_each(|to| _ = machine.send(0, message(0, to, 1)));
        (deliveries(&mut machine), machine.totals().messages)
    };
    // The CPU begins sends at 0, 2 and 4; the next would be at 6.
    let loggp = LogGP { latency: 4.0, overhead: 2.0, gap: 0.0, per_byte: 0.0 };
    assert_eq!(sent(loggp.into(), "flat:8"), (vec![6, 8, 10], 3));
    // The interface injects at 0 and 4; the next would be at 8.
    assert_eq!(sent(LogGP { gap: 4.0, ..loggp }.into(), "flat:8"), (vec![6, 10], 2));
    // The CPU has started messages at 2 and 4; the next would be at 6.
    assert_eq!(sent(LinkCosts::new(2.0, 1.0).into(), "flat:8").0, [3, 5]);
    // Two flow at once; the others are queued for a port, and are never sent.
    let two = LinkCosts { ports: Some(2), ..LinkCosts::new(0.0, 10.0) };
    assert_eq!(sent(two.into(), "torus:4x4").0.len(), 2);
    let one = LinkCosts { ports: Some(1), ..LinkCosts::new(0.0, 3.0) };
    assert_eq!(sent(one.into(), "torus:4x4").0, [3, 6]);
}

#[test]
fn the_root_of_a_broadcast_fails() {
    let flat = Network::flat(100);
    let schedule = build("bcast/flat", &flat);
    let sizes = uniform(&*schedule, 8);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let noise = Noise { failures: vec![(0, 11.0)], ..Noise::default() };
    for settings in [crate::common::loggp(), LinkCosts::new(2.87, 0.0001).into()] {
        let error = simulate_schedule(workload, &flat, &Settings { noise: noise.clone(), ..settings }).unwrap_err();
        // It begins four sends; on links it has started three.
        assert!(matches!(error, Error::RankFailed { rank: 0, others: 0, waiting: 95 | 96, .. }), "{error:?}");
    }
}

#[test]
fn messages_of_slow_ranks_are_delayed() {
    let slow = |settings| Settings { noise: Noise { slow_ranks: vec![(0, 10.0)], ..Noise::default() }, ..settings };
    let loggp = LogGP { latency: 4.0, overhead: 2.0, gap: 2.0, per_byte: 0.0 };
    let mut machine = Machine::new(&Network::flat(2), &slow(loggp.into())).unwrap();
    assert_eq!(machine.send(0, message(0, 1, 1)).cpu_free, 20 * MICROSECOND);
    assert_eq!(deliveries(&mut machine), [24]);
    // In a cluster 1000 bytes occupy it for 200 us instead of 20, and arrive after another 20.
    let mut machine = Machine::new(&network("clusters:2x2"), &slow(wide_area(2))).unwrap();
    assert_eq!(machine.send(0, message(0, 1, 1000)).cpu_free, 200 * MICROSECOND);
    assert_eq!(deliveries(&mut machine), [220]);
}

#[test]
fn a_slow_rank_does_not_make_the_link_between_clusters_slow() {
    let times = |factor| {
        let noise = Noise { slow_ranks: vec![(0, factor)], ..Noise::default() };
        let mut machine = Machine::new(&network("clusters:2x1"), &Settings { noise, ..wide_area(2) }).unwrap();
        let free = machine.send(0, message(0, 1, 1_000_000)).cpu_free / MICROSECOND;
        (free, deliveries(&mut machine))
    };
    // 1 MB takes 20 ms to the gateway, and a second over the link: time enough for a rank that takes 200 ms.
    assert_eq!(times(1.0), (1_020_020, vec![1_010_040]));
    assert_eq!(times(10.0), times(1.0));
    // Two seconds are too long: the link cannot finish before the rank has sent all.
    assert_eq!(times(100.0), (2_020_020, vec![2_010_040]));
}

#[test]
fn messages_of_a_fast_rank_stay_in_order() {
    let noise = Noise { slow_ranks: vec![(0, 0.01)], ..Noise::default() };
    let mut machine = Machine::new(&network("clusters:2x2"), &Settings { noise, ..wide_area(2) }).unwrap();
    machine.send(0, SimMessage { token: 0, ..message(0, 1, 100_000) });
    machine.send(0, SimMessage { token: 1, ..message(0, 1, 1) });
    let token = |kind| if let SimEventKind::Delivered { token, .. } = kind { Some(token) } else { None };
    let tokens: Vec<u64> = std::iter::from_fn(|| machine.next()).filter_map(|event| token(event.kind)).collect();
    assert_eq!(tokens, [0, 1]);
}

/// The port efficiency applies only to ranks that drive all ports.
#[test]
fn lanes_without_a_port_do_not_saturate_ports() {
    let torus = network("torus:4x4");
    let micros = |ports, efficiency| {
        let links =
            LinkCosts { ports, port_efficiency: efficiency, saturated_ports: Some(4), ..LinkCosts::new(1.0, 1.0) };
        simulate_id("allgather/bucket_k:4", &torus, &links.into(), 1000).micros()
    };
    assert!(micros(None, 0.5) > 1.5 * micros(None, 1.0));
    assert_eq!(micros(Some(2), 0.5), micros(Some(2), 1.0));
    // Eight lanes over four ports do not drive six.
    let schedule = build("scan/linear:segments=8", &torus);
    let sizes = uniform(&*schedule, 1000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let both = |efficiency| {
        let settings =
            LinkCosts { port_efficiency: efficiency, saturated_ports: Some(6), ..LinkCosts::new(1.0, 1.0) }.into();
        (
            simulate_schedule(workload, &torus, &settings).unwrap().micros(),
            lockstep_cost(workload, &torus, &settings).unwrap().micros,
        )
    };
    assert_eq!(both(0.5), both(1.0));
}
