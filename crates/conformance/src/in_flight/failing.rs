//! Operations that fail on some ranks: nobody waits for ever, and the communicator stays of use.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, Result, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::folds::SUM;
use crate::meeting::neighbours;

/// That operations of all kinds go on.
fn works(comm: &Comm, after: &str) -> Outcome {
    for len in [3, 9000] {
        let (data, want) = (SUM.data(comm.rank(), len), SUM.result(0..comm.size(), len));
        check_eq!(comm.iall_reduce(data.clone(), Sum)?.wait()?, want, "iall_reduce of {len} after {after}");
        check_eq!(comm.all_reduce(&data, Sum)?, want, "all_reduce of {len} after {after}");
    }
    let (left, right) = neighbours(comm);
    let sent = comm.isend(vec![comm.rank() as u64], right, 7)?;
    check_eq!(comm.recv_vec::<u64>(left, 7)?.0, [left as u64], "a message after {after}");
    Ok(sent.wait().map(drop)?)
}

/// That it was told, or has heard of nothing.
fn told<T>(what: &str, result: Result<T>) -> Outcome<bool> {
    match result {
        Ok(_) => Ok(false),
        Err(Error::CallsDiffer { .. } | Error::GaveUp { .. }) => Ok(true),
        Err(error) => Err(crate::Failure::new(format!("{what}: {error}"))),
    }
}

/// Begins an operation with so many elements for each rank, and waits for it.
type Call = fn(&Comm, usize) -> Result<()>;

fn all_reduce(comm: &Comm, len: usize) -> Result<()> {
    comm.iall_reduce(vec![1u64; len], Sum)?.wait().map(drop)
}

fn all_gather(comm: &Comm, len: usize) -> Result<()> {
    comm.iall_gather(vec![1u64; len])?.wait().map(drop)
}

fn all_to_all(comm: &Comm, len: usize) -> Result<()> {
    comm.iall_to_all(vec![1u64; len * comm.size()])?.wait().map(drop)
}

fn bcast(comm: &Comm, len: usize) -> Result<()> {
    comm.ibcast(vec![1u64; len], 0)?.wait().map(drop)
}

const CALLS: &[(&str, Call)] = &[
    ("allreduce/linear", all_reduce),
    ("allreduce/ring", all_reduce),
    ("allreduce/recursive_doubling", all_reduce),
    ("allreduce/rabenseifner", all_reduce),
    ("allreduce/fan_in_fan_out", all_reduce),
    ("allgather/linear", all_gather),
    ("allgather/ring", all_gather),
    ("allgather/bruck", all_gather),
    ("alltoall/linear", all_to_all),
    ("alltoall/pairwise", all_to_all),
    ("alltoall/bruck", all_to_all),
    ("bcast/flat", bcast),
    ("bcast/binomial", bcast),
    ("bcast/kary:3", bcast),
];

/// One rank after the other is an element short. At least one hears of it, and all come to an end.
pub(super) fn one_is_short(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    for (id, call) in CALLS {
        let using = dup.using(id)?;
        for (len, short) in [(5, 0), (5, comm.size() - 1), (20_000, 1), (20_000, 0)] {
            let what = format!("{id} of {len} where rank {short} is short");
            let mine = if comm.rank() == short { len - 1 } else { len };
            let heard = told(&what, call(&using, mine))?;
            let all = dup.all_reduce(&[u64::from(heard)], Sum)?;
            check!(all[0] > 0, "nobody has heard of {what}");
            works(&dup, &what)?;
        }
    }
    Ok(())
}

/// Tags of collectives that were given up are used again.
pub(super) fn long_after(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let mine = if comm.rank() == 0 { 3 } else { 4 };
    told("all_gather", all_gather(&dup.using("allgather/linear")?, mine))?;
    for number in 0..4200u64 {
        let want = [(number + 1) * comm.size() as u64];
        let sum = dup.iall_reduce(vec![number + 1], Sum)?.wait()?;
        check_eq!(sum, want, "sum {number} after ranks have disagreed");
    }
    works(&dup, "4200 others")
}

/// An operator that panics, everywhere or on one rank: all can go on, and those who wait for that rank are told.
pub(super) fn operator_panics(comm: &Comm) -> Outcome {
    for (id, len) in [("allreduce/linear", 4), ("allreduce/recursive_doubling", 4), ("allreduce/ring", 20_000)] {
        for everywhere in [false, true] {
            let dup = comm.dup()?;
            let using = dup.using(id)?;
            let beside = comm.iall_reduce(vec![1u64; 5], Sum)?;
            let panics = everywhere || comm.rank() == 0;
            let operator = treepie::commutative(move |a: u64, b: u64| {
                if panics {
                    // Without a word on the terminal.
                    resume_unwind(Box::new("the operator panics"));
                }
                a.wrapping_add(b)
            });
            let result = catch_unwind(AssertUnwindSafe(|| using.iall_reduce(vec![1u64; len], operator)?.wait()));
            match result {
                Err(_) => check!(panics, "{id}: a panic of another rank's operator"),
                Ok(result) => {
                    let told = told(id, result)?;
                    check!(told || !everywhere, "{id}: a result without an operator")
                }
            }
            check_eq!(beside.wait()?, [comm.size() as u64; 5], "an operation beside one whose operator panics");
            works(&dup, &format!("a panic in {id}"))?;
            works(comm, &format!("a panic in {id}"))?;
        }
    }
    Ok(())
}
