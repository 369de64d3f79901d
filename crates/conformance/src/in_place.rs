//! Collective operations in one slice, and on slices that are borrowed until a scope ends.

mod borrowed;
mod refused;

use treepie::{Comm, Rank, Reduction, Request, Scope};
use treepie_collectives::registry;
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::calls::{Operand, block, blocks, everybody, irregular, range_of, untouched};
use crate::check::{Outcome, check, check_eq};
use crate::folds::{Fold, MAPS, SUM};
use crate::payload::{Element, Particle};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("in-place/scatter-and-gather", 1, scatter_and_gather),
    Case::new("in-place/all-gather", 1, all_gather),
    Case::new("in-place/all-to-all", 1, all_to_all),
    Case::new("in-place/reductions", 1, reductions),
    Case::new("in-place/scatter-and-gather-of-world", 1, scatter_and_gather).of_world(),
    Case::new("in-place/all-gather-of-world", 1, all_gather).of_world(),
    Case::new("in-place/all-to-all-of-world", 1, all_to_all).of_world(),
    Case::new("in-place/reductions-of-world", 1, reductions).of_world(),
    Case::new("in-place/by-every-algorithm-for-unequal-blocks", 1, by_every_algorithm),
    Case::new("in-place/what-does-not-fit-is-refused", 1, refused::lengths),
    Case::new("in-place/one-alone-that-is-refused-does-not-stay-behind", 2, refused::one_alone),
    Case::new("in-place/store-and-forward", 1, refused::store_and_forward),
    Case::new("in-place/borrowed-scatter-and-gather", 1, borrowed::scatter_and_gather),
    Case::new("in-place/borrowed-exchanges", 1, borrowed::exchanges),
    Case::new("in-place/borrowed-reductions", 1, borrowed::reductions),
    Case::new("in-place/borrowed-many-at-once", 1, borrowed::many_at_once),
];

/// Lengths of blocks: of each kind short ones and long ones, some of them 0.
fn lists_of_counts(ranks: usize) -> Vec<Vec<usize>> {
    let long = if ranks <= 8 { 20_000 } else { 3000 };
    let mut lists: Vec<Vec<usize>> = [0, 1, 7, 1000, long].into_iter().map(|count| irregular(ranks, count)).collect();
    lists.push(vec![0; ranks]);
    lists.push((0..ranks).map(|rank| if rank == ranks - 1 { 33 } else { 0 }).collect());
    lists.extend([1, 13].map(|count| vec![count; ranks]));
    lists
}

/// Every rank; of many, some.
fn roots(comm: &Comm) -> Vec<Rank> {
    let size = comm.size();
    if size <= 8 { (0..size).collect() } else { vec![0, size / 2 - 1, size - 1] }
}

/// The length of the blocks, if they all have one.
fn uniform(counts: &[usize]) -> Option<usize> {
    counts.iter().all(|count| *count == counts[0]).then_some(counts[0])
}

/// Does a call in place on copies of `data`, once blocking and once borrowed in a scope, and compares the front of what
/// becomes of it; what lies behind may be anything.
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
    let data = if rank == root { blocks::<T>(root, counts) } else { untouched(counts[rank]) };
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
        want = everybody(counts);
        let mine = std::mem::replace(&mut data, untouched(want.len()));
        data[range_of(counts, rank)].copy_from_slice(&mine);
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

fn all_gatherv<T: Element>(comm: &Comm, counts: &[usize]) -> Outcome {
    let rank = comm.rank();
    let want = everybody::<T>(counts);
    let mut data = untouched(want.len());
    data[range_of(counts, rank)].copy_from_slice(&want[range_of(counts, rank)]);
    let given = (&data[..], &want[..]);
    if uniform(counts).is_some() {
        both(comm, "all_gather", given, |d| comm.all_gather_in_place(d), |s, d| s.iall_gather_in_place(d))?;
    }
    both(
        comm,
        "all_gatherv",
        given,
        |d| comm.all_gatherv_in_place(d, counts),
        |s, d| s.iall_gatherv_in_place(d, counts),
    )
}

fn reduce_scatterv<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, counts: &[usize]) -> Outcome {
    let (rank, all) = (comm.rank(), counts.iter().sum());
    let data = fold.data(rank, all);
    let result = fold.result(0..comm.size(), all);
    let given = (&data[..], &result[range_of(counts, rank)]);
    let op = fold.operator;
    if uniform(counts).is_some() {
        let call = |d: &mut [T]| comm.reduce_scatter_in_place(d, op());
        both(comm, "reduce_scatter", given, call, |s, d| s.ireduce_scatter_in_place(d, op()))?;
    }
    let call = |d: &mut [T]| comm.reduce_scatterv_in_place(d, counts, op());
    both(comm, "reduce_scatterv", given, call, |s, d| s.ireduce_scatterv_in_place(d, counts, op()))
}

fn scatter_and_gather(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for counts in lists_of_counts(comm.size()) {
            scatter::<u64>(comm, &counts, root)?;
            gather::<u64>(comm, &counts, root)?;
        }
        scatter::<Particle>(comm, &irregular(comm.size(), 9), root)?;
        gather::<Particle>(comm, &irregular(comm.size(), 9), root)?;
    }
    Ok(())
}

fn all_gather(comm: &Comm) -> Outcome {
    for counts in lists_of_counts(comm.size()) {
        all_gatherv::<u64>(comm, &counts)?;
        all_gatherv::<u8>(comm, &counts)?;
        all_gatherv::<Particle>(comm, &counts)?;
    }
    Ok(())
}

/// How much two ranks have for each other.
fn between(one: Rank, other: Rank, count: usize) -> usize {
    if (one + other) % 3 == 1 { 0 } else { count * (one * other % 2) + one + other }
}

/// What a rank has for each, and what each has for it: as long, and different.
fn exchanged<T: Element>(rank: Rank, counts: &[usize]) -> (Vec<T>, Vec<T>) {
    let got = counts.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
    (blocks(rank, counts), got)
}

fn all_to_all(comm: &Comm) -> Outcome {
    for count in [0, 1, 7, 1000, 20_000] {
        let counts: Vec<usize> = (0..comm.size()).map(|other| between(comm.rank(), other, count)).collect();
        let (data, want) = exchanged::<u64>(comm.rank(), &counts);
        let call = |d: &mut [u64]| comm.all_to_allv_in_place(d, &counts);
        both(comm, "all_to_allv", (&data, &want), call, |s, d| s.iall_to_allv_in_place(d, &counts))?;
        let (data, want) = exchanged::<Particle>(comm.rank(), &vec![count / 10; comm.size()]);
        let call = |d: &mut [Particle]| comm.all_to_all_in_place(d);
        both(comm, "all_to_all", (&data, &want), call, |s, d| s.iall_to_all_in_place(d))?;
    }
    Ok(())
}

/// The operations that combine vectors.
fn combine<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let (rank, size, op) = (comm.rank(), comm.size(), fold.operator);
    let data = fold.data(rank, count);
    let all = fold.result(0..size, count);
    for root in roots(comm) {
        let given = (&data[..], if rank == root { &all[..] } else { &data[..] });
        let call = |d: &mut [T]| comm.reduce_in_place(d, op(), root);
        both(comm, "reduce", given, call, |s, d| s.ireduce_in_place(d, op(), root))?;
    }
    let call = |d: &mut [T]| comm.all_reduce_in_place(d, op());
    both(comm, "all_reduce", (&data, &all), call, |s, d| s.iall_reduce_in_place(d, op()))?;
    let call = |d: &mut [T]| comm.scan_in_place(d, op());
    both(comm, "scan", (&data, &fold.result(0..rank + 1, count)), call, |s, d| s.iscan_in_place(d, op()))?;
    // Rank 0 keeps what it has.
    let before = if rank == 0 { data.clone() } else { fold.result(0..rank, count) };
    let call = |d: &mut [T]| comm.exscan_in_place(d, op());
    both(comm, "exscan", (&data, &before), call, |s, d| s.iexscan_in_place(d, op()))
}

fn reductions(comm: &Comm) -> Outcome {
    for counts in lists_of_counts(comm.size()) {
        reduce_scatterv(comm, &SUM, &counts)?;
        reduce_scatterv(comm, &MAPS, &counts)?;
    }
    for count in [0, 1, 7, 1000, 30_000] {
        combine(comm, &SUM, count)?;
        combine(comm, &MAPS, count)?;
    }
    Ok(())
}

/// Those that the table says are for blocks of unequal lengths in place.
fn by_every_algorithm(comm: &Comm) -> Outcome {
    let flat = Network::flat(comm.size() as u32);
    let counts = irregular(comm.size(), 7);
    let last = comm.size() - 1;
    let mut tried = 0;
    for operation in
        [Operation::Scatter { root: 0 }, Operation::Gather { root: 0 }, Operation::Allgather, Operation::ReduceScatter]
    {
        for algorithm in registry::all().iter().filter(|algorithm| algorithm.operation() == operation.name()) {
            let mut request = registry::Request::new(operation, &flat);
            (request.uniform, request.in_place, request.commutative) = (false, true, true);
            if algorithm.applies(&request).is_err() {
                continue;
            }
            tried += 1;
            request.commutative = false;
            let ordered = algorithm.applies(&request).is_ok();
            let comm = &comm.using(&algorithm.id)?;
            let outcome = match operation {
                Operation::Scatter { .. } => scatter::<u64>(comm, &counts, last),
                Operation::Gather { .. } => gather::<u64>(comm, &counts, last),
                Operation::Allgather => all_gatherv::<u64>(comm, &counts),
                _ if ordered => reduce_scatterv(comm, &MAPS, &counts),
                _ => reduce_scatterv(comm, &SUM, &counts),
            };
            outcome.map_err(|failure| failure.during(&algorithm.id))?;
        }
    }
    check!(tried >= 10, "only {tried} algorithms were tried");
    Ok(())
}
