use std::collections::VecDeque;

use super::*;

/// Runs it on so many ranks, messages in an order that the seed gives, and returns what each rank found.
fn run(calls: &[String], seed: usize) -> Vec<Option<(Said, Said)>> {
    let ranks = calls.len() as u32;
    let new = |(rank, call): (usize, &String)| Agreement::new(rank as u32, ranks, call.clone());
    let mut all: Vec<Agreement> = calls.iter().enumerate().map(new).collect();
    let mut on_the_way = VecDeque::new();
    for step in 0.. {
        for (rank, agreement) in all.iter_mut().enumerate() {
            while let Some(transmit) = agreement.poll_transmit() {
                on_the_way.push_back((rank as u32, transmit));
            }
        }
        if on_the_way.is_empty() {
            break;
        }
        let place = (seed * 31 + step * 17) % on_the_way.len();
        let (from, Transmit { to, tag, bytes, .. }) = on_the_way.remove(place).expect("it is one of them");
        all[to as usize].on_message(Duration::ZERO, from, tag, bytes).expect("an agreement understands its own");
    }
    assert!(all.iter().all(Reactor::is_done));
    all.iter().map(|agreement| agreement.difference().map(|[one, other]| (one, other))).collect()
}

#[test]
fn all_find_the_first_rank_and_the_first_that_differs() {
    for ranks in 1..=33usize {
        for seed in 0..8 {
            let calls: Vec<String> = (0..ranks).map(|rank| ((rank + seed) / 3 % 4).to_string()).collect();
            let said = |rank: usize| Said { rank: rank as u32, call: calls[rank].clone() };
            let other = (0..ranks).find(|rank| calls[*rank] != calls[0]);
            let expected = other.map(|other| (said(0), said(other)));
            assert!(run(&calls, seed).iter().all(|found| *found == expected), "{ranks} ranks, seed {seed}");
        }
    }
}

#[test]
fn long_texts_are_bounded_and_still_differ() {
    let long = |last: &str| "a list of é ".repeat(1000) + last;
    assert!(bounded(long("1")).len() <= MOST);
    assert_ne!(bounded(long("1")), bounded(long("2")));
    assert_eq!(run(&[long("1"), long("1")], 0), [None, None]);
    assert!(run(&[long("1"), long("2")], 0).iter().all(Option::is_some));
}

#[test]
fn messages_of_something_else_are_refused() {
    for bytes in [vec![], vec![0, 0, 0, 0], vec![0, 0, 0, 0, 9, b'a'], vec![0, 0, 0, 0, 1, 255], vec![0, 0, 0, 0, 0, 1]]
    {
        let mut agreement = Agreement::new(0, 2, "dup".to_owned());
        assert_eq!(
            agreement.on_message(Duration::ZERO, 1, 0, Bytes::from(bytes)),
            Err(Error::OtherOperation { rank: 1 })
        );
    }
    let good = Agreement::new(1, 2, "dup".to_owned()).known.to_bytes();
    let mut agreement = Agreement::new(0, 2, "dup".to_owned());
    assert!(agreement.on_message(Duration::ZERO, 1, 1, Bytes::from(good.clone())).is_err(), "a round that is not");
    assert!(agreement.on_message(Duration::ZERO, 1, 0, Bytes::from(good)).is_ok());
}
