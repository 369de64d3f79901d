//! Ranks that call different collective operations, outside checked mode: whoever gets a message of a rank that is in another call
//! is told, others hear that somebody has given up, and nobody waits for ever.

use treepie::{Comm, Error, Result, SparseExchange, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("mismatches/every-pair-of-operations", 2, pairs),
    Case::new("mismatches/different-lengths", 2, lengths),
    Case::new("mismatches/different-roots", 3, roots),
    Case::new("mismatches/rooted-against-others", 2, rooted),
    Case::new("mismatches/what-cannot-be-seen-by-messages", 2, unseen),
    Case::new("mismatches/of-the-world-on-short-data", 2, of_world_short).of_world().last(),
    Case::new("mismatches/of-the-world-on-long-data", 2, of_world_long).of_world().last(),
    Case::new("mismatches/of-the-world-in-other-forms", 2, of_world_forms).of_world().last(),
];

/// A call, and how it begins in words.
type Call = (&'static str, fn(&Comm) -> Result<()>);

fn drop_it<T>(result: Result<T>) -> Result<()> {
    result.map(drop)
}

/// Something for everybody.
fn messages(comm: &Comm) -> Vec<(usize, Vec<u64>)> {
    (0..comm.size()).map(|rank| (rank, vec![comm.rank() as u64])).collect()
}

/// In all of these nobody can end before everybody has come.
const TOGETHER: &[Call] = &[
    ("all_reduce of 8 bytes", |comm| drop_it(comm.all_reduce(&[1u64], Sum))),
    ("all_reduce of 16 bytes", |comm| drop_it(comm.iall_reduce(vec![1u64; 2], Sum)?.wait())),
    ("all_reduce of 320000 bytes", |comm| drop_it(comm.all_reduce(&[1u64; 40_000], Sum))),
    ("all_gather of ", |comm| drop_it(comm.all_gather(&[1u64]))),
    ("all_gather of ", |comm| drop_it(comm.iall_gather(vec![1u64; 40_000])?.wait())),
    ("all_to_all of ", |comm| comm.all_to_all(&vec![1u8; comm.size()], &mut vec![0; comm.size()])),
    ("reduce_scatter of ", |comm| comm.reduce_scatter(&vec![1u32; 3 * comm.size()], &mut [0; 3], Sum)),
    ("barrier", |comm| comm.using("barrier/dissemination")?.barrier()),
    ("exchange/pex", |comm| drop_it(comm.using("exchange/pex")?.exchange(messages(comm)))),
    ("exchange/nbx", |comm| drop_it(comm.using("exchange/nbx")?.iexchange(messages(comm))?.wait())),
    ("split/merge", |comm| drop_it(comm.using("split/merge")?.split(0, 0))),
];

/// Calls `one` on a rank and `others` on the others, on a communicator of their own, and says what became of it here.
fn differ(comm: &Comm, odd: usize, one: Call, others: Call) -> Result<Result<()>> {
    let dup = comm.dup()?;
    Ok(if comm.rank() == odd { one.1(&dup) } else { others.1(&dup) })
}

/// Whether an error is of the kinds that are to be had; if it names calls, they are these.
#[track_caller]
fn is_told(comm: &Comm, odd: usize, error: &Error, one: &str, others: &str) -> Outcome<bool> {
    let Error::CallsDiffer { first, second, calls } = error else {
        check!(matches!(error, Error::GaveUp { .. }), "{one} against {others}: {error:?}");
        return Ok(false);
    };
    check!(first < second, "ranks {first} and {second}");
    let mut calls = [&calls[0], &calls[1]];
    // Errors name ranks of the world; only of these it is known here which they are.
    if comm.representation() == "all ranks" {
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

/// How many ranks say yes.
fn count(comm: &Comm, yes: bool) -> Result<usize> {
    Ok(comm.all_reduce(&[u64::from(yes)], Sum)?[0] as usize)
}

fn together(comm: &Comm, one: Call, others: Call) -> Outcome {
    for odd in [0, comm.size() - 1] {
        let error = differ(comm, odd, one, others)?.err();
        let named = match &error {
            Some(error) => is_told(comm, odd, error, one.0, others.0)?,
            None => false,
        };
        check_eq!(count(comm, error.is_some())?, comm.size(), "ranks that are told: {} against {}", one.0, others.0);
        check!(count(comm, named)? > 0, "{} against {}: nobody names both", one.0, others.0);
    }
    Ok(())
}

fn pairs(comm: &Comm) -> Outcome {
    for (i, one) in TOGETHER.iter().enumerate() {
        for other in &TOGETHER[i + 1..] {
            together(comm, *one, *other)?;
        }
    }
    Ok(())
}

/// The same operation, and each rank gets something of each other one, or of all others.
fn lengths(comm: &Comm) -> Outcome {
    fn all_reduce<const N: usize>(comm: &Comm) -> Result<()> {
        drop_it(comm.all_reduce(&[1u8; N], Sum))
    }
    fn in_place<const N: usize>(comm: &Comm) -> Result<()> {
        comm.all_reduce_in_place(&mut [1u8; N], Sum)
    }
    fn persistent<const N: usize>(comm: &Comm) -> Result<()> {
        let mut one = comm.all_gather_init::<u8>(N)?;
        one.start();
        one.wait()
    }
    for id in [None, Some("allreduce/linear"), Some("allreduce/ring"), Some("allreduce/rabenseifner")] {
        let comm = &id.map_or(Ok(comm.clone()), |id| comm.using(id))?;
        together(comm, ("all_reduce of 1 bytes", all_reduce::<1>), ("all_reduce of 2 bytes", in_place::<2>))?;
        together(
            comm,
            ("all_reduce of 1 bytes", all_reduce::<1>),
            ("all_reduce of 70000 bytes", all_reduce::<70_000>),
        )?;
        let calls = ("all_reduce of 70000 bytes", "all_reduce of 70001 bytes");
        together(comm, (calls.0, all_reduce::<70_000>), (calls.1, all_reduce::<70_001>))?;
    }
    together(comm, ("all_gather of ", persistent::<1>), ("all_gather of ", persistent::<70_000>))
}

/// Along a chain: rank 1 takes itself for the root, and sends on what rank 2 takes for another's.
fn roots(comm: &Comm) -> Outcome {
    for len in [1, 50_000] {
        for blocking in [true, false] {
            let chain = comm.dup()?.using("bcast/chain")?;
            let (rank, root) = (comm.rank(), usize::from(comm.rank() == 1));
            let mut data = vec![rank as u8; len];
            let result =
                if blocking { chain.bcast(&mut data, root) } else { drop_it(chain.ibcast(data, root)?.wait()) };
            let words = |root: usize| format!("bcast from root {root} of {len} bytes");
            match (rank, result) {
                // What they send is not waited for where it fails.
                (0 | 1, result) => check!(!matches!(result, Err(Error::Disagreement { .. })), "{result:?}"),
                (2, Err(error)) => {
                    // Rank 0 sends to rank 1, which does not receive: it may have given up if it waits for that.
                    is_told(comm, 1, &error, &words(1), &words(0))?;
                }
                (_, Err(error)) => check!(matches!(error, Error::GaveUp { .. }), "rank {rank}: {error}"),
                (_, Ok(())) => check!(false, "rank {rank} got data of another root"),
            }
            // Everybody is through, and goes on elsewhere.
            comm.barrier()?;
        }
    }
    Ok(())
}

/// The root sends, and need not receive anything: the others are told.
fn rooted(comm: &Comm) -> Outcome {
    let bcast: Call = ("bcast from root 0 of 8 bytes", |comm| drop_it(comm.bcast(&mut [1u64], 0)));
    let scatter: Call = ("scatter from root 0 of ", |comm| {
        let all = vec![1u64; if comm.rank() == 0 { comm.size() } else { 0 }];
        comm.scatter(&all, &mut [0], 0)
    });
    for rooted in [bcast, scatter] {
        for other in [TOGETHER[0], TOGETHER[3], TOGETHER[7]] {
            let result = differ(comm, 0, rooted, other)?;
            if comm.rank() == 0 {
                check!(
                    result.is_ok() || matches!(result, Err(Error::CallsDiffer { .. } | Error::GaveUp { .. })),
                    "{result:?}"
                );
            } else {
                let error = result.err();
                check!(error.is_some(), "{} on rank 0 against {}", rooted.0, other.0);
                error.map_or(Ok(false), |error| is_told(comm, 0, &error, rooted.0, other.0))?;
            }
            let result = differ(comm, 0, other, rooted)?;
            check!(result.is_err(), "{} on rank 0 against {}", other.0, rooted.0);
            result.err().map_or(Ok(false), |error| is_told(comm, 0, &error, other.0, rooted.0))?;
        }
    }
    Ok(())
}

/// Operators and types of elements are not in messages: such calls end, as the book says.
fn unseen(comm: &Comm) -> Outcome {
    let comm = comm.dup()?;
    if comm.rank() == 0 {
        comm.all_reduce(&[1u64], treepie::Max)?;
    } else {
        comm.all_reduce(&[1.0f64], Sum)?;
    }
    Ok(())
}

/// On the communicator of the world, ranks of one machine do without messages.
fn of_world(comm: &Comm, one: Call, others: Call) -> Outcome {
    let odd = comm.size() - 1;
    let result = if comm.rank() == odd { one.1(comm) } else { others.1(comm) };
    check!(result.is_err(), "{} against {}", one.0, others.0);
    result.err().map_or(Ok(false), |error| is_told(comm, odd, &error, one.0, others.0))?;
    // It goes on by messages.
    check_eq!(count(comm, true)?, comm.size(), "ranks after {} against {}", one.0, others.0);
    Ok(())
}

fn of_world_short(comm: &Comm) -> Outcome {
    of_world(comm, TOGETHER[0], TOGETHER[3])?;
    of_world(comm, TOGETHER[5], TOGETHER[0])
}

fn of_world_long(comm: &Comm) -> Outcome {
    let all_reduce: Call = ("all_reduce of 320000 bytes", |comm| drop_it(comm.all_reduce(&[1u64; 40_000], Sum)));
    let longer: Call = ("all_reduce of 320008 bytes", |comm| drop_it(comm.all_reduce(&[1u64; 40_001], Sum)));
    of_world(comm, all_reduce, longer)
}

/// One rank sends messages while the others meet elsewhere.
fn of_world_forms(comm: &Comm) -> Outcome {
    of_world(comm, TOGETHER[1], TOGETHER[0])?;
    of_world(comm, TOGETHER[9], TOGETHER[3])
}
