//! What is refused, by all ranks alike, so that nobody waits for anybody.

use treepie::{Comm, Error, Sum};

use super::{between, exchanged};
use crate::check::{Outcome, check, check_eq};

/// That a call gave this refusal.
#[track_caller]
fn is_bad_length(what: &str, got: treepie::Result<()>) -> Outcome {
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
        is_bad_length("scatterv_in_place", comm.scatterv_in_place(data, counts, 0))?;
        is_bad_length("gatherv_in_place", comm.gatherv_in_place(data, counts, 0))?;
        is_bad_length("all_gatherv_in_place", comm.all_gatherv_in_place(data, counts))?;
        is_bad_length("reduce_scatterv_in_place", comm.reduce_scatterv_in_place(data, counts, Sum))?;
        is_bad_length("all_to_allv_in_place", comm.all_to_allv_in_place(data, counts))?;
    }
    // Shorter than its own block, too.
    is_bad_length("reduce_scatterv_in_place", comm.reduce_scatterv_in_place(&mut data[..1], &counts, Sum))?;
    for counts in [&counts, &too_many] {
        let calls: [(&str, treepie::Result<()>); 8] = [
            ("iscatterv_in_place", comm.scope(|s| s.iscatterv_in_place(&mut *data, counts, 0)?.wait())),
            ("igatherv_in_place", comm.scope(|s| s.igatherv_in_place(&mut *data, counts, 0)?.wait())),
            ("iall_gatherv_in_place", comm.scope(|s| s.iall_gatherv_in_place(&mut *data, counts)?.wait())),
            ("ireduce_scatterv_in_place", comm.scope(|s| s.ireduce_scatterv_in_place(&mut *data, counts, Sum)?.wait())),
            (
                "ireduce_scatterv_in_place of one",
                comm.scope(|s| s.ireduce_scatterv_in_place(&mut data[..1], counts, Sum)?.wait()),
            ),
            ("iall_to_allv_in_place", comm.scope(|s| s.iall_to_allv_in_place(&mut *data, counts)?.wait())),
            ("iall_gatherv", comm.scope(|s| s.iall_gatherv(&[0; 2], counts, &mut *data)?.wait())),
            ("iall_to_allv", comm.scope(|s| s.iall_to_allv(&[0; 2], counts, &mut *data, counts)?.wait())),
        ];
        calls.into_iter().try_for_each(|(what, got)| is_bad_length(what, got))?;
    }
    let nobody = comm.scatterv_in_place(data, &counts, size);
    check!(nobody.is_err(), "a scatter from rank {size}: {nobody:?}");
    check_eq!(long, before, "what was given to calls that were refused");
    // One can go on.
    let mut own = vec![0; 2 * size];
    own[2 * rank..][..2].fill(rank as u64);
    comm.all_gatherv_in_place(&mut own, &counts)?;
    check_eq!(own, (0..2 * size as u64).map(|i| i / 2).collect::<Vec<_>>(), "all_gatherv_in_place after refusals");
    Ok(())
}

/// Blocking exchanges can store and forward. In a scope only schedules run, and the refusal says what would do.
pub(super) fn store_and_forward(comm: &Comm) -> Outcome {
    let counts: Vec<usize> = (0..comm.size()).map(|other| between(comm.rank(), other, 40)).collect();
    let (data, want) = exchanged::<u64>(comm.rank(), &counts);
    for id in ["alltoall/grid:2", "alltoall/hypercube"] {
        let comm = comm.using(id)?;
        let mut copy = data.clone();
        comm.all_to_allv_in_place(&mut copy, &counts)?;
        check_eq!(copy, want, "all_to_allv_in_place by {id}");
        let mut copy = data.clone();
        let got = comm.scope(|scope| scope.iall_to_allv_in_place(&mut copy, &counts)?.wait());
        check!(matches!(got, Err(Error::Algorithm(_))), "borrowed iall_to_allv_in_place by {id}: {got:?}");
        check_eq!(copy, data, "what was given to a call that was refused");
        let mut into = vec![0; data.len()];
        let got = comm.scope(|scope| scope.iall_to_allv(&data, &counts, &mut into, &counts)?.wait());
        check!(matches!(got, Err(Error::Algorithm(_))), "borrowed iall_to_allv by {id}: {got:?}");
    }
    Ok(())
}

/// The last rank alone is refused, in an operation in which nobody waits for it. Operations after that are as ever.
pub(super) fn one_alone(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let flat = comm.using("scatter/flat")?;
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
        comm.scope(|scope| scope.iall_reduce_in_place(&mut sum, Sum)?.wait())?;
        check_eq!(sum, [turn * size], "a sum after scatter {turn}");
        check_eq!(
            comm.iall_gather(vec![rank])?.wait()?,
            (0..size).collect::<Vec<_>>(),
            "a gather after scatter {turn}"
        );
    }
    Ok(())
}
