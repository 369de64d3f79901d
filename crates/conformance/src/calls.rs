//! Each collective operation called in each of its forms, and what comes out compared with what must.

use treepie::{Comm, Pod, Rank, Reduction};

use crate::check::{Outcome, check_eq};
use crate::folds::Fold;
use crate::payload::{Element, series};

/// What a rank has for another one.
pub(crate) fn block<T: Element>(from: Rank, to: Rank, len: usize) -> Vec<T> {
    series(from * 64 + to, len)
}

/// What a rank has for each of all.
pub(crate) fn blocks<T: Element>(from: Rank, counts: &[usize]) -> Vec<T> {
    counts.iter().enumerate().flat_map(|(to, count)| block(from, to, *count)).collect()
}

/// What everybody has for itself, one after the other.
pub(crate) fn everybody<T: Element>(counts: &[usize]) -> Vec<T> {
    counts.iter().enumerate().flat_map(|(rank, count)| block(rank, rank, *count)).collect()
}

/// Where the block of a rank lies.
pub(crate) fn range_of(counts: &[usize], rank: Rank) -> std::ops::Range<usize> {
    let begin = counts[..rank].iter().sum();
    begin..begin + counts[rank]
}

/// Lengths of blocks that are all different, some of them 0.
pub(crate) fn irregular(ranks: usize, count: usize) -> Vec<usize> {
    (0..ranks).map(|rank| if rank % 3 == 1 { 0 } else { count + 5 * rank }).collect()
}

/// As a vector that shows what was not written.
pub(crate) fn untouched<T: Pod>(len: usize) -> Vec<T> {
    let mut data = vec![T::zeroed(); len];
    bytemuck::cast_slice_mut::<T, u8>(&mut data).fill(0xa5);
    data
}

pub(crate) fn bcast<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let want = block::<T>(root, root, count);
    let mine = || if comm.rank() == root { want.clone() } else { untouched(count) };
    let mut data = mine();
    comm.bcast(&mut data, root)?;
    check_eq!(data, want, "bcast of {count} from {root}");
    check_eq!(comm.ibcast(mine(), root)?.wait()?, want, "ibcast of {count} from {root}");
    Ok(())
}

pub(crate) fn scatter<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let want = block::<T>(root, rank, count);
    let data = || if rank == root { blocks::<T>(root, &all) } else { Vec::new() };
    let mut into = untouched(count);
    comm.scatter(&data(), &mut into, root)?;
    check_eq!(into, want, "scatter of {count} from {root}");
    check_eq!(comm.iscatter(data(), count, root)?.wait()?, want, "iscatter of {count} from {root}");
    Ok(())
}

pub(crate) fn scatter_in_place<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let mut data = if rank == root { blocks::<T>(root, &all) } else { untouched(count) };
    let want = if rank == root { data.clone() } else { block(root, rank, count) };
    comm.scatter_in_place(&mut data, root)?;
    check_eq!(data, want, "scatter_in_place of {count} from {root}");
    Ok(())
}

pub(crate) fn scatterv<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let want = block::<T>(root, rank, counts[rank]);
    let data = || if rank == root { blocks::<T>(root, counts) } else { Vec::new() };
    let mut into = untouched(counts[rank]);
    comm.scatterv(&data(), counts, &mut into, root)?;
    check_eq!(into, want, "scatterv of {counts:?} from {root}");
    check_eq!(comm.iscatterv(data(), counts, root)?.wait()?, want, "iscatterv of {counts:?} from {root}");
    Ok(())
}

pub(crate) fn gather<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let want = if rank == root { everybody::<T>(&all) } else { Vec::new() };
    let data = block::<T>(rank, rank, count);
    let mut into = untouched(want.len());
    comm.gather(&data, &mut into, root)?;
    check_eq!(into, want, "gather of {count} to {root}");
    check_eq!(comm.igather(data, root)?.wait()?, want, "igather of {count} to {root}");
    Ok(())
}

pub(crate) fn gather_in_place<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let mine = block::<T>(rank, rank, count);
    if rank != root {
        let mut data = mine.clone();
        comm.gather_in_place(&mut data, root)?;
        check_eq!(data, mine, "what was given to gather_in_place of {count} to {root}");
        return Ok(());
    }
    let mut data = untouched(count * all.len());
    data[range_of(&all, rank)].copy_from_slice(&mine);
    comm.gather_in_place(&mut data, root)?;
    check_eq!(data, everybody::<T>(&all), "gather_in_place of {count} to {root}");
    Ok(())
}

pub(crate) fn gatherv<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let want = if rank == root { everybody::<T>(counts) } else { Vec::new() };
    let data = block::<T>(rank, rank, counts[rank]);
    let mut into = untouched(want.len());
    comm.gatherv(&data, counts, &mut into, root)?;
    check_eq!(into, want, "gatherv of {counts:?} to {root}");
    check_eq!(comm.igatherv(data, counts, root)?.wait()?, want, "igatherv of {counts:?} to {root}");
    Ok(())
}

pub(crate) fn all_gather<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let (data, want) = (block::<T>(rank, rank, count), everybody::<T>(&all));
    let mut into = untouched(want.len());
    comm.all_gather_into(&data, &mut into)?;
    check_eq!(into, want, "all_gather_into of {count}");
    check_eq!(comm.all_gather(&data)?, want, "all_gather of {count}");
    check_eq!(comm.iall_gather(data)?.wait()?, want, "iall_gather of {count}");
    Ok(())
}

pub(crate) fn all_gather_in_place<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let mut data = untouched(count * all.len());
    data[range_of(&all, rank)].copy_from_slice(&block::<T>(rank, rank, count));
    comm.all_gather_in_place(&mut data)?;
    check_eq!(data, everybody::<T>(&all), "all_gather_in_place of {count}");
    Ok(())
}

pub(crate) fn all_gatherv<T: Element>(comm: &Comm, counts: &[usize]) -> Outcome {
    let rank = comm.rank();
    let (data, want) = (block::<T>(rank, rank, counts[rank]), everybody::<T>(counts));
    let mut into = untouched(want.len());
    comm.all_gatherv(&data, counts, &mut into)?;
    check_eq!(into, want, "all_gatherv of {counts:?}");
    check_eq!(comm.iall_gatherv(data, counts)?.wait()?, want, "iall_gatherv of {counts:?}");
    Ok(())
}

pub(crate) fn all_to_all<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let data = blocks::<T>(rank, &all);
    let want: Vec<T> = (0..all.len()).flat_map(|from| block(from, rank, count)).collect();
    let mut into = untouched(want.len());
    comm.all_to_all(&data, &mut into)?;
    check_eq!(into, want, "all_to_all of {count}");
    check_eq!(comm.iall_to_all(data.clone())?.wait()?, want, "iall_to_all of {count}");
    let mut both = data;
    comm.all_to_all_in_place(&mut both)?;
    check_eq!(both, want, "all_to_all_in_place of {count}");
    Ok(())
}

/// Each pair of ranks has a length of its own, and some have nothing for each other.
pub(crate) fn all_to_allv<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let len = |from: usize, to: usize| if (from + 2 * to) % 3 == 1 { 0 } else { count * (from % 2) + 3 * to + from };
    let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
    let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
    let data = blocks::<T>(rank, &to);
    let want: Vec<T> = from.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
    let mut into = untouched(want.len());
    comm.all_to_allv(&data, &to, &mut into, &from)?;
    check_eq!(into, want, "all_to_allv to {to:?}, from {from:?}");
    check_eq!(comm.iall_to_allv(data, &to, &from)?.wait()?, want, "iall_to_allv to {to:?}, from {from:?}");
    Ok(())
}

/// Elements that are combined.
pub(crate) trait Operand: Pod + PartialEq + std::fmt::Debug {}
impl<T: Pod + PartialEq + std::fmt::Debug> Operand for T {}

pub(crate) fn reduce<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize, root: Rank) -> Outcome {
    let is_root = comm.rank() == root;
    let want = if is_root { fold.result(0..comm.size(), count) } else { Vec::new() };
    let data = fold.data(comm.rank(), count);
    let mut into = untouched(want.len());
    comm.reduce(&data, &mut into, (fold.operator)(), root)?;
    check_eq!(into, want, "reduce of {count} to {root}");
    check_eq!(comm.ireduce(data, (fold.operator)(), root)?.wait()?, want, "ireduce of {count} to {root}");
    Ok(())
}

pub(crate) fn reduce_in_place<T: Operand, R: Reduction<T>>(
    comm: &Comm,
    fold: &Fold<T, R>,
    count: usize,
    root: Rank,
) -> Outcome {
    let mut data = fold.data(comm.rank(), count);
    let want = if comm.rank() == root { fold.result(0..comm.size(), count) } else { data.clone() };
    comm.reduce_in_place(&mut data, (fold.operator)(), root)?;
    check_eq!(data, want, "reduce_in_place of {count} to {root}");
    Ok(())
}

pub(crate) fn all_reduce<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let want = fold.result(0..comm.size(), count);
    let data = fold.data(comm.rank(), count);
    let mut into = untouched(count);
    comm.all_reduce_into(&data, &mut into, (fold.operator)())?;
    check_eq!(into, want, "all_reduce_into of {count}");
    check_eq!(comm.iall_reduce(data, (fold.operator)())?.wait()?, want, "iall_reduce of {count}");
    Ok(())
}

pub(crate) fn all_reduce_in_place<T: Operand, R: Reduction<T>>(
    comm: &Comm,
    fold: &Fold<T, R>,
    count: usize,
) -> Outcome {
    let want = fold.result(0..comm.size(), count);
    let mut data = fold.data(comm.rank(), count);
    check_eq!(comm.all_reduce(&data, (fold.operator)())?, want, "all_reduce of {count}");
    comm.all_reduce_in_place(&mut data, (fold.operator)())?;
    check_eq!(data, want, "all_reduce_in_place of {count}");
    Ok(())
}

pub(crate) fn reduce_scatter<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let want = fold.result(0..size, count * size)[rank * count..][..count].to_vec();
    let data = fold.data(rank, count * size);
    let mut into = untouched(count);
    comm.reduce_scatter(&data, &mut into, (fold.operator)())?;
    check_eq!(into, want, "reduce_scatter of {count}");
    check_eq!(comm.ireduce_scatter(data, (fold.operator)())?.wait()?, want, "ireduce_scatter of {count}");
    Ok(())
}

pub(crate) fn reduce_scatter_in_place<T: Operand, R: Reduction<T>>(
    comm: &Comm,
    fold: &Fold<T, R>,
    count: usize,
) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let mut data = fold.data(rank, count * size);
    comm.reduce_scatter_in_place(&mut data, (fold.operator)())?;
    let want = &fold.result(0..size, count * size)[rank * count..][..count];
    check_eq!(&data[..count], want, "reduce_scatter_in_place of {count}");
    Ok(())
}

pub(crate) fn reduce_scatterv<T: Operand, R: Reduction<T>>(
    comm: &Comm,
    fold: &Fold<T, R>,
    counts: &[usize],
) -> Outcome {
    let (rank, all) = (comm.rank(), counts.iter().sum());
    let want = fold.result(0..comm.size(), all)[range_of(counts, rank)].to_vec();
    let data = fold.data(rank, all);
    let mut into = untouched(counts[rank]);
    comm.reduce_scatterv(&data, counts, &mut into, (fold.operator)())?;
    check_eq!(into, want, "reduce_scatterv of {counts:?}");
    let later = comm.ireduce_scatterv(data, counts, (fold.operator)())?;
    check_eq!(later.wait()?, want, "ireduce_scatterv of {counts:?}");
    Ok(())
}

pub(crate) fn scan<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let want = fold.result(0..comm.rank() + 1, count);
    let data = fold.data(comm.rank(), count);
    let mut into = untouched(count);
    comm.scan(&data, &mut into, (fold.operator)())?;
    check_eq!(into, want, "scan of {count}");
    check_eq!(comm.iscan(data, (fold.operator)())?.wait()?, want, "iscan of {count}");
    Ok(())
}

pub(crate) fn scan_in_place<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let mut data = fold.data(comm.rank(), count);
    comm.scan_in_place(&mut data, (fold.operator)())?;
    check_eq!(data, fold.result(0..comm.rank() + 1, count), "scan_in_place of {count}");
    Ok(())
}

pub(crate) fn exscan<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let first = comm.rank() == 0;
    let data = fold.data(comm.rank(), count);
    let mut into = untouched(count);
    // Rank 0 keeps what it has, or gets zeros where there was nothing.
    let want = if first { into.clone() } else { fold.result(0..comm.rank(), count) };
    comm.exscan(&data, &mut into, (fold.operator)())?;
    check_eq!(bytemuck::cast_slice::<T, u8>(&into), bytemuck::cast_slice::<T, u8>(&want), "exscan of {count}");
    let want = if first { vec![T::zeroed(); count] } else { want };
    check_eq!(comm.iexscan(data, (fold.operator)())?.wait()?, want, "iexscan of {count}");
    Ok(())
}

pub(crate) fn exscan_in_place<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let mut data = fold.data(comm.rank(), count);
    let want = if comm.rank() == 0 { data.clone() } else { fold.result(0..comm.rank(), count) };
    comm.exscan_in_place(&mut data, (fold.operator)())?;
    check_eq!(data, want, "exscan_in_place of {count}");
    Ok(())
}
