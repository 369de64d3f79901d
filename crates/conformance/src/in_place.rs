//! In-place collective operations, and operations on slices borrowed for a scope.

mod borrowed;
mod refused;

use treepie::{Comm, Rank, Reduction, Request, Scope};
use treepie_collectives::registry;
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::calls::{Operand, all_blocks, block, block_range, blocks, irregular_counts, poisoned};
use crate::check::{Outcome, check, check_eq};
use crate::payload::{Element, Particle};
use crate::reduction_cases::{AFFINE_MAPS, ReductionCase, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("in-place/scatter-and-gather", 1, scatter_and_gather),
    Case::new("in-place/allgather", 1, allgather),
    Case::new("in-place/alltoall", 1, alltoall),
    Case::new("in-place/reductions", 1, reductions),
    Case::new("in-place/scatter-and-gather-of-world", 1, scatter_and_gather).of_world(),
    Case::new("in-place/allgather-of-world", 1, allgather).of_world(),
    Case::new("in-place/alltoall-of-world", 1, alltoall).of_world(),
    Case::new("in-place/reductions-of-world", 1, reductions).of_world(),
    Case::new("in-place/by-every-algorithm-for-unequal-blocks", 1, by_every_algorithm),
    Case::new("in-place/bad-lengths-are-refused", 1, refused::lengths),
    Case::new("in-place/refused-on-one-rank", 2, refused::refused_on_one_rank),
    Case::new("in-place/store-and-forward", 1, refused::store_and_forward),
    Case::new("in-place/borrowed-scatter-and-gather", 1, borrowed::scatter_and_gather),
    Case::new("in-place/borrowed-exchanges", 1, borrowed::exchanges),
    Case::new("in-place/borrowed-reductions", 1, borrowed::reductions),
    Case::new("in-place/borrowed-many-at-once", 1, borrowed::many_at_once),
];

/// Lengths of blocks: of each kind short ones and long ones, some of them 0.
fn lists_of_counts(ranks: usize) -> Vec<Vec<usize>> {
    let long = if ranks <= 8 { 20_000 } else { 3000 };
    let mut lists: Vec<Vec<usize>> =
        [0, 1, 7, 1000, long].into_iter().map(|count| irregular_counts(ranks, count)).collect();
    lists.push(vec![0; ranks]);
    lists.push((0..ranks).map(|rank| if rank == ranks - 1 { 33 } else { 0 }).collect());
    lists.extend([1, 13].map(|count| vec![count; ranks]));
    lists
}

/// Every rank, or three if there are many.
fn roots(comm: &Comm) -> Vec<Rank> {
    let size = comm.size();
    if size <= 8 { (0..size).collect() } else { vec![0, size / 2 - 1, size - 1] }
}

/// The length of the blocks, if all have the same.
fn uniform(counts: &[usize]) -> Option<usize> {
    counts.iter().all(|count| *count == counts[0]).then_some(counts[0])
}

/// Calls an in-place operation on copies of `data`, blocking and borrowed in a scope, and compares the beginning of the
/// result; the rest of the buffer is undefined.
fn both<T: Operand>(
    comm: &Comm,
    what: &str,
    (data, want): (&[T], &[T]),
    blocking: impl Fn(&mut [T]) -> treepie::Result<()>,
    borrowed: impl for<'s, 'scope, 'env> Fn(
        &'s Scope<'scope, 'env>,
        &'scope mut [T],
    ) -> treepie::Result<Request<'scope, ()>>,
) -> Outcome {
    let mut copy = data.to_vec();
    blocking(&mut copy)?;
    check_eq!(copy[..want.len()], *want, "{what}_in_place, {} elements", data.len());
    let mut copy = data.to_vec();
    comm.scope(|scope| borrowed(scope, &mut copy)?.wait())?;
    check_eq!(copy[..want.len()], *want, "borrowed i{what}_in_place, {} elements", data.len());
    Ok(())
}

fn scatter<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let data = if rank == root { blocks::<T>(root, counts) } else { poisoned(counts[rank]) };
    let want = if rank == root { data.clone() } else { block(root, rank, counts[rank]) };
    let given = (&data[..], &want[..]);
    if uniform(counts).is_some() {
        both(comm, "scatter", given, |d| comm.scatter_in_place(d, root), |s, d| s.iscatter_in_place(d, root))?;
    }
    both(
        comm,
        "scatterv",
        given,
        |d| comm.scatterv_in_place(d, counts, root),
        |s, d| s.iscatterv_in_place(d, counts, root),
    )
}

fn gather<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let mut data = block::<T>(rank, rank, counts[rank]);
    let mut want = data.clone();
    if rank == root {
        want = all_blocks(counts);
        let contribution = std::mem::replace(&mut data, poisoned(want.len()));
        data[block_range(counts, rank)].copy_from_slice(&contribution);
    }
    let given = (&data[..], &want[..]);
    if uniform(counts).is_some() {
        both(comm, "gather", given, |d| comm.gather_in_place(d, root), |s, d| s.igather_in_place(d, root))?;
    }
    both(
        comm,
        "gatherv",
        given,
        |d| comm.gatherv_in_place(d, counts, root),
        |s, d| s.igatherv_in_place(d, counts, root),
    )
}

fn allgatherv<T: Element>(comm: &Comm, counts: &[usize]) -> Outcome {
    let rank = comm.rank();
    let want = all_blocks::<T>(counts);
    let mut data = poisoned(want.len());
    data[block_range(counts, rank)].copy_from_slice(&want[block_range(counts, rank)]);
    let given = (&data[..], &want[..]);
    if uniform(counts).is_some() {
        both(comm, "allgather", given, |d| comm.allgather_in_place(d), |s, d| s.iallgather_in_place(d))?;
    }
    both(comm, "allgatherv", given, |d| comm.allgatherv_in_place(d, counts), |s, d| s.iallgatherv_in_place(d, counts))
}

fn reduce_scatter<T: Operand, R: Reduction<T>>(comm: &Comm, case: &ReductionCase<T, R>, counts: &[usize]) -> Outcome {
    let (rank, all) = (comm.rank(), counts.iter().sum());
    let data = case.contribution(rank, all);
    let result = case.result(0..comm.size(), all);
    let given = (&data[..], &result[block_range(counts, rank)]);
    let op = case.operator;
    if uniform(counts).is_some() {
        let call = |d: &mut [T]| comm.reduce_scatter_block_in_place(d, op());
        both(comm, "reduce_scatter_block", given, call, |s, d| s.ireduce_scatter_block_in_place(d, op()))?;
    }
    let call = |d: &mut [T]| comm.reduce_scatter_in_place(d, counts, op());
    both(comm, "reduce_scatter", given, call, |s, d| s.ireduce_scatter_in_place(d, counts, op()))
}

fn scatter_and_gather(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for counts in lists_of_counts(comm.size()) {
            scatter::<u64>(comm, &counts, root)?;
            gather::<u64>(comm, &counts, root)?;
        }
        scatter::<Particle>(comm, &irregular_counts(comm.size(), 9), root)?;
        gather::<Particle>(comm, &irregular_counts(comm.size(), 9), root)?;
    }
    Ok(())
}

fn allgather(comm: &Comm) -> Outcome {
    for counts in lists_of_counts(comm.size()) {
        allgatherv::<u64>(comm, &counts)?;
        allgatherv::<u8>(comm, &counts)?;
        allgatherv::<Particle>(comm, &counts)?;
    }
    Ok(())
}

/// The length of the blocks that two ranks exchange, the same in both directions.
fn between(one: Rank, other: Rank, count: usize) -> usize {
    if (one + other) % 3 == 1 { 0 } else { count * (one * other % 2) + one + other }
}

/// The input and output of an alltoallv with these counts in both directions.
fn exchanged<T: Element>(rank: Rank, counts: &[usize]) -> (Vec<T>, Vec<T>) {
    let got = counts.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
    (blocks(rank, counts), got)
}

fn alltoall(comm: &Comm) -> Outcome {
    for count in [0, 1, 7, 1000, 20_000] {
        let counts: Vec<usize> = (0..comm.size()).map(|other| between(comm.rank(), other, count)).collect();
        let (data, want) = exchanged::<u64>(comm.rank(), &counts);
        let call = |d: &mut [u64]| comm.alltoallv_in_place(d, &counts);
        both(comm, "alltoallv", (&data, &want), call, |s, d| s.ialltoallv_in_place(d, &counts))?;
        let (data, want) = exchanged::<Particle>(comm.rank(), &vec![count / 10; comm.size()]);
        let call = |d: &mut [Particle]| comm.alltoall_in_place(d);
        both(comm, "alltoall", (&data, &want), call, |s, d| s.ialltoall_in_place(d))?;
    }
    Ok(())
}

/// The reductions with one vector per rank.
fn combine<T: Operand, R: Reduction<T>>(comm: &Comm, case: &ReductionCase<T, R>, count: usize) -> Outcome {
    let (rank, size, op) = (comm.rank(), comm.size(), case.operator);
    let data = case.contribution(rank, count);
    let all = case.result(0..size, count);
    for root in roots(comm) {
        let given = (&data[..], if rank == root { &all[..] } else { &data[..] });
        let call = |d: &mut [T]| comm.reduce_in_place(d, op(), root);
        both(comm, "reduce", given, call, |s, d| s.ireduce_in_place(d, op(), root))?;
    }
    let call = |d: &mut [T]| comm.allreduce_in_place(d, op());
    both(comm, "allreduce", (&data, &all), call, |s, d| s.iallreduce_in_place(d, op()))?;
    let call = |d: &mut [T]| comm.scan_in_place(d, op());
    both(comm, "scan", (&data, &case.result(0..rank + 1, count)), call, |s, d| s.iscan_in_place(d, op()))?;
    // On rank 0 exscan leaves the buffer unchanged.
    let before = if rank == 0 { data.clone() } else { case.result(0..rank, count) };
    let call = |d: &mut [T]| comm.exscan_in_place(d, op());
    both(comm, "exscan", (&data, &before), call, |s, d| s.iexscan_in_place(d, op()))
}

fn reductions(comm: &Comm) -> Outcome {
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

/// All algorithms of the registry that support unequal blocks in place.
fn by_every_algorithm(comm: &Comm) -> Outcome {
    let flat = Network::flat(comm.size() as u32);
    let counts = irregular_counts(comm.size(), 7);
    let last = comm.size() - 1;
    let mut tried = 0;
    for operation in
        [Operation::Scatter { root: 0 }, Operation::Gather { root: 0 }, Operation::Allgather, Operation::ReduceScatter]
    {
        for algorithm in registry::all().iter().filter(|algorithm| algorithm.operation() == operation.name()) {
            let mut request = registry::CollectiveSpec::new(operation, &flat);
            (request.uniform, request.in_place, request.commutative) = (false, true, true);
            if algorithm.check_applicable(&request).is_err() {
                continue;
            }
            tried += 1;
            request.commutative = false;
            let ordered = algorithm.check_applicable(&request).is_ok();
            let comm = &comm.with_algorithm(&algorithm.id)?;
            let outcome = match operation {
                Operation::Scatter { .. } => scatter::<u64>(comm, &counts, last),
                Operation::Gather { .. } => gather::<u64>(comm, &counts, last),
                Operation::Allgather => allgatherv::<u64>(comm, &counts),
                _ if ordered => reduce_scatter(comm, &AFFINE_MAPS, &counts),
                _ => reduce_scatter(comm, &SUM, &counts),
            };
            outcome.map_err(|failure| failure.context(&algorithm.id))?;
        }
    }
    check!(tried >= 10, "only {tried} algorithms were tried");
    Ok(())
}
