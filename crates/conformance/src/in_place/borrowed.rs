//! Operations whose input and output are slices borrowed for a scope.

use treepie::{Comm, Rank, Reduction, Request, Scope, Sum};

use super::{lists_of_counts, roots, uniform};
use crate::calls::Operand;
use crate::calls::{all_blocks, block, block_range, blocks, poisoned};
use crate::check::{Outcome, check_eq};
use crate::payload::series;
use crate::reduction_cases::{AFFINE_MAPS, ReductionCase, SUM};

/// Starts an operation on `data` in a scope, waits for it, and compares the result.
fn one<T: Operand>(
    comm: &Comm,
    what: &str,
    (data, want): (&[T], &[T]),
    start: impl for<'s, 'scope, 'env> FnOnce(
        &'s Scope<'scope, 'env>,
        &'scope [T],
        &'scope mut [T],
    ) -> treepie::Result<Request<'scope, ()>>,
) -> Outcome {
    let mut into = poisoned(want.len());
    comm.scope(|scope| start(scope, data, &mut into)?.wait())?;
    check_eq!(into, want, "borrowed {what}, {} elements", data.len());
    Ok(())
}

/// `data` on the root, and nothing on the other ranks.
fn at(root: Rank, comm: &Comm, data: Vec<u64>) -> Vec<u64> {
    if comm.rank() == root { data } else { Vec::new() }
}

pub(super) fn scatter_and_gather(comm: &Comm) -> Outcome {
    let rank = comm.rank();
    for root in roots(comm) {
        for counts in lists_of_counts(comm.size()) {
            let (all, local) = (at(root, comm, blocks(root, &counts)), block(root, rank, counts[rank]));
            one(comm, "iscatterv", (&all, &local), |s, data, into| s.iscatterv(data, &counts, into, root))?;
            if uniform(&counts).is_some() {
                one(comm, "iscatter", (&all, &local), |s, data, into| s.iscatter(data, into, root))?;
            }
            let (local, all) = (block(rank, rank, counts[rank]), at(root, comm, all_blocks(&counts)));
            one(comm, "igatherv", (&local, &all), |s, data, into| s.igatherv(data, &counts, into, root))?;
            if uniform(&counts).is_some() {
                one(comm, "igather", (&local, &all), |s, data, into| s.igather(data, into, root))?;
            }
        }
    }
    Ok(())
}

pub(super) fn exchanges(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for counts in lists_of_counts(size) {
        let (local, all) = (block::<u64>(rank, rank, counts[rank]), all_blocks::<u64>(&counts));
        one(comm, "iallgatherv", (&local, &all), |s, data, into| s.iallgatherv(data, &counts, into))?;
        if uniform(&counts).is_some() {
            one(comm, "iallgather", (&local, &all), |s, data, into| s.iallgather(data, into))?;
        }
        // Lengths differ by pair and direction, so that ranks receive more than they send or the other way round.
        let len = |from: Rank, to: Rank| counts[to] / (1 + (from + 2 * to) % 3);
        let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
        let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
        let got: Vec<u64> = from.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
        let given = (&blocks::<u64>(rank, &to)[..], &got[..]);
        one(comm, "ialltoallv", given, |s, data, into| s.ialltoallv(data, &to, into, &from))?;
    }
    for count in [0, 1, 7, 5000] {
        let got: Vec<u64> = (0..size).flat_map(|from| block(from, rank, count)).collect();
        let given = (&blocks::<u64>(rank, &vec![count; size])[..], &got[..]);
        one(comm, "ialltoall", given, |s, data, into| s.ialltoall(data, into))?;
    }
    Ok(())
}

fn combine<T: Operand, R: Reduction<T>>(comm: &Comm, case: &ReductionCase<T, R>, count: usize) -> Outcome {
    let (rank, op) = (comm.rank(), case.operator);
    let data = case.contribution(rank, count);
    let all = case.result(0..comm.size(), count);
    for root in roots(comm) {
        let want = if rank == root { &all[..] } else { &[] };
        one(comm, "ireduce", (&data, want), |s, data, into| s.ireduce(data, into, op(), root))?;
    }
    one(comm, "iallreduce", (&data, &all), |s, data, into| s.iallreduce(data, into, op()))?;
    let inclusive = case.result(0..rank + 1, count);
    one(comm, "iscan", (&data, &inclusive), |s, data, into| s.iscan(data, into, op()))?;
    // On rank 0 exscan leaves the buffer unchanged.
    let before = if rank == 0 { poisoned(count) } else { case.result(0..rank, count) };
    one(comm, "iexscan", (&data, &before), |s, data, into| s.iexscan(data, into, op()))
}

fn reduce_scatter<T: Operand, R: Reduction<T>>(comm: &Comm, case: &ReductionCase<T, R>, counts: &[usize]) -> Outcome {
    let (all, op) = (counts.iter().sum(), case.operator);
    let (data, result) = (case.contribution(comm.rank(), all), case.result(0..comm.size(), all));
    let given = (&data[..], &result[block_range(counts, comm.rank())]);
    if uniform(counts).is_some() {
        one(comm, "ireduce_scatter_block", given, |s, data, into| s.ireduce_scatter_block(data, into, op()))?;
    }
    one(comm, "ireduce_scatter", given, |s, data, into| s.ireduce_scatter(data, counts, into, op()))
}

pub(super) fn reductions(comm: &Comm) -> Outcome {
    for counts in lists_of_counts(comm.size()) {
        reduce_scatter(comm, &SUM, &counts)?;
        reduce_scatter(comm, &AFFINE_MAPS, &counts)?;
    }
    for count in [0, 1, 7, 1000, 30_000] {
        combine(comm, &SUM, count)?;
        combine(comm, &AFFINE_MAPS, count)?;
    }
    Ok(())
}

/// Several operations in one scope, waited for in another order than they were started in, or not at all.
pub(super) fn many_at_once(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let last = size - 1;
    for len in [3, 9000] {
        let counts: Vec<usize> = (0..size).map(|rank| len * (rank % 3)).collect();
        let local = series::<u64>(rank, counts[rank]);
        let all: Vec<u64> = (0..size).flat_map(|rank| series(rank, counts[rank])).collect();
        let numbers = SUM.contribution(rank, len);
        let (mut gathered, mut everywhere) = (poisoned(if rank == last { all.len() } else { 0 }), poisoned(all.len()));
        let (mut scattered, mut sums) = (poisoned(counts[rank]), numbers.clone());
        let (mut to_here, mut before) = (poisoned(len), poisoned(len));
        let given = at(0, comm, all.clone());
        comm.scope(|scope| {
            let first = scope.igatherv(&local, &counts, &mut gathered, last)?;
            let _ = scope.iscatterv(&given, &counts, &mut scattered, 0)?;
            let third = scope.iallgatherv(&local, &counts, &mut everywhere)?;
            let fourth = scope.iallreduce_in_place(&mut sums, Sum)?;
            let _ = scope.iexscan(&numbers, &mut before, Sum)?;
            let sixth = scope.iscan(&numbers, &mut to_here, Sum)?;
            sixth.wait()?;
            third.wait()?;
            first.wait()?;
            fourth.wait()
        })?;
        check_eq!(gathered, at(last, comm, all.clone()), "igatherv of {counts:?} with others");
        check_eq!(scattered, local, "iscatterv of {counts:?} with others");
        check_eq!(everywhere, all, "iallgatherv of {counts:?} with others");
        check_eq!(sums, SUM.result(0..size, len), "iallreduce_in_place of {len} with others");
        check_eq!(to_here, SUM.result(0..rank + 1, len), "iscan of {len} with others");
        let want = if rank == 0 { poisoned(len) } else { SUM.result(0..rank, len) };
        check_eq!(before, want, "iexscan of {len} with others");
    }
    Ok(())
}
