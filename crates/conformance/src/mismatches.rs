//! Ranks that call different collective operations outside checked mode: a rank that receives a message of another call
//! gets `CollectiveMismatch`, the others get `Aborted`, and no rank hangs.

use treepie::{Comm, Error, Result, SparseExchange, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("mismatches/every-pair-of-operations", 2, pairs),
    Case::new("mismatches/different-lengths", 2, lengths),
    Case::new("mismatches/different-roots", 3, roots),
    Case::new("mismatches/rooted-against-others", 2, rooted),
    Case::new("mismatches/not-detectable-by-messages", 2, unseen),
    Case::new("mismatches/of-the-world-on-short-data", 2, of_world_short).of_world().last(),
    Case::new("mismatches/of-the-world-on-long-data", 2, of_world_long).of_world().last(),
    Case::new("mismatches/of-the-world-in-other-forms", 2, of_world_forms).of_world().last(),
];

/// A call, and the beginning of its description.
type Call = (&'static str, fn(&Comm) -> Result<()>);

fn discard<T>(result: Result<T>) -> Result<()> {
    result.map(drop)
}

/// A message to every rank.
fn messages(comm: &Comm) -> Vec<(usize, Vec<u64>)> {
    (0..comm.size()).map(|rank| (rank, vec![comm.rank() as u64])).collect()
}

/// Calls from which no rank returns before all ranks have entered.
const SYNCHRONIZING: &[Call] = &[
    ("allreduce of 8 bytes", |comm| discard(comm.allreduce(&[1u64], Sum))),
    ("allreduce of 16 bytes", |comm| discard(comm.iallreduce(vec![1u64; 2], Sum)?.wait())),
    ("allreduce of 320000 bytes", |comm| discard(comm.allreduce(&[1u64; 40_000], Sum))),
    ("allgather of ", |comm| discard(comm.allgather(&[1u64]))),
    ("allgather of ", |comm| discard(comm.iallgather(vec![1u64; 40_000])?.wait())),
    ("alltoall of ", |comm| comm.alltoall(&vec![1u8; comm.size()], &mut vec![0; comm.size()])),
    ("reduce_scatter of ", |comm| comm.reduce_scatter_block(&vec![1u32; 3 * comm.size()], &mut [0; 3], Sum)),
    ("barrier", |comm| comm.with_algorithm("barrier/dissemination")?.barrier()),
    ("exchange/pex", |comm| discard(comm.with_algorithm("exchange/pex")?.exchange(messages(comm)))),
    ("exchange/nbx", |comm| discard(comm.with_algorithm("exchange/nbx")?.iexchange(messages(comm))?.wait())),
    ("split/merge", |comm| discard(comm.with_algorithm("split/merge")?.split(0, 0))),
];

/// Calls `one` on rank `odd` and `others` on the other ranks of a new communicator, and returns this rank's result.
fn differ(comm: &Comm, odd: usize, one: Call, others: Call) -> Result<Result<()>> {
    let dup = comm.dup()?;
    Ok(if comm.rank() == odd { one.1(&dup) } else { others.1(&dup) })
}

/// Checks that an error is a mismatch of these calls or an abort, and returns whether it is a mismatch.
#[track_caller]
fn is_mismatch_reported(comm: &Comm, odd: usize, error: &Error, one: &str, others: &str) -> Outcome<bool> {
    let Error::CollectiveMismatch { first, second, calls } = error else {
        check!(matches!(error, Error::Aborted { .. }), "{one} against {others}: {error:?}");
        return Ok(false);
    };
    check!(first < second, "ranks {first} and {second}");
    let mut calls = [&calls[0], &calls[1]];
    // Errors name ranks of the world, which are those of the communicator only if it has all ranks in order.
    if comm.rank_table_kind() == "all ranks" {
        check!([*first, *second].contains(&odd), "{one} on rank {odd} against {others}: {error}");
        if *first != odd {
            calls.reverse();
        }
    } else if !calls[0].starts_with(one) {
        calls.reverse();
    }
    check!(calls[0].starts_with(one) && calls[1].starts_with(others), "{one} against {others}: {error}");
    Ok(true)
}

/// The number of ranks that pass true.
fn count(comm: &Comm, yes: bool) -> Result<usize> {
    Ok(comm.allreduce(&[u64::from(yes)], Sum)?[0] as usize)
}

fn together(comm: &Comm, one: Call, others: Call) -> Outcome {
    for odd in [0, comm.size() - 1] {
        let error = differ(comm, odd, one, others)?.err();
        let named = match &error {
            Some(error) => is_mismatch_reported(comm, odd, error, one.0, others.0)?,
            None => false,
        };
        check_eq!(count(comm, error.is_some())?, comm.size(), "ranks with an error: {} against {}", one.0, others.0);
        check!(count(comm, named)? > 0, "{} against {}: no error names both", one.0, others.0);
    }
    Ok(())
}

fn pairs(comm: &Comm) -> Outcome {
    for (i, one) in SYNCHRONIZING.iter().enumerate() {
        for other in &SYNCHRONIZING[i + 1..] {
            together(comm, *one, *other)?;
        }
    }
    Ok(())
}

/// The same operation with different lengths.
fn lengths(comm: &Comm) -> Outcome {
    fn allreduce<const N: usize>(comm: &Comm) -> Result<()> {
        discard(comm.allreduce(&[1u8; N], Sum))
    }
    fn in_place<const N: usize>(comm: &Comm) -> Result<()> {
        comm.allreduce_in_place(&mut [1u8; N], Sum)
    }
    fn persistent<const N: usize>(comm: &Comm) -> Result<()> {
        let mut one = comm.allgather_init::<u8>(N)?;
        one.start();
        one.wait()
    }
    for id in [None, Some("allreduce/linear"), Some("allreduce/ring"), Some("allreduce/rabenseifner")] {
        let comm = &id.map_or(Ok(comm.clone()), |id| comm.with_algorithm(id))?;
        together(comm, ("allreduce of 1 bytes", allreduce::<1>), ("allreduce of 2 bytes", in_place::<2>))?;
        together(comm, ("allreduce of 1 bytes", allreduce::<1>), ("allreduce of 70000 bytes", allreduce::<70_000>))?;
        let calls = ("allreduce of 70000 bytes", "allreduce of 70001 bytes");
        together(comm, (calls.0, allreduce::<70_000>), (calls.1, allreduce::<70_001>))?;
    }
    together(comm, ("allgather of ", persistent::<1>), ("allgather of ", persistent::<70_000>))
}

/// A chain broadcast in which rank 1 believes to be the root, and rank 2 receives its message as one of root 0.
fn roots(comm: &Comm) -> Outcome {
    for len in [1, 50_000] {
        for blocking in [true, false] {
            let chain = comm.dup()?.with_algorithm("bcast/chain")?;
            let (rank, root) = (comm.rank(), usize::from(comm.rank() == 1));
            let mut data = vec![rank as u8; len];
            let result =
                if blocking { chain.bcast(&mut data, root) } else { discard(chain.ibcast(data, root)?.wait()) };
            let words = |root: usize| format!("bcast from root {root} of {len} bytes");
            match (rank, result) {
                // Ranks 0 and 1 need not wait for what they send.
                (0 | 1, result) => check!(!matches!(result, Err(Error::LengthMismatch { .. })), "{result:?}"),
                (2, Err(error)) => {
                    // Rank 0 sends to rank 1, which does not receive: if it waits for that, it may have aborted.
                    is_mismatch_reported(comm, 1, &error, &words(1), &words(0))?;
                }
                (_, Err(error)) => check!(matches!(error, Error::Aborted { .. }), "rank {rank}: {error}"),
                (_, Ok(())) => check!(false, "rank {rank} got data of another root"),
            }
            // All ranks have returned, and go on with another communicator.
            comm.barrier()?;
        }
    }
    Ok(())
}

/// Calls in which every rank sends before it waits, so that a rank that waits for another call's message gets one.
const SENDING_FIRST: &[Call] = &[
    ("allreduce of 8 bytes", |comm| discard(comm.with_algorithm("allreduce/ring")?.allreduce(&[1u64], Sum))),
    ("allgather of ", |comm| discard(comm.with_algorithm("allgather/ring")?.allgather(&[1u64]))),
    ("barrier", |comm| comm.with_algorithm("barrier/dissemination")?.barrier()),
];

/// A root need not receive anything, so it may succeed; the others get an error.
fn rooted(comm: &Comm) -> Outcome {
    let bcast: Call = ("bcast from root 0 of 8 bytes", |comm| discard(comm.bcast(&mut [1u64], 0)));
    let scatter: Call = ("scatter from root 0 of ", |comm| {
        let all = vec![1u64; if comm.rank() == 0 { comm.size() } else { 0 }];
        comm.scatter(&all, &mut [0], 0)
    });
    for rooted in [bcast, scatter] {
        for other in SENDING_FIRST.iter().copied() {
            let result = differ(comm, 0, rooted, other)?;
            if comm.rank() == 0 {
                check!(
                    result.is_ok() || matches!(result, Err(Error::CollectiveMismatch { .. } | Error::Aborted { .. })),
                    "{result:?}"
                );
            } else {
                let error = result.err();
                check!(error.is_some(), "{} on rank 0 against {}", rooted.0, other.0);
                error.map_or(Ok(false), |error| is_mismatch_reported(comm, 0, &error, rooted.0, other.0))?;
            }
            let result = differ(comm, 0, other, rooted)?;
            check!(result.is_err(), "{} on rank 0 against {}", other.0, rooted.0);
            result.err().map_or(Ok(false), |error| is_mismatch_reported(comm, 0, &error, other.0, rooted.0))?;
        }
    }
    Ok(())
}

/// Messages carry neither operators nor element types: such calls succeed, as the book says.
fn unseen(comm: &Comm) -> Outcome {
    let comm = comm.dup()?;
    if comm.rank() == 0 {
        comm.allreduce(&[1u64], treepie::Max)?;
    } else {
        comm.allreduce(&[1.0f64], Sum)?;
    }
    Ok(())
}

/// A mismatch on the world, where ranks of one machine use the shared segment instead of messages.
fn of_world(comm: &Comm, one: Call, others: Call) -> Outcome {
    let odd = comm.size() - 1;
    let result = if comm.rank() == odd { one.1(comm) } else { others.1(comm) };
    check!(result.is_err(), "{} against {}", one.0, others.0);
    result.err().map_or(Ok(false), |error| is_mismatch_reported(comm, odd, &error, one.0, others.0))?;
    // The world then uses messages.
    check_eq!(count(comm, true)?, comm.size(), "ranks after {} against {}", one.0, others.0);
    Ok(())
}

fn of_world_short(comm: &Comm) -> Outcome {
    of_world(comm, SYNCHRONIZING[0], SYNCHRONIZING[3])?;
    of_world(comm, SYNCHRONIZING[5], SYNCHRONIZING[0])
}

fn of_world_long(comm: &Comm) -> Outcome {
    let shorter: Call = ("allreduce of 320000 bytes", |comm| discard(comm.allreduce(&[1u64; 40_000], Sum)));
    let longer: Call = ("allreduce of 320008 bytes", |comm| discard(comm.allreduce(&[1u64; 40_001], Sum)));
    of_world(comm, shorter, longer)
}

/// One rank sends messages while the others use the shared segment.
fn of_world_forms(comm: &Comm) -> Outcome {
    of_world(comm, SYNCHRONIZING[1], SYNCHRONIZING[0])?;
    of_world(comm, SYNCHRONIZING[9], SYNCHRONIZING[3])
}
