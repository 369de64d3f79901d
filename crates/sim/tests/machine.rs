//! What a machine promises: order, sharing, ports, windows, and what goes wrong.

mod common;

use common::{build, links, loggp, network, play_id, uniform, wide_area};
use treepie_sim::costs::{Links, LogGP, Routing};
use treepie_sim::noise::Noise;
use treepie_sim::player::play_recorded;
use treepie_sim::{Error, Happening, Machine, Message, Piece, Settings, Time, What, play};
use treepie_topology::{Network, Tie};

fn message(from: u32, to: u32, bytes: u64) -> Message {
    Message { from, to, bytes, channel: 0, token: u64::from(from), tie: Tie::Plus }
}

fn all(machine: &mut Machine) -> Vec<Happening> {
    std::iter::from_fn(|| machine.next()).collect()
}

/// When messages are there, by receiver and sender.
fn deliveries(machine: &mut Machine) -> Vec<(Time, u32, u32)> {
    let delivered = |happening: Happening| match happening.what {
        What::Delivered { from, .. } => Some((happening.time, happening.rank, from)),
        _ => None,
    };
    all(machine).into_iter().filter_map(delivered).collect()
}

#[test]
fn interfaces_take_one_message_after_the_other() {
    let costs = LogGP { latency: 10.0, overhead: 1.0, gap: 3.0, per_byte: 0.5 };
    let mut machine = Machine::new(&Network::flat(4), &costs.into()).unwrap();
    // Out: 3 + 4 apart. The CPU is free after 1 each.
    assert_eq!(machine.send(0, message(0, 1, 9)).free, 1_000_000);
    assert_eq!(machine.send(0, message(0, 2, 1)).free, 2_000_000);
    assert_eq!(deliveries(&mut machine), [(15_000_000, 1, 0), (18_000_000, 2, 0)]);
    // In: those that come together are 3 + 4 apart.
    let mut machine = Machine::new(&Network::flat(4), &costs.into()).unwrap();
    for from in 1..4 {
        machine.send(0, message(from, 0, 9));
    }
    assert_eq!(deliveries(&mut machine), [(15_000_000, 0, 1), (22_000_000, 0, 2), (29_000_000, 0, 3)]);
}

#[test]
fn a_link_is_shared_fairly_and_speeds_change_when_others_come_and_go() {
    let network = network("torus:16");
    let mut machine = Machine::new(&network, &Links::new(0.0, 1.0).into()).unwrap();
    machine.send(0, message(0, 2, 100));
    machine.wake(40_000_000, 1, 0);
    assert!(matches!(machine.next().unwrap().what, What::Woken { .. }));
    // From 40 on both share the link from 1 to 2; 60 are left of the first.
    machine.send(40_000_000, message(1, 2, 30));
    // The second ends at 100; the first has 30 left, and ends at 130.
    assert_eq!(deliveries(&mut machine), [(100_000_000, 2, 1), (130_000_000, 2, 0)]);
}

#[test]
fn a_node_drives_as_many_messages_as_it_has_ports() {
    let network = network("torus:4x4");
    let ends = |ports| {
        let costs = Links { ports, ..Links::new(0.0, 1.0) };
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
fn static_routing_of_a_clos_network_can_be_unlucky() {
    let network = network("clos:r6,t4,n8");
    let time = |routing, to: [u32; 2]| {
        let costs = Links { routing, ..Links::new(0.0, 1.0) };
        let mut machine = Machine::new(&network, &costs.into()).unwrap();
        (0..2).zip(to).for_each(|(from, to)| _ = machine.send(0, message(from, to, 10)));
        deliveries(&mut machine).last().unwrap().0 / 1_000_000
    };
    // Two links for four nodes: receivers 4 and 6 are reached by the same one.
    assert_eq!((time(Routing::Ideal, [4, 6]), time(Routing::Static, [4, 6])), (10, 20));
    assert_eq!((time(Routing::Ideal, [4, 5]), time(Routing::Static, [4, 5])), (10, 10));
}

#[test]
fn a_gateway_takes_a_window_and_holds_back_the_rest() {
    let network = network("clusters:2x2");
    let mut machine = Machine::new(&network, &wide_area(2)).unwrap();
    // Two of 50,000 bytes: the second has room when 34,464 have gone over the link, which begins after 20 us.
    let first = machine.send(0, message(0, 2, 50_000));
    assert_eq!(first.over, Some(1_000_000_000));
    let second = machine.send(0, Message { token: 9, ..message(0, 3, 50_000) });
    assert_eq!(second.over, None);
    let happenings = all(&mut machine);
    let over = happenings.iter().find(|happening| happening.what == What::Sent { token: 9 }).unwrap();
    assert_eq!(over.time, (20 + 100_000 - 65_536) * 1_000_000);
    let last = happenings.last().unwrap();
    assert_eq!((last.time, last.rank), ((20 + 100_000 + 10_000 + 20) * 1_000_000, 3));
}

fn noisy(noise: Noise) -> Settings {
    Settings { noise, ..loggp() }
}

#[test]
fn jitter_keeps_the_order_of_a_channel_and_of_nothing_else() {
    let noise = Noise { seed: 5, jitter: 500.0, ..Noise::default() };
    for settings in [noisy(noise.clone()), Settings { noise, ..links() }] {
        let mut machine = Machine::new(&Network::flat(3), &settings).unwrap();
        for token in 0..200 {
            machine.send(0, Message { channel: (token % 2) as u32, token, ..message(0, 1, 8) });
        }
        let tokens: Vec<u64> = all(&mut machine)
            .into_iter()
            .filter_map(|happening| if let What::Delivered { token, .. } = happening.what { Some(token) } else { None })
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
        let mut machine = Machine::new(&network("torus:4"), &Links::new(1.0, 1.0).into()).unwrap();
        if keep {
            machine.keep_order();
        }
        machine.send(0, Message { token: 0, ..message(0, 1, 1000) });
        machine.send(0, Message { token: 1, ..message(0, 1, 10) });
        let token =
            |happening: Happening| if let What::Delivered { token, .. } = happening.what { Some(token) } else { None };
        all(&mut machine).into_iter().filter_map(token).collect::<Vec<_>>()
    };
    assert_eq!((order(false), order(true)), (vec![1, 0], vec![0, 1]));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let network = network("torus:4x4");
    let schedule = build("allgather/bucket_k:4", &network);
    let sizes = uniform(&*schedule, 1000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let trace = |seed| {
        let noise = Noise { seed, jitter: 20.0, ..Noise::default() };
        let (played, trace) = play_recorded(piece, &network, &Settings { noise, ..links() }).unwrap();
        let mut text = String::new();
        trace.json(&mut text).unwrap();
        (played, text)
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
    let quiet = play_id("allgather/ring", &network, &links(), 4000).makespan;
    let with = |noise| play_id("allgather/ring", &network, &Settings { noise, ..links() }, 4000).makespan;
    // One start-up of 6.25 us, and one link of 10 us, in each of seven rounds.
    let slow_rank = with(Noise { slow_ranks: vec![(3, 3.0)], ..Noise::default() });
    let slow_link = with(Noise { slow_links: vec![(6, 3.0)], ..Noise::default() });
    assert_eq!(quiet, 7 * 16_250_000);
    assert_eq!(slow_rank, quiet + 7 * 12_500_000);
    assert_eq!(slow_link, quiet + 7 * 20_000_000);
}

#[test]
fn who_waits_for_the_dead_waits_for_ever() {
    let network = Network::flat(8);
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 100);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let dying = |at| play(piece, &network, &noisy(Noise { deaths: vec![(5, at)], ..Noise::default() }));
    assert_eq!(dying(20.0), Err(Error::Died { rank: 5, micros: 20.0, others: 0, waiting: 7 }));
    assert!(dying(1e6).is_ok(), "after the end a death changes nothing");
    let nobody = play(piece, &network, &noisy(Noise { deaths: vec![(8, 1.0)], ..Noise::default() }));
    assert_eq!(nobody.unwrap_err().to_string(), "rank 8 is named, and there are 8 ranks");
}

#[test]
fn a_rank_that_holds_too_much_ends_the_run() {
    let network = Network::flat(8);
    let schedule = build("allgather/bruck", &network);
    let sizes = uniform(&*schedule, 1000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    // Rank 2 takes so long to begin that rank 1, which waits for its message, has all others before it asks for them.
    let noise = Noise { slow_ranks: vec![(2, 1000.0)], ..Noise::default() };
    let capped = |cap| play(piece, &network, &Settings { memory_cap: Some(cap), ..noisy(noise.clone()) });
    let error = capped(1500).unwrap_err();
    assert!(matches!(error, Error::Memory { rank: 1, cap: 1500, .. }), "{error}");
    assert!(error.to_string().starts_with("rank 1 ran out of memory at "), "{error}");
    assert!(capped(1 << 20).is_ok());
}

#[test]
fn a_barrier_is_paid_where_all_wait_for_all() {
    let network = network("torus:4x4x4");
    let schedule = build("allgather/hybrid", &network);
    let global = (0..schedule.phases())
        .filter(|phase| schedule.phase(*phase).end == treepie_schedule::End::Global)
        .count() as u64;
    let time = |barrier| play_id("allgather/hybrid", &network, &Settings { barrier, ..links() }, 600).makespan;
    assert!(global > 0);
    assert_eq!(time(100.0) - time(0.0), global * 100_000_000);
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let schedule = build("allgather/ring", &Network::flat(8));
    let sizes = uniform(&*schedule, 8);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let refusal = |network: &Network, settings: &Settings| play(piece, network, settings).unwrap_err().to_string();
    assert_eq!(refusal(&Network::flat(9), &loggp()), "the schedule is for 8 ranks, and the network has 9");
    assert_eq!(refusal(&Network::flat(0), &loggp()), "the network `flat` has no number of ranks yet");
    assert_eq!(
        refusal(&Network::flat(8), &wide_area(2)),
        "costs of clusters need a network of clusters, and the network is `flat:8`"
    );
    let slow = Noise { slow_links: vec![(16, 2.0)], ..Noise::default() };
    let slow = Settings { noise: slow, ..links() };
    assert_eq!(refusal(&Network::flat(8), &slow), "link 16 is named, and there are 16 links");
    assert_eq!(refusal(&network("clusters:2x4"), &wide_area(3)), "there are 2 clusters, and links from 3");
}

/// Start-ups are counted for what a rank sends or receives, whichever is more: also where many send to one.
#[test]
fn a_rank_takes_one_message_each_start_up() {
    let settings = Settings::from(Links::new(5.0, 0.001));
    for (id, startups) in [("reduce/flat", 63.0), ("gather/flat", 63.0), ("reduce/binomial", 6.0)] {
        let flat = Network::flat(64);
        let micros = play_id(id, &flat, &settings, 1).micros();
        let started = startups * 5.0;
        assert!((started..started + 1.0).contains(&micros), "{id}: {micros} us, and {startups} start-ups");
    }
}

#[test]
fn a_message_without_bytes_takes_its_hops_too() {
    let ring = network("torus:16");
    let settings = Settings::from(Links { hop: 5.0, ..Links::new(6.0, 0.001) });
    for (bytes, there) in [(0, 46.0), (1, 46.001)] {
        let mut machine = Machine::new(&ring, &settings).unwrap();
        machine.send(0, message(0, 8, bytes));
        let (time, ..) = deliveries(&mut machine)[0];
        assert_eq!(treepie_sim::time::micros(time), there, "{bytes} bytes over eight hops");
    }
}
