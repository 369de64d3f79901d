//! Messages that are handled as they come, and neighbourhoods that stay.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, Rank, SparseExchange};

use super::{any, check_received, each, messages, rounds, some_of, subset, works};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::{bytes, series};

pub(super) fn once_each(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    each(comm, |comm| {
        for round in 0..rounds(comm, 20) {
            let mut got = Vec::new();
            comm.exchange_with(messages(&any(me, round, size, 6), me, round, bytes), |from, data| {
                got.push((from, data))
            })?;
            // Those of one source come in order.
            got.sort_by_key(|(from, _)| *from);
            check_received(&got, me, round, &|from| any(from, round, size, 6), size, bytes)?;
        }
        works(comm, 1)
    })
}

/// Each message is answered at once on another communicator; the handler receives there too, and on the same one.
pub(super) fn talking(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let beside = comm.dup()?;
    each(comm, |comm| {
        for round in 0..4 {
            let plan = any(me, round, size, 4);
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

/// The rank whose handler panics has given up; the others are told unless they have everything, and all can go on.
pub(super) fn panics(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    each(comm, |comm| {
        for victim in some_of(comm, vec![size - 1, 0]) {
            let plan = vec![((me + 1) % size, 5), (me, 3)];
            let run = || {
                comm.exchange_with(messages(&plan, me, 0, bytes), |_, _| {
                    if me == victim {
                        // Without a word on the terminal.
                        resume_unwind(Box::new("the handler panics"));
                    }
                })
            };
            match catch_unwind(AssertUnwindSafe(run)) {
                Err(_) => check!(me == victim, "a panic of another rank's handler"),
                Ok(result) => {
                    check!(me != victim, "the panic is gone");
                    let told = matches!(result, Ok(()) | Err(Error::GaveUp { .. }));
                    check!(told, "while rank {victim} panics: {result:?}");
                }
            }
            works(comm, 1)?;
        }
        Ok(())
    })
}

/// Whom a rank sends to.
fn destinations(from: Rank, size: usize) -> Vec<Rank> {
    subset(from, 0, size, (from % 4).min(size)).into_iter().map(|(to, _)| to).collect()
}

pub(super) fn pattern(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    each(comm, |comm| {
        let mine = destinations(me, size);
        let pattern = comm.pattern(mine.iter().copied())?;
        let sources: Vec<Rank> = (0..size).filter(|from| destinations(*from, size).contains(&me)).collect();
        check_eq!(pattern.sources(), sources, "who sends to this rank");
        let mut sorted = mine.clone();
        sorted.sort_unstable();
        check_eq!(pattern.destinations(), sorted, "whom this rank sends to");
        for round in 0..rounds(comm, 100) {
            // Not to all of them each time.
            let sent: Vec<_> =
                mine.iter().skip(round % 3).map(|to| (*to, series::<u64>(me + round, *to + 1))).collect();
            let got = pattern.exchange(sent)?;
            let came = |from: &Rank| {
                let skipped = destinations(*from, size).iter().take(round % 3).any(|to| *to == me);
                (*from, if skipped { Vec::new() } else { series::<u64>(from + round, me + 1) })
            };
            check_eq!(got, sources.iter().map(came).collect::<Vec<_>>(), "round {round} along a pattern");
        }
        // In another order, and with repetitions, they are the same.
        check!(pattern.holds(mine.iter().rev().chain(&mine).copied())?, "a pattern that has not changed");
        let changed = size - 1;
        let now = if me == changed { (0..size - usize::from(mine.len() == size)).collect() } else { mine };
        check!(!pattern.holds(now)?, "rank {changed} sends to others, and the pattern holds");
        works(comm, 1)
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
    // One that does not exist is refused, and the others are told.
    let bad = me == size - 1;
    let error = comm.pattern(if bad { vec![size] } else { vec![right] }).err();
    let told =
        if bad { matches!(error, Some(Error::BadRank { .. })) } else { matches!(error, Some(Error::GaveUp { .. })) };
    check!(told, "a pattern with a rank that does not exist: {error:?}");
    works(comm, 1)
}
