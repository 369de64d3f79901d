//! The levels agree where they should: events, rounds in step, and counts.

mod common;

use common::{build, links, loggp, network, play_id, uniform, wide_area};
use treepie_sim::costs::{Links, Routing};
use treepie_sim::noise::Noise;
use treepie_sim::{Error, Piece, Settings, phases, play, symmetric};

fn agree(id: &str, text: &str, each: usize) {
    let network = network(text);
    let schedule = build(id, &network);
    let sizes = uniform(&*schedule, each);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let phased = phases(piece, &network, &links()).unwrap();
    let played = play_id(id, &network, &links(), each);
    let counted = phased.startups as f64 * 6.25 + phased.bytes_over_link * 0.0025;
    let off = |a: f64, b: f64| (a - b).abs() > 1e-9 * b;
    assert!(!off(phased.micros, counted), "{id} on {text}: {} in step, {counted} counted", phased.micros);
    assert!(
        !off(played.micros(), phased.micros),
        "{id} on {text}: {} by events, {} in step",
        played.micros(),
        phased.micros
    );
    assert_eq!((played.messages, played.bytes), (phased.messages, phased.bytes), "{id} on {text}");
}

#[test]
fn rings_buckets_and_doubling_with_one_lane() {
    for (id, text) in [
        ("allgather/ring", "torus:8x8"),
        ("allgather/ring", "flat:13"),
        ("allgather/ring", "clos:r10,t6,n24"),
        ("allgather/bucket", "torus:8x8x8"),
        ("allgather/bucket", "torus:3x5x2"),
        ("allgather/bucket", "torus:4x4x4x4"),
        ("allgather/distance_doubling", "torus:8x8x8"),
        ("allgather/distance_doubling", "torus:32"),
        ("allgather/distance_halving", "torus:8x8x8"),
        ("allgather/torus_reordered", "torus:8x8x8"),
        ("allgather/distance_doubling", "flat:64"),
        ("allgather/distance_doubling", "clos:r80,t64,n512"),
        ("allgather/distance_halving", "clos:r80,t64,n512"),
        ("allgather/bruck", "flat:37"),
        ("reduce_scatter/ring", "torus:8x8"),
        ("allreduce/ring", "torus:4x4"),
        ("allreduce/recursive_doubling", "flat:128"),
        ("barrier/dissemination", "flat:33"),
    ] {
        for each in [4800, 1200] {
            agree(id, text, if id.starts_with("barrier") { 0 } else { each });
        }
    }
}

#[test]
fn lanes_overlap_start_ups_with_transfers() {
    let network = network("torus:8x8x8");
    let schedule = build("allgather/bucket_k:6", &network);
    let sizes = uniform(&*schedule, 48_000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let phased = phases(piece, &network, &links()).unwrap();
    let played = play_id("allgather/bucket_k:6", &network, &links(), 48_000);
    // All that the events save is start-ups of five lanes of six.
    let saved = phased.micros - played.micros();
    assert!(saved > 0.0 && saved < phased.startups as f64 * 6.25 * 5.0 / 6.0 + 1e-6, "{saved} us saved");
    // With start-ups for free both are the same.
    let free: Settings = Links::new(0.0, 0.0025).into();
    let (phased, played) = (
        phases(piece, &network, &free).unwrap().micros,
        play_id("allgather/bucket_k:6", &network, &free, 48_000).micros(),
    );
    assert!((phased - played).abs() < 1e-9 * phased, "{phased} {played}");
}

#[test]
fn hops_add_their_time_on_both_levels() {
    let network = network("torus:8x8");
    let schedule = build("allgather/torus_reordered", &network);
    let sizes = uniform(&*schedule, 1200);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let with = |hop| Settings::from(Links { hop, ..Links::new(6.25, 0.0025) });
    let added = play_id("allgather/torus_reordered", &network, &with(2.0), 1200).micros()
        - play_id("allgather/torus_reordered", &network, &with(0.0), 1200).micros();
    // Stages over 4, 4, 2, 2, 1 and 1 hops.
    assert_eq!(added, 14.0 * 2.0);
    let phased = |hop| phases(piece, &network, &with(hop)).unwrap().micros;
    assert!((phased(2.0) - phased(0.0) - added).abs() < 1e-9);
}

#[test]
fn windows_hold_lanes_back() {
    // Down a chain of 5, 8 segments of 10 us each. With all lanes open the root starts the next ones while one is sent; with a
    // window of 1 each segment is started when the one before it has been sent.
    let network = network("flat:5");
    let time =
        |window| play_id(&format!("bcast/chain:segments=8,window={window}"), &network, &links(), 8 * 4000).micros();
    assert_eq!(time(8), 6.25 + 8.0 * 10.0 + 3.0 * (6.25 + 10.0));
    assert_eq!(time(1), (8.0 + 3.0) * (6.25 + 10.0));
}

#[test]
fn clos_networks_are_routed_alike_on_both_levels() {
    // Eight nodes of a leaf by three links: ideally 8/3 on each, by the receivers' numbers 3 on two of them.
    let network = network("clos:r11,t8,n16");
    for (id, more) in [("allgather/distance_doubling", 8.0 * (3.0 - 8.0 / 3.0)), ("allgather/ring", 0.0)] {
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 4800);
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        let [ideal, fixed] = [Routing::Ideal, Routing::Static].map(|routing| {
            let settings: Settings = Links { routing, ..Links::new(6.25, 0.0025) }.into();
            let phased = phases(piece, &network, &settings).unwrap().micros;
            let played = play_id(id, &network, &settings, 4800).micros();
            assert!((phased - played).abs() < 1e-9 * phased, "{id}: {phased} in step, {played} by events");
            phased
        });
        assert!((fixed - ideal - more * 12.0).abs() < 1e-9, "{id}: {fixed} statically, {ideal} ideally");
    }
}

#[test]
fn a_slow_link_is_slow_on_both_levels_and_other_noise_is_refused() {
    let network = network("torus:8");
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 4000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let with = |noise| phases(piece, &network, &Settings { noise, ..links() });
    let slow = Noise { slow_links: vec![(6, 3.0)], ..Noise::default() };
    assert_eq!(with(slow.clone()).unwrap().micros, 7.0 * (6.25 + 30.0));
    let played = play_id("allgather/ring", &network, &Settings { noise: slow.clone(), ..links() }, 4000);
    assert_eq!(played.micros(), 7.0 * (6.25 + 30.0));
    let no_link = with(Noise { slow_links: vec![(16, 3.0)], ..Noise::default() });
    assert_eq!(no_link.unwrap_err().to_string(), "link 16 is named, and there are 16 links");
    for noise in [
        Noise { jitter: 1.0, ..Noise::default() },
        Noise { slow_ranks: vec![(1, 2.0)], ..Noise::default() },
        Noise { deaths: vec![(1, 2.0)], ..Noise::default() },
    ] {
        assert_eq!(with(noise), Err(Error::InStep));
    }
    // Where there are no links, none is slow.
    let refused = play(piece, &network, &Settings { noise: slow, ..loggp() }).unwrap_err().to_string();
    assert_eq!(refused, "slow links are named, and the costs are not of links: they need costs with alpha and delta");
}

#[test]
fn combining_copying_and_barriers_cost_the_same_on_both_levels() {
    for (id, text) in [
        ("allreduce/ring", "torus:4x4"),
        ("allreduce/rabenseifner", "flat:64"),
        ("allreduce/recursive_doubling", "flat:64"),
        ("reduce_scatter/ring", "torus:8x8"),
        ("allreduce/bucket", "torus:4x4"),
        // Its last step is a rotation in memory.
        ("allgather/bruck", "flat:37"),
    ] {
        let network = network(text);
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 4800);
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        let priced = Settings { gamma: 0.25, barrier: 100.0, ..links() };
        let (phased, played) =
            (phases(piece, &network, &priced).unwrap().micros, play(piece, &network, &priced).unwrap());
        assert!((phased - played.micros()).abs() < 1e-9 * phased, "{id}: {phased} in step, {played:?}");
        let free = phases(piece, &network, &links()).unwrap().micros;
        assert!(phased > free + 1000.0, "{id}: {phased} against {free} for free");
    }
}

#[test]
fn rounds_refuse_what_shows_message_by_message() {
    let network = network("torus:8");
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 4000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let capped = Settings { memory_cap: Some(1 << 20), ..links() };
    let narrow: Settings = Links { ports: Some(1), ..Links::new(6.25, 0.0025) }.into();
    for settings in [capped, narrow] {
        assert_eq!(phases(piece, &network, &settings), Err(Error::InStep));
        assert!(play(piece, &network, &settings).is_ok());
    }
}

#[test]
fn time_ends() {
    // A byte takes a day and a half, and there are 53 days.
    let (day_and_half, most) = (1.5 * 86_400e6, 35);
    let slow = Links::new(0.0, day_and_half).into();
    let ring = |ranks: u32, bytes| {
        let network = &network(&format!("flat:{ranks}"));
        let schedule = build("allgather/ring", network);
        let sizes = uniform(&*schedule, bytes);
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        (play(piece, network, &slow), symmetric::play(piece, network, &slow))
    };
    let (played, folded) = ring(most + 1, 1);
    let right = f64::from(most) * day_and_half;
    assert_eq!((played.unwrap().micros(), folded.unwrap().unwrap().micros()), (right, right));
    let (played, folded) = ring(most + 2, 1);
    assert_eq!((played, folded), (Err(Error::TooLong), Err(Error::TooLong)));
    // Also where one message alone takes longer than a word can say.
    assert_eq!(ring(8, 1 << 40).0, Err(Error::TooLong));
    for (id, text, settings) in [
        ("bcast/two_layer", "clusters:32x1", wide_area(32)),
        ("bcast/chain", "flat:8", Settings { gamma: 0.0, ..loggp() }),
        ("allreduce/ring", "flat:8", Settings { gamma: 1e3, ..links() }),
    ] {
        let network = network(text);
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 1 << 49);
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        assert_eq!(play(piece, &network, &settings), Err(Error::TooLong), "{id}");
    }
    assert_eq!(Error::TooLong.to_string(), "the simulation goes beyond 53 days of virtual time");
}

#[test]
fn the_dead_are_named_and_do_not_wait() {
    let network = network("flat:8");
    let schedule = build("bcast/chain", &network);
    let sizes = uniform(&*schedule, 4000);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let dying = |deaths: &[(u32, f64)]| {
        let noise = Noise { deaths: deaths.to_vec(), ..Noise::default() };
        play(piece, &network, &Settings { noise, ..links() }).unwrap_err().to_string()
    };
    // The root is rank 0, and each passes on what it has after 16.25 us.
    assert_eq!(dying(&[(6, 5.0)]), "rank 6 died at 5 us; 1 rank waits for what never comes");
    assert_eq!(dying(&[(6, 5.0), (6, 7.0)]), dying(&[(6, 5.0)]), "nobody dies twice");
    assert_eq!(dying(&[(7, 5.0)]), "rank 7 died at 5 us; all who live came to their end");
    assert_eq!(
        dying(&[(4, 9.5), (3, 5.0)]),
        "rank 3 died at 5 us, and 1 more after it; 3 ranks wait for what never comes"
    );
}
