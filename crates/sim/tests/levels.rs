//! The levels agree where they should: events, lockstep rounds, and counts.

use crate::common::{build, links, loggp, network, simulate_id, uniform, wide_area};
use treepie_sim::costs::{LinkCosts, Routing};
use treepie_sim::noise::Noise;
use treepie_sim::{Error, Settings, Workload, lockstep_cost, simulate_schedule, symmetric};

fn agree(id: &str, text: &str, each: usize) {
    let network = network(text);
    let schedule = build(id, &network);
    let sizes = uniform(&*schedule, each);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let lockstep = lockstep_cost(workload, &network, &links()).unwrap();
    let result = simulate_id(id, &network, &links(), each);
    let counted = lockstep.startups as f64 * 6.25 + lockstep.bytes_over_link * 0.0025;
    let off = |a: f64, b: f64| (a - b).abs() > 1e-9 * b;
    assert!(!off(lockstep.micros, counted), "{id} on {text}: {} in lockstep, {counted} counted", lockstep.micros);
    assert!(
        !off(result.micros(), lockstep.micros),
        "{id} on {text}: {} by events, {} in lockstep",
        result.micros(),
        lockstep.micros
    );
    assert_eq!((result.messages, result.bytes), (lockstep.messages, lockstep.bytes), "{id} on {text}");
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
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let lockstep = lockstep_cost(workload, &network, &links()).unwrap();
    let result = simulate_id("allgather/bucket_k:6", &network, &links(), 48_000);
    // Events save only start-ups, of five lanes of six.
    let saved = lockstep.micros - result.micros();
    assert!(saved > 0.0 && saved < lockstep.startups as f64 * 6.25 * 5.0 / 6.0 + 1e-6, "{saved} us saved");
    // With free start-ups both are the same.
    let free: Settings = LinkCosts::new(0.0, 0.0025).into();
    let (lockstep, result) = (
        lockstep_cost(workload, &network, &free).unwrap().micros,
        simulate_id("allgather/bucket_k:6", &network, &free, 48_000).micros(),
    );
    assert!((lockstep - result).abs() < 1e-9 * lockstep, "{lockstep} {result}");
}

#[test]
fn hops_add_their_time_on_both_levels() {
    let network = network("torus:8x8");
    let schedule = build("allgather/torus_reordered", &network);
    let sizes = uniform(&*schedule, 1200);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let with = |hop| Settings::from(LinkCosts { per_hop: hop, ..LinkCosts::new(6.25, 0.0025) });
    let added = simulate_id("allgather/torus_reordered", &network, &with(2.0), 1200).micros()
        - simulate_id("allgather/torus_reordered", &network, &with(0.0), 1200).micros();
    // Stages over 4, 4, 2, 2, 1 and 1 hops.
    assert_eq!(added, 14.0 * 2.0);
    let lockstep = |hop| lockstep_cost(workload, &network, &with(hop)).unwrap().micros;
    assert!((lockstep(2.0) - lockstep(0.0) - added).abs() < 1e-9);
}

#[test]
fn windows_hold_lanes_back() {
    // Down a chain of 5, 8 segments of 10 us each. With all lanes open the root starts the next segments during a
    // transfer; with a window of 1 each segment starts when the previous one has been sent.
    let network = network("flat:5");
    let time =
        |window| simulate_id(&format!("bcast/chain:segments=8,window={window}"), &network, &links(), 8 * 4000).micros();
    assert_eq!(time(8), 6.25 + 8.0 * 10.0 + 3.0 * (6.25 + 10.0));
    assert_eq!(time(1), (8.0 + 3.0) * (6.25 + 10.0));
}

#[test]
fn clos_networks_are_routed_alike_on_both_levels() {
    // Eight nodes of a leaf over three links: ideally 8/3 per link, by static routing 3 on two of them.
    let network = network("clos:r11,t8,n16");
    for (id, more) in [("allgather/distance_doubling", 8.0 * (3.0 - 8.0 / 3.0)), ("allgather/ring", 0.0)] {
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 4800);
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        let [ideal, fixed] = [Routing::Ideal, Routing::Static].map(|routing| {
            let settings: Settings = LinkCosts { routing, ..LinkCosts::new(6.25, 0.0025) }.into();
            let lockstep = lockstep_cost(workload, &network, &settings).unwrap().micros;
            let result = simulate_id(id, &network, &settings, 4800).micros();
            assert!((lockstep - result).abs() < 1e-9 * lockstep, "{id}: {lockstep} in lockstep, {result} by events");
            lockstep
        });
        assert!((fixed - ideal - more * 12.0).abs() < 1e-9, "{id}: {fixed} statically, {ideal} ideally");
    }
}

#[test]
fn a_slow_link_is_slow_on_both_levels_and_other_noise_is_refused() {
    let network = network("torus:8");
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 4000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let with = |noise| lockstep_cost(workload, &network, &Settings { noise, ..links() });
    let slow = Noise { slow_links: vec![(6, 3.0)], ..Noise::default() };
    assert_eq!(with(slow.clone()).unwrap().micros, 7.0 * (6.25 + 30.0));
    let result = simulate_id("allgather/ring", &network, &Settings { noise: slow.clone(), ..links() }, 4000);
    assert_eq!(result.micros(), 7.0 * (6.25 + 30.0));
    let no_link = with(Noise { slow_links: vec![(16, 3.0)], ..Noise::default() });
    assert_eq!(no_link.unwrap_err().to_string(), "link 16 does not exist: there are 16 links");
    for noise in [
        Noise { jitter: 1.0, ..Noise::default() },
        Noise { slow_ranks: vec![(1, 2.0)], ..Noise::default() },
        Noise { failures: vec![(1, 2.0)], ..Noise::default() },
    ] {
        assert_eq!(with(noise), Err(Error::LockstepUnsupported));
    }
    // Without link costs no link can be slow.
    let refused = simulate_schedule(workload, &network, &Settings { noise: slow, ..loggp() }).unwrap_err().to_string();
    assert_eq!(refused, "slow links need link costs: alpha and delta");
}

#[test]
fn combining_copying_and_barriers_cost_the_same_on_both_levels() {
    for (id, text) in [
        ("allreduce/ring", "torus:4x4"),
        ("allreduce/rabenseifner", "flat:64"),
        ("allreduce/recursive_doubling", "flat:64"),
        ("reduce_scatter/ring", "torus:8x8"),
        ("allreduce/bucket", "torus:4x4"),
        // Its last step is a local rotation.
        ("allgather/bruck", "flat:37"),
    ] {
        let network = network(text);
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 4800);
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        let priced = Settings { gamma: 0.25, barrier_time: 100.0, ..links() };
        let (lockstep, result) = (
            lockstep_cost(workload, &network, &priced).unwrap().micros,
            simulate_schedule(workload, &network, &priced).unwrap(),
        );
        assert!((lockstep - result.micros()).abs() < 1e-9 * lockstep, "{id}: {lockstep} in lockstep, {result:?}");
        let free = lockstep_cost(workload, &network, &links()).unwrap().micros;
        assert!(lockstep > free + 1000.0, "{id}: {lockstep} against {free} for free");
    }
}

#[test]
fn lockstep_rounds_refuse_what_needs_events() {
    let network = network("torus:8");
    let schedule = build("allgather/ring", &network);
    let sizes = uniform(&*schedule, 4000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let capped = Settings { memory_cap: Some(1 << 20), ..links() };
    let narrow: Settings = LinkCosts { ports: Some(1), ..LinkCosts::new(6.25, 0.0025) }.into();
    for settings in [capped, narrow] {
        assert_eq!(lockstep_cost(workload, &network, &settings), Err(Error::LockstepUnsupported));
        assert!(simulate_schedule(workload, &network, &settings).is_ok());
    }
}

#[test]
fn time_overflows_are_errors() {
    // A byte takes a day and a half, and time ends after 53 days.
    let (day_and_half, most) = (1.5 * 86_400e6, 35);
    let slow = LinkCosts::new(0.0, day_and_half).into();
    let ring = |ranks: u32, bytes| {
        let network = &network(&format!("flat:{ranks}"));
        let schedule = build("allgather/ring", network);
        let sizes = uniform(&*schedule, bytes);
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        (simulate_schedule(workload, network, &slow), symmetric::simulate(workload, network, &slow))
    };
    let (result, representative) = ring(most + 1, 1);
    let expected = f64::from(most) * day_and_half;
    assert_eq!((result.unwrap().micros(), representative.unwrap().unwrap().micros()), (expected, expected));
    let (result, representative) = ring(most + 2, 1);
    assert_eq!((result, representative), (Err(Error::TimeOverflow), Err(Error::TimeOverflow)));
    // Also where a single message takes longer than a word can hold.
    assert_eq!(ring(8, 1 << 40).0, Err(Error::TimeOverflow));
    for (id, text, settings) in [
        ("bcast/hierarchical", "clusters:32x1", wide_area(32)),
        ("bcast/chain", "flat:8", Settings { gamma: 0.0, ..loggp() }),
        ("allreduce/ring", "flat:8", Settings { gamma: 1e3, ..links() }),
    ] {
        let network = network(text);
        let schedule = build(id, &network);
        let sizes = uniform(&*schedule, 1 << 49);
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        assert_eq!(simulate_schedule(workload, &network, &settings), Err(Error::TimeOverflow), "{id}");
    }
    assert_eq!(Error::TimeOverflow.to_string(), "the simulation exceeds 53 days of virtual time");
}

#[test]
fn failed_ranks_are_reported_and_do_not_count_as_waiting() {
    let network = network("flat:8");
    let schedule = build("bcast/chain", &network);
    let sizes = uniform(&*schedule, 4000);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let failing = |failures: &[(u32, f64)]| {
        let noise = Noise { failures: failures.to_vec(), ..Noise::default() };
        simulate_schedule(workload, &network, &Settings { noise, ..links() }).unwrap_err().to_string()
    };
    // The root is rank 0, and each hop takes 16.25 us.
    assert_eq!(failing(&[(6, 5.0)]), "rank 6 failed at 5 us; 1 rank waits forever");
    assert_eq!(failing(&[(6, 5.0), (6, 7.0)]), failing(&[(6, 5.0)]), "a rank fails once");
    assert_eq!(failing(&[(7, 5.0)]), "rank 7 failed at 5 us; all other ranks finished");
    assert_eq!(failing(&[(4, 9.5), (3, 5.0)]), "rank 3 failed at 5 us, and 1 more after it; 3 ranks wait forever");
}
