//! Messages that a handler gets on arrival, and persistent patterns.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, Rank, SparseExchange};

use super::{check_received, check_usable, first_few, for_each_protocol, messages, random_plan, rounds, subset};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::{bytes, series};

pub(super) fn once_each(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for_each_protocol(comm, |comm| {
        for round in 0..rounds(comm, 20) {
            let mut got = Vec::new();
            comm.exchange_with(messages(&random_plan(me, round, size, 6), me, round, bytes), |from, data| {
                got.push((from, data))
            })?;
            // Messages of one source arrive in order.
            got.sort_by_key(|(from, _)| *from);
            check_received(&got, me, round, &|from| random_plan(from, round, size, 6), size, bytes)?;
        }
        check_usable(comm, 1)
    })
}

/// The handler answers each message on another communicator, and sends to itself there and on the same communicator.
pub(super) fn handlers_communicate(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let beside = comm.dup()?;
    for_each_protocol(comm, |comm| {
        for round in 0..4 {
            let plan = random_plan(me, round, size, 4);
            let mut failure = None;
            comm.exchange_with(messages(&plan, me, round, bytes), |from, data| {
                let talk = || -> Outcome {
                    drop(beside.isend(vec![data.len() as u64], from, 1)?);
                    for comm in [&beside, comm] {
                        comm.send(&[3u8], me, 2)?;
                        check_eq!(comm.recv_vec::<u8>(me, 2)?.0, [3], "from oneself while handling a message");
                    }
                    Ok(())
                };
                failure = failure.take().or(talk().err());
            })?;
            failure.map_or(Ok(()), Err)?;
            for (to, len) in plan {
                check_eq!(beside.recv_vec::<u64>(to, 1)?.0, [len as u64], "what rank {to} answered");
            }
        }
        Ok(())
    })
}

/// The rank whose handler panics aborts. The others succeed or get `Aborted`, and all can go on.
pub(super) fn panics(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for_each_protocol(comm, |comm| {
        for victim in first_few(comm, vec![size - 1, 0]) {
            let plan = vec![((me + 1) % size, 5), (me, 3)];
            let run = || {
                comm.exchange_with(messages(&plan, me, 0, bytes), |_, _| {
                    if me == victim {
                        // `resume_unwind` prints no message.
                        resume_unwind(Box::new("the handler panics"));
                    }
                })
            };
            match catch_unwind(AssertUnwindSafe(run)) {
                Err(_) => check!(me == victim, "a panic of another rank's handler"),
                Ok(result) => {
                    check!(me != victim, "the handler's panic was swallowed");
                    let is_expected = matches!(result, Ok(()) | Err(Error::Aborted { .. }));
                    check!(is_expected, "while rank {victim} panics: {result:?}");
                }
            }
            check_usable(comm, 1)?;
        }
        Ok(())
    })
}

/// The destinations of a rank.
fn destinations(from: Rank, size: usize) -> Vec<Rank> {
    subset(from, 0, size, (from % 4).min(size)).into_iter().map(|(to, _)| to).collect()
}

pub(super) fn pattern(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for_each_protocol(comm, |comm| {
        let local = destinations(me, size);
        let pattern = comm.pattern(local.iter().copied())?;
        let sources: Vec<Rank> = (0..size).filter(|from| destinations(*from, size).contains(&me)).collect();
        check_eq!(pattern.sources(), sources, "who sends to this rank");
        let mut sorted = local.clone();
        sorted.sort_unstable();
        check_eq!(pattern.destinations(), sorted, "whom this rank sends to");
        for round in 0..rounds(comm, 100) {
            // Not to all of them each time.
            let sent: Vec<_> =
                local.iter().skip(round % 3).map(|to| (*to, series::<u64>(me + round, *to + 1))).collect();
            let got = pattern.exchange(sent)?;
            let expected = |from: &Rank| {
                let skipped = destinations(*from, size).iter().take(round % 3).any(|to| *to == me);
                (*from, if skipped { Vec::new() } else { series::<u64>(from + round, me + 1) })
            };
            check_eq!(got, sources.iter().map(expected).collect::<Vec<_>>(), "round {round} along a pattern");
        }
        // Order and repetitions do not change a pattern.
        check!(pattern.is_unchanged(local.iter().rev().chain(&local).copied())?, "a pattern that has not changed");
        let changed = size - 1;
        let now = if me == changed { (0..size - usize::from(local.len() == size)).collect() } else { local };
        check!(!pattern.is_unchanged(now)?, "rank {changed} sends to others, and the pattern holds");
        check_usable(comm, 1)
    })
}

pub(super) fn pattern_refuses(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let right = (me + 1) % size;
    let pattern = comm.pattern([right, right])?;
    let refusal = |sent: Vec<(Rank, Vec<u8>)>| match pattern.exchange(sent).err() {
        Some(Error::Algorithm(why)) => Ok(why),
        other => Err(Failure::new(format!("{other:?} instead of a refusal"))),
    };
    let why = refusal(vec![(right, vec![1]), (size + 3, vec![2])])?;
    check!(why.contains(&format!("rank {}", size + 3)), "a refusal that does not name the rank: {why}");
    if size > 1 {
        refusal(vec![(me, vec![1])])?;
    }
    refusal(vec![(right, vec![1]), (right, vec![2])])?;
    let got = pattern.exchange([(right, vec![me as u64])])?;
    let left = (me + size - 1) % size;
    check_eq!(got, [(left, vec![left as u64])], "along the pattern afterwards");
    // A rank that does not exist is refused, and the others get `Aborted`.
    let bad = me == size - 1;
    let error = comm.pattern(if bad { vec![size] } else { vec![right] }).err();
    let is_expected =
        if bad { matches!(error, Some(Error::BadRank { .. })) } else { matches!(error, Some(Error::Aborted { .. })) };
    check!(is_expected, "a pattern with a rank that does not exist: {error:?}");
    check_usable(comm, 1)
}
