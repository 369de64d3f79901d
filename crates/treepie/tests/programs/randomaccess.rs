//! RandomAccess on simulated ranks, with data: results under delays, and the messages that the paper counts.

use treepie::Network;
use treepie::prelude::*;
use treepie::randomaccess::{ALGORITHMS, Algorithm, Order, RandomAccess, Refinements, RunResult};
use treepie::simulate::{LinkCosts, Noise, Settings};

use crate::{flat, noisy, plain, simulate};

/// A position in the stream from which on all ranks get as much.
const FIRST: u64 = 0x9e37_79b9_7f4a;

/// The results of all ranks.
fn run(ranks: u32, settings: &RandomAccess) -> Vec<RunResult> {
    let simulated = simulate(&flat(ranks), &plain(), |world| settings.run(&world));
    crate::ok(simulated.expect("it runs"))
}

/// A run of some rounds without losses.
fn rounds(algorithm: &str, ranks: u32, look_ahead: usize, rounds: u64) -> Vec<RunResult> {
    // Verification sends to all ranks.
    let verifies = ranks <= 64;
    let settings = RandomAccess::new(64 * u64::from(ranks))
        .updates(u64::from(ranks) * rounds * look_ahead as u64)
        .first_position(FIRST)
        .look_ahead(look_ahead)
        .algorithm(algorithm.parse().expect("an id"))
        .verifies(verifies);
    let results = run(ranks, &settings);
    assert_eq!(results[0].errors, verifies.then_some(0));
    results
}

#[test]
fn a_thousand_orders_of_messages() {
    let ids: Vec<Algorithm> = ALGORITHMS.iter().map(|(id, _)| id.parse().expect("its own id")).collect();
    let morton = Algorithm::Hypercube(Order::Morton);
    let runs_on = |algorithm: &Algorithm, ranks: u32| {
        // The network is no torus.
        *algorithm != morton && RandomAccess::new(100).algorithm(algorithm.clone()).check(ranks).is_ok()
    };
    for seed in 0..1000u64 {
        let ranks = 2 + (seed % 7) as u32;
        let of_ranks: Vec<&Algorithm> = ids.iter().filter(|algorithm| runs_on(algorithm, ranks)).collect();
        let algorithm = of_ranks[(seed / 7) as usize % of_ranks.len()].clone();
        let bit = |bit: u32| seed >> bit & 1 == 1;
        let refinements = Refinements {
            prepost: bit(0),
            deferred: bit(1),
            late_wait: bit(2),
            double_buffer: bit(3),
            overlap: bit(4),
            persistent: bit(5),
            adaptive: false,
            discard: false,
        };
        let what = format!("seed {seed}, {ranks} ranks, {algorithm}, {refinements}");
        let is_synchronous = !matches!(algorithm, Algorithm::BufferedAsync | Algorithm::ActiveMessages(_));
        // Powers of two on powers of two of ranks have bins by bits.
        let words = if bit(6) { 100 + seed } else { 1 << (7 + seed % 3) };
        let settings = RandomAccess::new(words)
            .updates(500)
            .look_ahead(16)
            .algorithm(algorithm)
            .refinements(is_synchronous.then_some(refinements));
        let simulated = simulate(&flat(ranks), &noisy(seed), |world| settings.run(&world)).expect(&what);
        for result in simulated.into_results() {
            assert_eq!(result.expect(&what).errors, Some(0), "{what}");
        }
    }
}

/// Waves of ranks that count messages must not overtake data: here a message takes up to a hundred times as long as
/// another.
#[test]
fn buckets_end_after_the_last_message_has_arrived() {
    for seed in 0..200 {
        let ranks = 2 + (seed % 7) as u32;
        let settings = RandomAccess::new(128)
            .updates(40 * u64::from(ranks))
            .first_position(FIRST)
            .look_ahead(8)
            .algorithm(Algorithm::BufferedAsync);
        let noise = Noise { seed, jitter: 1000.0, ..Noise::default() };
        let simulated =
            simulate(&flat(ranks), &Settings { noise, ..plain() }, |world| settings.run(&world)).expect("it runs");
        assert_eq!(crate::ok(simulated)[0].errors, Some(0), "seed {seed}, {ranks} ranks");
    }
}

/// Messages of a rank in a round, and how often its data is sent: d (P^(1/d) - 1), and d Q (P^(1/d) - 1)/P^(1/d).
#[test]
fn b13_b14_messages_and_volume() {
    for (algorithm, ranks, messages, volume) in [
        ("alltoall_1d", 16, 15.0, 15.0 / 16.0),
        ("alltoall_2d", 16, 6.0, 6.0 / 4.0),
        ("alltoall_3d", 64, 9.0, 9.0 / 4.0),
        ("alltoall_nd", 64, 6.0, 3.0),
        ("hypercube", 64, 6.0, 3.0),
        ("hypercube_any", 64, 6.0, 3.0),
        ("hypercube", 512, 9.0, 4.5),
    ] {
        let (look_ahead, number) = (1024, 4);
        let total = rounds(algorithm, ranks, look_ahead, number)[0].total;
        let of_rank = |count: u64| count as f64 / f64::from(ranks) / number as f64;
        // Lists that do not fit a message take another one; here all fit.
        assert_eq!(of_rank(total.messages), messages, "{algorithm} on {ranks}");
        let sent = of_rank(total.data) / look_ahead as f64;
        assert!(
            (sent / volume - 1.0).abs() < 0.02,
            "{algorithm} on {ranks}: {sent} times its data instead of {volume}"
        );
    }
}

/// At the beginning of the stream nearly all data of some ranks is for rank 0, and does not fit a message.
#[test]
fn long_lists_are_sent_in_several_messages() {
    for (algorithm, messages) in [("alltoall_1d", 7), ("alltoall_2d", 4), ("hypercube", 3), ("hypercube_any", 3)] {
        for refinements in ["none", "mod7", "persistent,late-wait", "prepost,deferred"] {
            let settings = RandomAccess::new(1 << 12)
                .updates(8 * 4 * 1024)
                .algorithm(algorithm.parse().expect("an id"))
                .refinements(refinements.parse::<Refinements>().expect("refinements"));
            let result = run(8, &settings).swap_remove(0);
            assert_eq!(result.errors, Some(0), "{algorithm}, {refinements}");
            // 8 ranks, 4 rounds.
            assert!(
                result.total.messages > 8 * 4 * messages,
                "{algorithm}, {refinements}: {} messages",
                result.total.messages
            );
        }
    }
}

/// Where ranks are on other nodes than those of their numbers, partners in Morton order are near each other, and others are not.
#[test]
fn morton_order_shortens_routes() {
    let torus = Network::torus(&[4, 4, 4], &[true; 3]).expect("a torus");
    let shuffled = torus.with_placement((0..64).map(|rank| (rank * 37 + 11) % 64).collect()).expect("a permutation");
    // Nothing but links takes time.
    let settings: Settings = LinkCosts::new(0.001, 1.0 / 375.0).into();
    let seconds = |algorithm: &str| {
        let benchmark = RandomAccess::new(1 << 12)
            .updates(64 * 1024 * 4)
            .first_position(FIRST)
            .algorithm(algorithm.parse().expect("an id"));
        let result = simulate(&shuffled, &settings, |world| benchmark.run(&world)).expect("it runs");
        let result = crate::ok(result).swap_remove(0);
        assert_eq!(result.errors, Some(0));
        result.seconds
    };
    let [plain, morton] = ["hypercube", "hypercube:order=morton"].map(seconds);
    assert!(morton < 0.8 * plain, "{morton} s in Morton order, {plain} s otherwise");
}

/// Half of the look-ahead is sent.
#[test]
fn b15_lengths_of_messages() {
    for (look_ahead, bytes) in [(1024, 4096.0), (8192, 32768.0)] {
        for algorithm in ["hypercube", "hypercube_any"] {
            let total = rounds(algorithm, 8, look_ahead, 8)[0].total;
            let length = 8.0 * total.data as f64 / total.messages as f64;
            assert!((length / bytes - 1.0).abs() < 0.02, "{algorithm}: {length} bytes instead of {bytes}");
        }
    }
}

/// Each of N ranks sends two messages to the N + 1 of the other half, of which the first and the last send one.
#[test]
fn b21_messages_of_odd_partitions() {
    let messages = |ranks| -> Vec<u64> {
        rounds("hypercube_any", ranks, 1024, 3).iter().map(|result| result.own.messages / 3).collect()
    };
    // 1 and 2 ranks; then these two.
    assert_eq!(messages(3), [2, 2, 2]);
    // 2 and 3 ranks: 2 2 | 1 2 1. Then 1 1 | 2 1 1 (1 and 2 ranks), then the last two.
    assert_eq!(messages(5), [3, 3, 3, 4, 3]);
    // 3 and 4: 2 2 2 | 1 2 2 1. Then 2 1 1 | 1 1 1 1, then two pairs and the last two of the first half.
    assert_eq!(messages(7), [4, 4, 4, 3, 4, 4, 3]);
    // Even partitions are pairs.
    assert_eq!(messages(8), [3; 8]);
}

/// Of what a rank receives in a round, what exceeds the look-ahead: about 0.4 sqrt((1 - 1/P)/Q) of all updates (F19).
#[test]
fn b22_discarded_updates() {
    for (ranks, is_valid) in [(2, true), (16, false)] {
        let updates = 200 * 1024 * u64::from(ranks);
        let words = 1 << 16;
        let settings = RandomAccess::new(words)
            .updates(updates)
            .first_position(FIRST)
            .algorithm("hypercube".parse().expect("an id"))
            .refinements(Refinements { discard: true, ..Refinements::default() });
        let result = run(ranks, &settings).swap_remove(0);
        // Each discarded update makes at most one word wrong, and with this many few are wrong twice.
        let (errors, discarded) = (result.errors.expect("it was verified"), result.total.discarded);
        assert!(errors <= discarded && errors > discarded / 2, "{errors} wrong words, {discarded} discarded");
        let fraction = result.total.discarded as f64 / updates as f64;
        let expected = 0.4 * ((1.0 - 1.0 / f64::from(ranks)) / 1024.0).sqrt();
        assert!((fraction / expected - 1.0).abs() < 0.15, "{ranks} ranks: {fraction} instead of {expected}");
        assert_eq!(result.is_valid(words), is_valid, "{ranks} ranks: {fraction}");
    }
}

/// A rank that fails ends the others, and none of them hangs.
#[test]
fn a_lost_rank_is_an_error_everywhere() {
    for algorithm in ["alltoall_1d", "hypercube_any", "buffered_async", "am"] {
        let settings = RandomAccess::new(1000).algorithm(algorithm.parse().expect("an id")).look_ahead(8);
        let simulated = simulate(&flat(5), &plain(), |world: Comm| {
            let mut run = settings.prepare(&world)?;
            if world.rank() == 2 {
                return Err(treepie::Error::Program("it ends here".to_owned()));
            }
            run.update().map(drop)
        });
        let results = simulated.expect("it ends").into_results();
        assert!(results.iter().all(Result::is_err), "{algorithm}: {results:?}");
    }
}

/// Whatever a rank had posted when another one failed, the next call is an error, too.
#[test]
fn a_run_that_failed_keeps_failing() {
    for refinements in ["none", "mod7", "persistent", "persistent,prepost,overlap"] {
        let settings = RandomAccess::new(1000)
            .updates(100_000)
            .look_ahead(64)
            .algorithm("alltoall_1d".parse().expect("an id"))
            .refinements(refinements.parse::<Refinements>().expect("refinements"));
        let noise = Noise { failures: vec![(2, 5000.0)], ..Noise::default() };
        let simulated = simulate(&flat(5), &Settings { noise, ..plain() }, |world: Comm| {
            let mut run = settings.prepare(&world)?;
            assert!(run.update().is_err(), "{refinements}: rank 2 has failed");
            run.update().map(drop)
        });
        let results = simulated.expect("it ends").results;
        let survivors: Vec<_> = results.into_iter().flatten().collect();
        assert!(survivors.len() == 4 && survivors.iter().all(Result::is_err), "{refinements}: {survivors:?}");
    }
}
