//! Guarantees of a machine: order, sharing, ports, windows, and noise.

use crate::common::{build, links, loggp, network, simulate_id, uniform, wide_area};
use treepie_sim::costs::{LinkCosts, LogGP, Routing};
use treepie_sim::noise::Noise;
use treepie_sim::schedule_sim::simulate_schedule_traced;
use treepie_sim::{Error, Machine, Settings, SimEvent, SimEventKind, SimMessage, Time, Workload, simulate_schedule};
use treepie_topology::{Network, TieBreak};

fn message(from: u32, to: u32, bytes: u64) -> SimMessage {
    SimMessage { from, to, bytes, channel: 0, token: u64::from(from), tie: TieBreak::Plus }
}

fn drain_events(machine: &mut Machine) -> Vec<SimEvent> {
    std::iter::from_fn(|| machine.next()).collect()
}

/// Times of deliveries, by receiver and sender.
fn deliveries(machine: &mut Machine) -> Vec<(Time, u32, u32)> {
    let delivered = |event: SimEvent| match event.kind {
        SimEventKind::Delivered { from, .. } => Some((event.time, event.rank, from)),
        _ => None,
    };
    drain_events(machine).into_iter().filter_map(delivered).collect()
}

#[test]
fn interfaces_serialize_messages() {
    let costs = LogGP { latency: 10.0, overhead: 1.0, gap: 3.0, per_byte: 0.5 };
    let mut machine = Machine::new(&Network::flat(4), &costs.into()).unwrap();
    // Injection: 3 + 4 apart. The CPU is free after 1 each.
    assert_eq!(machine.send(0, message(0, 1, 9)).cpu_free, 1_000_000);
    assert_eq!(machine.send(0, message(0, 2, 1)).cpu_free, 2_000_000);
    assert_eq!(deliveries(&mut machine), [(15_000_000, 1, 0), (18_000_000, 2, 0)]);
    // Admission: simultaneous arrivals are 3 + 4 apart.
    let mut machine = Machine::new(&Network::flat(4), &costs.into()).unwrap();
    for from in 1..4 {
        machine.send(0, message(from, 0, 9));
    }
    assert_eq!(deliveries(&mut machine), [(15_000_000, 0, 1), (22_000_000, 0, 2), (29_000_000, 0, 3)]);
}

#[test]
fn a_link_is_shared_equally_and_rates_change_with_its_flows() {
    let network = network("torus:16");
    let mut machine = Machine::new(&network, &LinkCosts::new(0.0, 1.0).into()).unwrap();
    machine.send(0, message(0, 2, 100));
    machine.schedule_wakeup(40_000_000, 1, 0);
    assert!(matches!(machine.next().unwrap().kind, SimEventKind::Wakeup { .. }));
    // From 40 on both share the link from 1 to 2; 60 are left of the first.
    machine.send(40_000_000, message(1, 2, 30));
    // The second ends at 100; the first has 30 left, and ends at 130.
    assert_eq!(deliveries(&mut machine), [(100_000_000, 2, 1), (130_000_000, 2, 0)]);
}

#[test]
fn a_node_injects_one_message_per_port() {
    let network = network("torus:4x4");
    let ends = |ports| {
        let costs = LinkCosts { ports, ..LinkCosts::new(0.0, 1.0) };
        let mut machine = Machine::new(&network, &costs.into()).unwrap();
        for to in [1, 3, 4, 12] {
            machine.send(0, message(0, to, 10));
        }
        deliveries(&mut machine).into_iter().map(|(time, _, _)| time / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(ends(None), [10, 10, 10, 10]);
    assert_eq!(ends(Some(3)), [10, 10, 10, 20]);
    assert_eq!(ends(Some(1)), [10, 20, 30, 40]);
}

#[test]
fn static_routing_of_a_clos_network_can_collide() {
    let network = network("clos:r6,t4,n8");
    let time = |routing, to: [u32; 2]| {
        let costs = LinkCosts { routing, ..LinkCosts::new(0.0, 1.0) };
        let mut machine = Machine::new(&network, &costs.into()).unwrap();
        (0..2).zip(to).for_each(|(from, to)| _ = machine.send(0, message(from, to, 10)));
        deliveries(&mut machine).last().unwrap().0 / 1_000_000
    };
    // Two uplinks for four nodes: receivers 4 and 6 use the same one.
    assert_eq!((time(Routing::Ideal, [4, 6]), time(Routing::Static, [4, 6])), (10, 20));
    assert_eq!((time(Routing::Ideal, [4, 5]), time(Routing::Static, [4, 5])), (10, 10));
}

#[test]
fn a_gateway_buffers_a_window_and_blocks_the_sender() {
    let network = network("clusters:2x2");
    let mut machine = Machine::new(&network, &wide_area(2)).unwrap();
    // Two of 50,000 bytes: the second has room when the link has carried 34,464, starting after 20 us.
    let first = machine.send(0, message(0, 2, 50_000));
    assert_eq!(first.completion, Some(1_000_000_000));
    let second = machine.send(0, SimMessage { token: 9, ..message(0, 3, 50_000) });
    assert_eq!(second.completion, None);
    let events = drain_events(&mut machine);
    let completion = events.iter().find(|event| event.kind == SimEventKind::SendComplete { token: 9 }).unwrap();
    assert_eq!(completion.time, (20 + 100_000 - 65_536) * 1_000_000);
    let last = events.last().unwrap();
    assert_eq!((last.time, last.rank), ((20 + 100_000 + 10_000 + 20) * 1_000_000, 3));
}

fn noisy(noise: Noise) -> Settings {
    Settings { noise, ..loggp() }
}

#[test]
fn jitter_reorders_channels_but_not_within_a_channel() {
    let noise = Noise { seed: 5, jitter: 500.0, ..Noise::default() };
    for settings in [noisy(noise.clone()), Settings { noise, ..links() }] {
        let mut machine = Machine::new(&Network::flat(3), &settings).unwrap();
        for token in 0..200 {
            machine.send(0, SimMessage { channel: (token % 2) as u32, token, ..message(0, 1, 8) });
        }
        let tokens: Vec<u64> = drain_events(&mut machine)
            .into_iter()
            .filter_map(|event| if let SimEventKind::Delivered { token, .. } = event.kind { Some(token) } else { None })
            .collect();
        assert_eq!(tokens.len(), 200);
        assert!(!tokens.is_sorted(), "channels overtake each other");
        for channel in 0..2 {
            assert!(tokens.iter().filter(|token| *token % 2 == channel).is_sorted(), "a channel keeps its order");
        }
    }
}

#[test]
fn order_is_kept_on_links_on_demand() {
    let order = |keep: bool| {
        let mut machine = Machine::new(&network("torus:4"), &LinkCosts::new(1.0, 1.0).into()).unwrap();
        if keep {
            machine.keep_order();
        }
        machine.send(0, SimMessage { token: 0, ..message(0, 1, 1000) });
        machine.send(0, SimMessage { token: 1, ..message(0, 1, 10) });
        let token = |event: SimEvent| {
            if let SimEventKind::Delivered { token, .. } = event.kind { Some(token) } else { None }
        };
        drain_events(&mut machine).into_iter().filter_map(token).collect::<Vec<_>>()
    };
    assert_eq!((order(false), order(true)), (vec![1, 0], vec![0, 1]));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let network = network("torus:4x4");
    let schedule = build("allgather/bucket_k:4", &network);
    let sizes = uniform(&*schedule, 1000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let trace = |seed| {
        let noise = Noise { seed, jitter: 20.0, ..Noise::default() };
        let (result, trace) = simulate_schedule_traced(workload, &network, &Settings { noise, ..links() }).unwrap();
        let mut text = String::new();
        trace.write_json(&mut text).unwrap();
        (result, text)
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1).1, trace(2).1);
    assert!(trace(1).1.starts_with(
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"send\",\"ph\":\"X\",\"pid\":0,\"tid\":0,"
    ));
    assert_eq!(trace(1).1.matches("\"name\":\"delivered\"").count() as u64, trace(1).0.messages);
}

#[test]
fn slow_ranks_and_links_slow_down() {
    let network = network("torus:8");
    let quiet = simulate_id("allgather/ring", &network, &links(), 4000).makespan;
    let with = |noise| simulate_id("allgather/ring", &network, &Settings { noise, ..links() }, 4000).makespan;
    // One start-up of 6.25 us, and one link of 10 us, in each of seven rounds.
    let slow_rank = with(Noise { slow_ranks: vec![(3, 3.0)], ..Noise::default() });
    let slow_link = with(Noise { slow_links: vec![(6, 3.0)], ..Noise::default() });
    assert_eq!(quiet, 7 * 16_250_000);
    assert_eq!(slow_rank, quiet + 7 * 12_500_000);
    assert_eq!(slow_link, quiet + 7 * 20_000_000);
}

#[test]
fn ranks_that_wait_for_a_failed_rank_wait_forever() {
    let network = Network::flat(8);
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 100);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let failing =
        |at| simulate_schedule(workload, &network, &noisy(Noise { failures: vec![(5, at)], ..Noise::default() }));
    assert_eq!(failing(20.0), Err(Error::RankFailed { rank: 5, micros: 20.0, others: 0, waiting: 7 }));
    assert!(failing(1e6).is_ok(), "a failure after the end changes nothing");
    let unknown_rank =
        simulate_schedule(workload, &network, &noisy(Noise { failures: vec![(8, 1.0)], ..Noise::default() }));
    assert_eq!(unknown_rank.unwrap_err().to_string(), "rank 8 does not exist: there are 8 ranks");
}

#[test]
fn exceeding_the_memory_cap_ends_the_run() {
    let network = Network::flat(8);
    let schedule = build("allgather/bruck", &network);
    let sizes = uniform(&*schedule, 1000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    // Rank 2 starts so late that rank 1, which waits for its message, has received all others before it posts receives
    // for them.
    let noise = Noise { slow_ranks: vec![(2, 1000.0)], ..Noise::default() };
    let capped =
        |cap| simulate_schedule(workload, &network, &Settings { memory_cap: Some(cap), ..noisy(noise.clone()) });
    let error = capped(1500).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { rank: 1, cap: 1500, .. }), "{error}");
    assert!(error.to_string().starts_with("rank 1 ran out of memory at "), "{error}");
    assert!(capped(1 << 20).is_ok());
}

#[test]
fn a_barrier_is_charged_at_global_phase_ends() {
    let network = network("torus:4x4x4");
    let schedule = build("allgather/hybrid", &network);
    let global = (0..schedule.phases())
        .filter(|phase| schedule.phase(*phase).end == treepie_schedule::PhaseEnd::Global)
        .count() as u64;
    let time = |barrier| {
        simulate_id("allgather/hybrid", &network, &Settings { barrier_time: barrier, ..links() }, 600).makespan
    };
    assert!(global > 0);
    assert_eq!(time(100.0) - time(0.0), global * 100_000_000);
}

#[test]
fn mismatches_are_refused_in_one_line() {
    let schedule = build("allgather/ring", &Network::flat(8));
    let sizes = uniform(&*schedule, 8);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let refusal = |network: &Network, settings: &Settings| {
        simulate_schedule(workload, network, settings).unwrap_err().to_string()
    };
    assert_eq!(refusal(&Network::flat(9), &loggp()), "the schedule is for 8 ranks, and the network has 9");
    assert_eq!(refusal(&Network::flat(0), &loggp()), "the network `flat` does not specify the number of ranks");
    assert_eq!(
        refusal(&Network::flat(8), &wide_area(2)),
        "cluster costs need a cluster network, and the network is `flat:8`"
    );
    let slow = Noise { slow_links: vec![(16, 2.0)], ..Noise::default() };
    let slow = Settings { noise: slow, ..links() };
    assert_eq!(refusal(&Network::flat(8), &slow), "link 16 does not exist: there are 16 links");
    assert_eq!(
        refusal(&network("clusters:2x4"), &wide_area(3)),
        "the WAN link matrix needs 2 rows and columns, and has 3"
    );
}

/// Start-ups are counted for sends or receives of a rank, whichever are more: also where many send to one.
#[test]
fn a_rank_receives_one_message_per_start_up() {
    let settings = Settings::from(LinkCosts::new(5.0, 0.001));
    for (id, startups) in [("reduce/flat", 63.0), ("gather/flat", 63.0), ("reduce/binomial", 6.0)] {
        let flat = Network::flat(64);
        let micros = simulate_id(id, &flat, &settings, 1).micros();
        let started = startups * 5.0;
        assert!((started..started + 1.0).contains(&micros), "{id}: {micros} us, and {startups} start-ups");
    }
}

#[test]
fn an_empty_message_pays_its_hops() {
    let ring = network("torus:16");
    let settings = Settings::from(LinkCosts { per_hop: 5.0, ..LinkCosts::new(6.0, 0.001) });
    for (bytes, there) in [(0, 46.0), (1, 46.001)] {
        let mut machine = Machine::new(&ring, &settings).unwrap();
        machine.send(0, message(0, 8, bytes));
        let (time, ..) = deliveries(&mut machine)[0];
        assert_eq!(treepie_sim::time::to_micros(time), there, "{bytes} bytes over eight hops");
    }
}
