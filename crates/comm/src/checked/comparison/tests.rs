use std::collections::VecDeque;

use super::*;

/// Runs a comparison with one rank for each call, delivers messages in an order that depends on the seed, and returns
/// the result of each rank.
fn run(calls: &[String], seed: usize) -> Vec<Option<(RankCall, RankCall)>> {
    let ranks = calls.len() as u32;
    let new = |(rank, call): (usize, &String)| CallComparison::new(rank as u32, ranks, call.clone());
    let mut all: Vec<CallComparison> = calls.iter().enumerate().map(new).collect();
    let mut in_flight = VecDeque::new();
    for step in 0.. {
        for (rank, comparison) in all.iter_mut().enumerate() {
            while let Some(transmit) = comparison.poll_transmit() {
                in_flight.push_back((rank as u32, transmit));
            }
        }
        if in_flight.is_empty() {
            break;
        }
        let index = (seed * 31 + step * 17) % in_flight.len();
        let (from, Transmit { to, tag, bytes, .. }) = in_flight.remove(index).expect("it is one of them");
        all[to as usize].on_message(Duration::ZERO, from, tag, bytes).expect("a comparison accepts its own messages");
    }
    assert!(all.iter().all(Reactor::is_done));
    all.iter().map(|comparison| comparison.difference().map(|[one, other]| (one, other))).collect()
}

#[test]
fn all_ranks_find_the_lowest_rank_and_the_lowest_that_differs() {
    for ranks in 1..=33usize {
        for seed in 0..8 {
            let calls: Vec<String> = (0..ranks).map(|rank| ((rank + seed) / 3 % 4).to_string()).collect();
            let rank_call = |rank: usize| RankCall { rank: rank as u32, call: calls[rank].clone() };
            let other = (0..ranks).find(|rank| calls[*rank] != calls[0]);
            let expected = other.map(|other| (rank_call(0), rank_call(other)));
            assert!(run(&calls, seed).iter().all(|found| *found == expected), "{ranks} ranks, seed {seed}");
        }
    }
}

#[test]
fn long_texts_are_bounded_and_still_differ() {
    let long = |last: &str| "a list of é ".repeat(1000) + last;
    assert!(bounded(long("1")).len() <= MAX_TEXT);
    assert_ne!(bounded(long("1")), bounded(long("2")));
    assert_eq!(run(&[long("1"), long("1")], 0), [None, None]);
    assert!(run(&[long("1"), long("2")], 0).iter().all(Option::is_some));
}

#[test]
fn messages_of_other_operations_are_refused() {
    for bytes in [vec![], vec![0, 0, 0, 0], vec![0, 0, 0, 0, 9, b'a'], vec![0, 0, 0, 0, 1, 255], vec![0, 0, 0, 0, 0, 1]]
    {
        let mut comparison = CallComparison::new(0, 2, "dup".to_owned());
        assert_eq!(
            comparison.on_message(Duration::ZERO, 1, 0, Bytes::from(bytes)),
            Err(Error::CollectiveOrderMismatch { rank: 1 })
        );
    }
    let good = CallComparison::new(1, 2, "dup".to_owned()).calls.value.to_bytes();
    let mut comparison = CallComparison::new(0, 2, "dup".to_owned());
    assert!(comparison.on_message(Duration::ZERO, 1, 1, Bytes::from(good.clone())).is_err(), "no such round");
    assert!(comparison.on_message(Duration::ZERO, 1, 0, Bytes::from(good)).is_ok());
}

#[test]
fn a_profile_is_named_only_if_nothing_else_differs() {
    let found = |one: &str, other: &str| {
        let calls = [one.to_owned(), other.to_owned()];
        let (first, second) = run(&calls, 0)[1].clone().expect("the calls differ");
        [first.call, second.call]
    };
    let by = |call: &str, fingerprint| call.to_owned() + &name_profile(fingerprint);
    assert_eq!(found(&by("scan", 1), &by("scan", 2)), [by("scan", 1), by("scan", 2)]);
    assert_eq!(found(&by("scan", 1), "scan"), [by("scan", 1), "scan".to_owned()]);
    assert_eq!(found(&by("scan", 1), &by("bcast", 1)), ["scan", "bcast"]);
    assert_eq!(found(&by("scan", 1), "barrier"), ["scan", "barrier"]);
    assert_eq!(found(&by("scan", 1), &(by("scan", 1) + ", refused")), ["scan", "scan, refused"]);
}
