//! The short form: one message type, one owner map, one handler.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::am::{self, OwnerMessages};
use treepie::{Comm, Error, Rank, Sum};

use super::refused::{check_refused, ends};
use super::{Ledger, Tally, random, scaled_count};
use crate::check::{Outcome, check, check_eq};

/// Random updates. Owner map and handler borrow what is outside the state.
pub(super) fn histogram(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let bins_per_rank = 17;
    let offset = 1000_u64;
    let mut ledger = Ledger::new(comm);
    let mut below = random(me, 5);
    let values: Vec<u64> = (0..scaled_count(comm, 20_000)).map(|_| below(bins_per_rank * ranks) as u64).collect();
    values.iter().for_each(|value| ledger.record_sent(*value as usize / bins_per_rank, value + offset));
    let (mut bins, mut seen) = (vec![0_u64; bins_per_rank], Tally::default());
    let owner = |value: &u64| *value as usize / bins_per_rank;
    let sum = am::run(comm, &mut bins, values.iter().copied(), owner, |bins, cx, value| {
        bins[value as usize - cx.rank() * bins_per_rank] += 1;
        seen.add(value + offset);
        cx.add_to_sum(cx.ranks() as u64);
    })?;
    ledger.check(comm, seen, "updates")?;
    check_eq!(bins.iter().sum::<u64>(), seen.count, "updates in the bins");
    let all = comm.allreduce(&[values.len() as u64], Sum)?[0];
    check_eq!(sum, all * ranks as u64, "the sum of the epoch");
    Ok(())
}

/// The word of a number: some are empty, and some are longer than a buffer.
fn word(number: usize) -> String {
    "é".repeat(if number == 7 { 20_000 } else { number % 5 }) + &(number / 5).to_string()
}

/// A distributed map: each word is counted by the rank that its length selects.
pub(super) fn word_count(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let owner = |word: &String| word.len() % ranks;
    let mut counts = HashMap::new();
    let words = (0..40 * (me + 1)).map(|i| word(i % 40));
    am::run_objects(comm, &mut counts, words, owner, |counts, _, word| *counts.entry(word).or_insert(0) += 1)?;
    let each = (1..=ranks).sum::<usize>();
    let expected: HashMap<String, usize> =
        (0..40).map(|i| (word(i), each)).filter(|(word, _)| owner(word) == me).collect();
    check_eq!(counts, expected, "words of rank {me}");
    Ok(())
}

/// Handlers that send: a message visits `hops` ranks; objects collect the ranks that they visit.
pub(super) fn handlers_that_send(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let hops = 3 * ranks as u32;
    let starts = || (0..10).map(|i| [(me + i) as u32, hops]);
    let mut visits = 0_u64;
    let handled = am::run(
        comm,
        &mut visits,
        starts(),
        |[at, _]| *at as Rank % ranks,
        |visits, cx, [at, hops]| {
            assert_eq!(at as Rank % ranks, cx.rank(), "a message to its owner");
            *visits += 1;
            cx.add_to_sum(1);
            if hops > 1 {
                cx.send([at + 1, hops - 1]);
            }
        },
    )?;
    check_eq!(handled, 10 * u64::from(hops) * ranks as u64, "handlers that ran");
    check_eq!(visits, 10 * u64::from(hops), "visits of rank {me}");

    let mut paths = Vec::new();
    let start = [vec![me as u32]];
    let owner = |path: &Vec<u32>| *path.last().expect("never empty") as Rank;
    am::run_objects(comm, &mut paths, start, owner, |paths, cx, mut path: Vec<u32>| {
        if path.len() > ranks {
            return paths.push(path);
        }
        path.push((cx.rank() as u32 + 1) % ranks as u32);
        cx.send(&path);
    })?;
    // Once around, back to its start.
    let round: Vec<u32> = (0..=ranks).map(|i| ((me + i) % ranks) as u32).collect();
    check_eq!(paths, [round], "the path of an object");
    Ok(())
}

/// Breadth-first search, an epoch for each level, of a graph in which `v` has the neighbors `2v` and `2v + 1`.
pub(super) fn levels(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let vertices = 1000 * ranks as u32;
    let owner = |vertex: &u32| (vertex % ranks as u32) as Rank;
    let mut frontier: Vec<u32> = (owner(&1) == me).then_some(1).into_iter().collect();
    let (mut next, mut visited) = (Vec::new(), vec![false; vertices as usize]);
    let mut search = OwnerMessages::start(comm, &mut next, owner, |next: &mut Vec<u32>, cx, vertex| {
        if !std::mem::replace(&mut visited[vertex as usize], true) {
            next.push(vertex);
            cx.add_to_sum(1);
        }
    })?;
    let (mut found, mut all) = (1, 1);
    while found > 0 {
        let neighbors = frontier.drain(..).flat_map(|v| [2 * v, 2 * v + 1]).filter(|v| *v < vertices);
        found = search.epoch(neighbors)?;
        all += found;
        std::mem::swap(&mut frontier, search.state());
    }
    check_eq!(all, u64::from(vertices) - 1, "vertices that were reached");

    // The same with objects, and other operations between the epochs.
    let mut texts = Vec::new();
    let mut send = OwnerMessages::start_objects(
        comm,
        &mut texts,
        |text: &String| text.len() % ranks,
        |texts, _, text| {
            texts.push(text);
        },
    )?;
    for epoch in 0..5 {
        send.epoch((0..ranks).map(|length| "x".repeat(length + epoch)))?;
        comm.barrier()?;
        check_eq!(send.state().len(), ranks * (epoch + 1), "texts after epoch {epoch}");
    }
    Ok(())
}

/// An owner map that returns a rank that does not exist, for a message of the body or of a handler.
pub(super) fn missing_owner(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let missing = Error::BadRank { rank: size + 2, size };
    check!(missing.to_string().contains(&(size + 2).to_string()), "an error without the rank: {missing}");
    for bad in ends(comm) {
        let owner = |to: &usize| *to;
        let to = |i: usize| if i == 50 && me == bad { size + 2 } else { i % size };
        let result = am::run(comm, &mut 0, (0..100).map(to), owner, |count, _, _| *count += 1);
        check_refused(comm, bad, result, &missing)?;
        let result = am::run(comm, &mut (), [0], owner, |_, cx, _| {
            if cx.rank() == bad {
                cx.send(size + 2);
            } else if cx.rank() == 0 {
                cx.send(bad);
            }
        });
        check_refused(comm, bad, result, &missing)?;
        let owner = |text: &String| text.len();
        let texts = [if me == bad { "x".repeat(size + 2) } else { String::new() }];
        check_refused(comm, bad, am::run_objects(comm, &mut (), texts, owner, |_, _, _| ()), &missing)?;
        histogram(comm)?;
    }
    Ok(())
}

/// After a rank catches a panic of its handler, all ranks can go on.
pub(super) fn panics(comm: &Comm) -> Outcome {
    let size = comm.size();
    for victim in ends(comm) {
        let run = || {
            am::run(
                comm,
                &mut (),
                0..3 * size,
                |i| i % size,
                |_, cx, i: usize| {
                    if cx.rank() == victim && i >= size {
                        // It does not call the panic hook, which would print a message.
                        resume_unwind(Box::new("the handler panics"));
                    }
                },
            )
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Err(_) => check!(comm.rank() == victim, "a panic of another rank's handler"),
            Ok(result) => {
                check!(comm.rank() != victim, "the handler's panic was swallowed");
                check!(matches!(result, Err(Error::Aborted { .. })), "while rank {victim} panics: {result:?}");
            }
        }
        histogram(comm)?;
    }
    Ok(())
}

/// Ranks that call with different message types.
pub(super) fn mismatch(comm: &Comm) -> Outcome {
    let result = match comm.rank() {
        0 => am::run(comm, &mut (), [1_u32], |_| 0, |_, _, _| ()),
        _ => am::run(comm, &mut (), [1_u64], |_| 0, |_, _, _| ()),
    };
    check!(
        matches!(result, Err(Error::MessageTypeMismatch { first: 0, second: 1, .. })),
        "types that differ: {result:?}"
    );
    histogram(comm)
}
