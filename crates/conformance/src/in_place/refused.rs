//! Invalid lengths, refused on all ranks alike or on one, without any rank waiting.

use treepie::{Comm, Error, Sum};

use super::{between, exchanged};
use crate::check::{Outcome, check, check_eq};

/// Checks that a call was refused for its length.
#[track_caller]
fn check_bad_length(what: &str, got: treepie::Result<()>) -> Outcome {
    check!(matches!(got, Err(Error::BadLength { .. })), "{what}: {got:?} instead of a refusal");
    Ok(())
}

pub(super) fn lengths(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let counts = vec![2; size];
    let too_many = vec![2; size + 1];
    let mut long = vec![7u64; 2 * size + 1];
    let before = long.clone();
    let data = &mut long[..];
    for counts in [&counts, &too_many] {
        check_bad_length("scatterv_in_place", comm.scatterv_in_place(data, counts, 0))?;
        check_bad_length("gatherv_in_place", comm.gatherv_in_place(data, counts, 0))?;
        check_bad_length("allgatherv_in_place", comm.allgatherv_in_place(data, counts))?;
        check_bad_length("reduce_scatter_in_place", comm.reduce_scatter_in_place(data, counts, Sum))?;
        check_bad_length("alltoallv_in_place", comm.alltoallv_in_place(data, counts))?;
    }
    // Shorter than the rank's own block, too.
    check_bad_length("reduce_scatter_in_place", comm.reduce_scatter_in_place(&mut data[..1], &counts, Sum))?;
    for counts in [&counts, &too_many] {
        let calls: [(&str, treepie::Result<()>); 8] = [
            ("iscatterv_in_place", comm.scope(|s| s.iscatterv_in_place(&mut *data, counts, 0)?.wait())),
            ("igatherv_in_place", comm.scope(|s| s.igatherv_in_place(&mut *data, counts, 0)?.wait())),
            ("iallgatherv_in_place", comm.scope(|s| s.iallgatherv_in_place(&mut *data, counts)?.wait())),
            ("ireduce_scatter_in_place", comm.scope(|s| s.ireduce_scatter_in_place(&mut *data, counts, Sum)?.wait())),
            (
                "ireduce_scatter_in_place of one",
                comm.scope(|s| s.ireduce_scatter_in_place(&mut data[..1], counts, Sum)?.wait()),
            ),
            ("ialltoallv_in_place", comm.scope(|s| s.ialltoallv_in_place(&mut *data, counts)?.wait())),
            ("iallgatherv", comm.scope(|s| s.iallgatherv(&[0; 2], counts, &mut *data)?.wait())),
            ("ialltoallv", comm.scope(|s| s.ialltoallv(&[0; 2], counts, &mut *data, counts)?.wait())),
        ];
        calls.into_iter().try_for_each(|(what, got)| check_bad_length(what, got))?;
    }
    let bad_root = comm.scatterv_in_place(data, &counts, size);
    check!(bad_root.is_err(), "a scatter from rank {size}: {bad_root:?}");
    check_eq!(long, before, "buffer of refused calls");
    // The rank can go on.
    let mut buffer = vec![0; 2 * size];
    buffer[2 * rank..][..2].fill(rank as u64);
    comm.allgatherv_in_place(&mut buffer, &counts)?;
    check_eq!(buffer, (0..2 * size as u64).map(|i| i / 2).collect::<Vec<_>>(), "allgatherv_in_place after refusals");
    Ok(())
}

/// Blocking alltoallv supports store-and-forward algorithms. A scope runs only schedules, and refuses these.
pub(super) fn store_and_forward(comm: &Comm) -> Outcome {
    let counts: Vec<usize> = (0..comm.size()).map(|other| between(comm.rank(), other, 40)).collect();
    let (data, want) = exchanged::<u64>(comm.rank(), &counts);
    for id in ["alltoall/grid:2", "alltoall/hypercube"] {
        let comm = comm.with_algorithm(id)?;
        let mut copy = data.clone();
        comm.alltoallv_in_place(&mut copy, &counts)?;
        check_eq!(copy, want, "alltoallv_in_place by {id}");
        let mut copy = data.clone();
        let got = comm.scope(|scope| scope.ialltoallv_in_place(&mut copy, &counts)?.wait());
        check!(matches!(got, Err(Error::Algorithm(_))), "borrowed ialltoallv_in_place by {id}: {got:?}");
        check_eq!(copy, data, "buffer of a refused call");
        let mut into = vec![0; data.len()];
        let got = comm.scope(|scope| scope.ialltoallv(&data, &counts, &mut into, &counts)?.wait());
        check!(matches!(got, Err(Error::Algorithm(_))), "borrowed ialltoallv by {id}: {got:?}");
    }
    Ok(())
}

/// Only the last rank is refused, in an operation in which no rank waits for it. Operations after that succeed.
pub(super) fn refused_on_one_rank(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let flat = comm.with_algorithm("scatter/flat")?;
    let is_last = rank == size - 1;
    for turn in 0..20 {
        let counts = vec![3; size];
        let data = if rank == 0 { vec![turn; 3 * size] } else { Vec::new() };
        let mut all = data.clone();
        let mut into = vec![99; if is_last { 4 } else { 3 }];
        let got = match turn % 3 {
            0 => flat.scope(|scope| scope.iscatterv(&data, &counts, &mut into, 0)?.wait()),
            1 if rank == 0 => flat.iscatterv(data, &counts, 0)?.wait().map(drop),
            1 => {
                flat.iscatterv(if is_last { vec![1] } else { Vec::new() }, &counts, 0).and_then(|r| r.wait().map(drop))
            }
            _ if rank == 0 => flat.scope(|scope| scope.iscatterv_in_place(&mut all, &counts, 0)?.wait()),
            _ => flat.scope(|scope| scope.iscatterv_in_place(&mut into, &counts, 0)?.wait()),
        };
        check_eq!(matches!(got, Err(Error::BadLength { .. })), is_last, "scatter {turn} was refused: {got:?}");
        let mut sum = [turn];
        comm.scope(|scope| scope.iallreduce_in_place(&mut sum, Sum)?.wait())?;
        check_eq!(sum, [turn * size], "a sum after scatter {turn}");
        check_eq!(comm.iallgather(vec![rank])?.wait()?, (0..size).collect::<Vec<_>>(), "a gather after scatter {turn}");
    }
    Ok(())
}
