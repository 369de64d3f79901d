//! Input and output are two slices that are borrowed until a scope ends.

use treepie::{Comm, Rank, Reduction, Request, Scope, Sum};

use super::{lists_of_counts, roots, uniform};
use crate::calls::Operand;
use crate::calls::{block, blocks, everybody, range_of, untouched};
use crate::check::{Outcome, check_eq};
use crate::folds::{Fold, MAPS, SUM};
use crate::payload::series;

/// Begins an operation on `data` in a scope, waits for it, and compares what comes.
fn one<T: Operand>(
    comm: &Comm,
    what: &str,
    (data, want): (&[T], &[T]),
    begin: impl for<'s, 'scope, 'env> FnOnce(
        &'s Scope<'scope, 'env>,
        &'scope [T],
        &'scope mut [T],
    ) -> treepie::Result<Request<'scope, ()>>,
) -> Outcome {
    let mut into = untouched(want.len());
    comm.scope(|scope| begin(scope, data, &mut into)?.wait())?;
    check_eq!(into, want, "borrowed {what}, {} elements", data.len());
    Ok(())
}

/// What only the root has.
fn at(root: Rank, comm: &Comm, data: Vec<u64>) -> Vec<u64> {
    if comm.rank() == root { data } else { Vec::new() }
}

pub(super) fn scatter_and_gather(comm: &Comm) -> Outcome {
    let rank = comm.rank();
    for root in roots(comm) {
        for counts in lists_of_counts(comm.size()) {
            let (all, mine) = (at(root, comm, blocks(root, &counts)), block(root, rank, counts[rank]));
            one(comm, "iscatterv", (&all, &mine), |s, data, into| s.iscatterv(data, &counts, into, root))?;
            if uniform(&counts).is_some() {
                one(comm, "iscatter", (&all, &mine), |s, data, into| s.iscatter(data, into, root))?;
            }
            let (mine, all) = (block(rank, rank, counts[rank]), at(root, comm, everybody(&counts)));
            one(comm, "igatherv", (&mine, &all), |s, data, into| s.igatherv(data, &counts, into, root))?;
            if uniform(&counts).is_some() {
                one(comm, "igather", (&mine, &all), |s, data, into| s.igather(data, into, root))?;
            }
        }
    }
    Ok(())
}

pub(super) fn exchanges(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for counts in lists_of_counts(size) {
        let (mine, all) = (block::<u64>(rank, rank, counts[rank]), everybody::<u64>(&counts));
        one(comm, "iall_gatherv", (&mine, &all), |s, data, into| s.iall_gatherv(data, &counts, into))?;
        if uniform(&counts).is_some() {
            one(comm, "iall_gather", (&mine, &all), |s, data, into| s.iall_gather(data, into))?;
        }
        // Others have other lengths: a part of what is listed, so that more comes than goes or the other way round.
        let len = |from: Rank, to: Rank| counts[to] / (1 + (from + 2 * to) % 3);
        let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
        let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
        let got: Vec<u64> = from.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
        let given = (&blocks::<u64>(rank, &to)[..], &got[..]);
        one(comm, "iall_to_allv", given, |s, data, into| s.iall_to_allv(data, &to, into, &from))?;
    }
    for count in [0, 1, 7, 5000] {
        let got: Vec<u64> = (0..size).flat_map(|from| block(from, rank, count)).collect();
        let given = (&blocks::<u64>(rank, &vec![count; size])[..], &got[..]);
        one(comm, "iall_to_all", given, |s, data, into| s.iall_to_all(data, into))?;
    }
    Ok(())
}

fn combine<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let (rank, op) = (comm.rank(), fold.operator);
    let data = fold.data(rank, count);
    let all = fold.result(0..comm.size(), count);
    for root in roots(comm) {
        let want = if rank == root { &all[..] } else { &[] };
        one(comm, "ireduce", (&data, want), |s, data, into| s.ireduce(data, into, op(), root))?;
    }
    one(comm, "iall_reduce", (&data, &all), |s, data, into| s.iall_reduce(data, into, op()))?;
    let with_mine = fold.result(0..rank + 1, count);
    one(comm, "iscan", (&data, &with_mine), |s, data, into| s.iscan(data, into, op()))?;
    // Rank 0 keeps what it has.
    let before = if rank == 0 { untouched(count) } else { fold.result(0..rank, count) };
    one(comm, "iexscan", (&data, &before), |s, data, into| s.iexscan(data, into, op()))
}

fn reduce_scatter<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, counts: &[usize]) -> Outcome {
    let (all, op) = (counts.iter().sum(), fold.operator);
    let (data, result) = (fold.data(comm.rank(), all), fold.result(0..comm.size(), all));
    let given = (&data[..], &result[range_of(counts, comm.rank())]);
    if uniform(counts).is_some() {
        one(comm, "ireduce_scatter", given, |s, data, into| s.ireduce_scatter(data, into, op()))?;
    }
    one(comm, "ireduce_scatterv", given, |s, data, into| s.ireduce_scatterv(data, counts, into, op()))
}

pub(super) fn reductions(comm: &Comm) -> Outcome {
    for counts in lists_of_counts(comm.size()) {
        reduce_scatter(comm, &SUM, &counts)?;
        reduce_scatter(comm, &MAPS, &counts)?;
    }
    for count in [0, 1, 7, 1000, 30_000] {
        combine(comm, &SUM, count)?;
        combine(comm, &MAPS, count)?;
    }
    Ok(())
}

/// In one scope, waited for in another order than begun, or not at all.
pub(super) fn many_at_once(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let last = size - 1;
    for len in [3, 9000] {
        let counts: Vec<usize> = (0..size).map(|rank| len * (rank % 3)).collect();
        let mine = series::<u64>(rank, counts[rank]);
        let all: Vec<u64> = (0..size).flat_map(|rank| series(rank, counts[rank])).collect();
        let numbers = SUM.data(rank, len);
        let (mut gathered, mut everywhere) =
            (untouched(if rank == last { all.len() } else { 0 }), untouched(all.len()));
        let (mut scattered, mut sums) = (untouched(counts[rank]), numbers.clone());
        let (mut to_here, mut before) = (untouched(len), untouched(len));
        let given = at(0, comm, all.clone());
        comm.scope(|scope| {
            let first = scope.igatherv(&mine, &counts, &mut gathered, last)?;
            let _ = scope.iscatterv(&given, &counts, &mut scattered, 0)?;
            let third = scope.iall_gatherv(&mine, &counts, &mut everywhere)?;
            let fourth = scope.iall_reduce_in_place(&mut sums, Sum)?;
            let _ = scope.iexscan(&numbers, &mut before, Sum)?;
            let sixth = scope.iscan(&numbers, &mut to_here, Sum)?;
            sixth.wait()?;
            third.wait()?;
            first.wait()?;
            fourth.wait()
        })?;
        check_eq!(gathered, at(last, comm, all.clone()), "igatherv of {counts:?} beside others");
        check_eq!(scattered, mine, "iscatterv of {counts:?} beside others");
        check_eq!(everywhere, all, "iall_gatherv of {counts:?} beside others");
        check_eq!(sums, SUM.result(0..size, len), "iall_reduce_in_place of {len} beside others");
        check_eq!(to_here, SUM.result(0..rank + 1, len), "iscan of {len} beside others");
        let want = if rank == 0 { untouched(len) } else { SUM.result(0..rank, len) };
        check_eq!(before, want, "iexscan of {len} beside others");
    }
    Ok(())
}
