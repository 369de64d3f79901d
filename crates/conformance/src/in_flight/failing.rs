//! Operations that fail on some ranks: no rank hangs, and the communicator stays usable.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, Result, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::reduction_cases::SUM;
use crate::signals::ring_neighbors;

/// Checks that operations of all kinds still work.
fn check_usable(comm: &Comm, after: &str) -> Outcome {
    for len in [3, 9000] {
        let (data, want) = (SUM.contribution(comm.rank(), len), SUM.result(0..comm.size(), len));
        check_eq!(comm.iallreduce(data.clone(), Sum)?.wait()?, want, "iallreduce of {len} after {after}");
        check_eq!(comm.allreduce(&data, Sum)?, want, "allreduce of {len} after {after}");
    }
    let (left, right) = ring_neighbors(comm);
    let sent = comm.isend(vec![comm.rank() as u64], right, 7)?;
    check_eq!(comm.recv_vec::<u64>(left, 7)?.0, [left as u64], "a message after {after}");
    Ok(sent.wait().map(drop)?)
}

/// Whether a rank got the error; it may also have succeeded, but with no other error.
fn check_reported<T>(what: &str, result: Result<T>) -> Outcome<bool> {
    match result {
        Ok(_) => Ok(false),
        Err(Error::CollectiveMismatch { .. } | Error::Aborted { .. }) => Ok(true),
        Err(error) => Err(crate::Failure::new(format!("{what}: {error}"))),
    }
}

/// Starts an operation with this number of elements per rank, and waits for it.
type Call = fn(&Comm, usize) -> Result<()>;

fn allreduce(comm: &Comm, len: usize) -> Result<()> {
    comm.iallreduce(vec![1u64; len], Sum)?.wait().map(drop)
}

fn allgather(comm: &Comm, len: usize) -> Result<()> {
    comm.iallgather(vec![1u64; len])?.wait().map(drop)
}

fn alltoall(comm: &Comm, len: usize) -> Result<()> {
    comm.ialltoall(vec![1u64; len * comm.size()])?.wait().map(drop)
}

fn bcast(comm: &Comm, len: usize) -> Result<()> {
    comm.ibcast(vec![1u64; len], 0)?.wait().map(drop)
}

const CALLS: &[(&str, Call)] = &[
    ("allreduce/linear", allreduce),
    ("allreduce/ring", allreduce),
    ("allreduce/recursive_doubling", allreduce),
    ("allreduce/rabenseifner", allreduce),
    ("allreduce/fan_in_fan_out", allreduce),
    ("allgather/linear", allgather),
    ("allgather/ring", allgather),
    ("allgather/bruck", allgather),
    ("alltoall/linear", alltoall),
    ("alltoall/pairwise", alltoall),
    ("alltoall/bruck", alltoall),
    ("bcast/flat", bcast),
    ("bcast/binomial", bcast),
    ("bcast/kary:3", bcast),
];

/// One rank has one element less. At least one rank gets an error, and all calls return.
pub(super) fn one_has_fewer_elements(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    for (id, call) in CALLS {
        let using = dup.with_algorithm(id)?;
        for (len, short) in [(5, 0), (5, comm.size() - 1), (20_000, 1), (20_000, 0)] {
            let what = format!("{id} of {len} where rank {short} is short");
            let local_len = if comm.rank() == short { len - 1 } else { len };
            let is_reported = check_reported(&what, call(&using, local_len))?;
            let all = dup.allreduce(&[u64::from(is_reported)], Sum)?;
            check!(all[0] > 0, "no rank reports {what}");
            check_usable(&dup, &what)?;
        }
    }
    Ok(())
}

/// Tags of aborted collectives are reused.
pub(super) fn long_after(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let local_len = if comm.rank() == 0 { 3 } else { 4 };
    check_reported("allgather", allgather(&dup.with_algorithm("allgather/linear")?, local_len))?;
    for number in 0..4200u64 {
        let want = [(number + 1) * comm.size() as u64];
        let sum = dup.iallreduce(vec![number + 1], Sum)?.wait()?;
        check_eq!(sum, want, "sum {number} after a mismatch");
    }
    check_usable(&dup, "4200 others")
}

/// An operator that panics on one rank or on all: all ranks can go on, and those that wait for a panicking one get an
/// error.
pub(super) fn operator_panics(comm: &Comm) -> Outcome {
    for (id, len) in [("allreduce/linear", 4), ("allreduce/recursive_doubling", 4), ("allreduce/ring", 20_000)] {
        for everywhere in [false, true] {
            let dup = comm.dup()?;
            let using = dup.with_algorithm(id)?;
            let concurrent = comm.iallreduce(vec![1u64; 5], Sum)?;
            let panics = everywhere || comm.rank() == 0;
            let operator = treepie::commutative(move |a: u64, b: u64| {
                if panics {
                    // `resume_unwind` prints no message.
                    resume_unwind(Box::new("the operator panics"));
                }
                a.wrapping_add(b)
            });
            let result = catch_unwind(AssertUnwindSafe(|| using.iallreduce(vec![1u64; len], operator)?.wait()));
            match result {
                Err(_) => check!(panics, "{id}: a panic of another rank's operator"),
                Ok(result) => {
                    let is_reported = check_reported(id, result)?;
                    check!(is_reported || !everywhere, "{id}: a result without an operator")
                }
            }
            check_eq!(concurrent.wait()?, [comm.size() as u64; 5], "an operation concurrent with one that panics");
            check_usable(&dup, &format!("a panic in {id}"))?;
            check_usable(comm, &format!("a panic in {id}"))?;
        }
    }
    Ok(())
}
