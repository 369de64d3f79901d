//! Slow ranks and dead ones, message by message.

mod common;

use common::{build, network, play_id, uniform, wide_area};
use treepie_sim::costs::{Links, LogGP};
use treepie_sim::noise::Noise;
use treepie_sim::{Error, Machine, Message, Piece, Settings, What, phases, play};
use treepie_topology::{Network, Tie};

const MICROSECOND: u64 = 1_000_000;

fn message(from: u32, to: u32, bytes: u64) -> Message {
    Message { from, to, bytes, channel: 0, token: 0, tie: Tie::Plus }
}

/// When messages are there, in microseconds.
fn deliveries(machine: &mut Machine) -> Vec<u64> {
    std::iter::from_fn(|| machine.next())
        .filter(|happening| matches!(happening.what, What::Delivered { .. }))
        .map(|happening| happening.time / MICROSECOND)
        .collect()
}

#[test]
fn who_is_dead_sends_nothing() {
    let dies =
        |settings: Settings| Settings { noise: Noise { deaths: vec![(0, 5.0)], ..Noise::default() }, ..settings };
    let sent = |settings: Settings, text: &str| {
        let network = network(text);
        let mut machine = Machine::new(&network, &dies(settings)).unwrap();
        (1..network.ranks()).for_each(|to| _ = machine.send(0, message(0, to, 1)));
        (deliveries(&mut machine), machine.totals().messages)
    };
    // The CPU begins at 0, 2, 4, and would at 6.
    let loggp = LogGP { latency: 4.0, overhead: 2.0, gap: 0.0, per_byte: 0.0 };
    assert_eq!(sent(loggp.into(), "flat:8"), (vec![6, 8, 10], 3));
    // The interface takes over at 0 and 4, and would at 8.
    assert_eq!(sent(LogGP { gap: 4.0, ..loggp }.into(), "flat:8"), (vec![6, 10], 2));
    // The CPU has started messages at 2 and 4; the next would be at 6.
    assert_eq!(sent(Links::new(2.0, 1.0).into(), "flat:8").0, [3, 5]);
    // Two flow at once; the others wait for a port, and are never sent.
    let two = Links { ports: Some(2), ..Links::new(0.0, 10.0) };
    assert_eq!(sent(two.into(), "torus:4x4").0.len(), 2);
    let one = Links { ports: Some(1), ..Links::new(0.0, 3.0) };
    assert_eq!(sent(one.into(), "torus:4x4").0, [3, 6]);
}

#[test]
fn the_root_of_a_broadcast_dies() {
    let flat = Network::flat(100);
    let schedule = build("bcast/flat", &flat);
    let sizes = uniform(&*schedule, 8);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let noise = Noise { deaths: vec![(0, 11.0)], ..Noise::default() };
    for settings in [common::loggp(), Links::new(2.87, 0.0001).into()] {
        let died = play(piece, &flat, &Settings { noise: noise.clone(), ..settings }).unwrap_err();
        // It begins with four sends; on links it has started three.
        assert!(matches!(died, Error::Died { rank: 0, others: 0, waiting: 95 | 96, .. }), "{died:?}");
    }
}

#[test]
fn what_a_slow_rank_sends_leaves_later() {
    let slow = |settings| Settings { noise: Noise { slow_ranks: vec![(0, 10.0)], ..Noise::default() }, ..settings };
    let loggp = LogGP { latency: 4.0, overhead: 2.0, gap: 2.0, per_byte: 0.0 };
    let mut machine = Machine::new(&Network::flat(2), &slow(loggp.into())).unwrap();
    assert_eq!(machine.send(0, message(0, 1, 1)).free, 20 * MICROSECOND);
    assert_eq!(deliveries(&mut machine), [24]);
    // In a cluster 1000 bytes take it 200 us instead of 20, and others after another 20.
    let mut machine = Machine::new(&network("clusters:2x2"), &slow(wide_area(2))).unwrap();
    assert_eq!(machine.send(0, message(0, 1, 1000)).free, 200 * MICROSECOND);
    assert_eq!(deliveries(&mut machine), [220]);
}

#[test]
fn a_slow_rank_does_not_make_the_link_between_clusters_slow() {
    let times = |factor| {
        let noise = Noise { slow_ranks: vec![(0, factor)], ..Noise::default() };
        let mut machine = Machine::new(&network("clusters:2x1"), &Settings { noise, ..wide_area(2) }).unwrap();
        let free = machine.send(0, message(0, 1, 1_000_000)).free / MICROSECOND;
        (free, deliveries(&mut machine))
    };
    // 1 MB takes 20 ms to the gateway, and a second over the link: there is time enough for a rank that takes 200 ms.
    assert_eq!(times(1.0), (1_020_020, vec![1_010_040]));
    assert_eq!(times(10.0), times(1.0));
    // Two seconds are too long: the link has all of it no earlier than the rank has sent it.
    assert_eq!(times(100.0), (2_020_020, vec![2_010_040]));
}

#[test]
fn a_fast_rank_overtakes_nobody_but_itself() {
    let noise = Noise { slow_ranks: vec![(0, 0.01)], ..Noise::default() };
    let mut machine = Machine::new(&network("clusters:2x2"), &Settings { noise, ..wide_area(2) }).unwrap();
    machine.send(0, Message { token: 0, ..message(0, 1, 100_000) });
    machine.send(0, Message { token: 1, ..message(0, 1, 1) });
    let token = |what| if let What::Delivered { token, .. } = what { Some(token) } else { None };
    let tokens: Vec<u64> =
        std::iter::from_fn(|| machine.next()).filter_map(|happening| token(happening.what)).collect();
    assert_eq!(tokens, [0, 1]);
}

/// What all ports together lose is lost by those that drive them all.
#[test]
fn lanes_that_have_no_port_of_their_own_cost_no_speed() {
    let torus = network("torus:4x4");
    let micros = |ports, efficiency| {
        let links = Links { ports, efficiency, crowded: Some(4), ..Links::new(1.0, 1.0) };
        play_id("allgather/bucket_k:4", &torus, &links.into(), 1000).micros()
    };
    assert!(micros(None, 0.5) > 1.5 * micros(None, 1.0));
    assert_eq!(micros(Some(2), 0.5), micros(Some(2), 1.0));
    // Eight lanes over four ports do not drive six.
    let schedule = build("scan/linear:segments=8", &torus);
    let sizes = uniform(&*schedule, 1000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let both = |efficiency| {
        let settings = Links { efficiency, crowded: Some(6), ..Links::new(1.0, 1.0) }.into();
        (play(piece, &torus, &settings).unwrap().micros(), phases(piece, &torus, &settings).unwrap().micros)
    };
    assert_eq!(both(0.5), both(1.0));
}
