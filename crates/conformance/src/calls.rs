//! Each collective operation in each of its forms (blocking, nonblocking, in place), compared with the expected result.

use treepie::{Comm, Pod, Rank, Reduction};

use crate::check::{Outcome, check_eq};
use crate::payload::{Element, series};
use crate::reduction_cases::ReductionCase;

/// The block that rank `from` sends to rank `to`.
pub(crate) fn block<T: Element>(from: Rank, to: Rank, len: usize) -> Vec<T> {
    series(from * 64 + to, len)
}

/// The blocks that rank `from` sends to all ranks, concatenated.
pub(crate) fn blocks<T: Element>(from: Rank, counts: &[usize]) -> Vec<T> {
    counts.iter().enumerate().flat_map(|(to, count)| block(from, to, *count)).collect()
}

/// The blocks of all ranks to themselves, concatenated.
pub(crate) fn all_blocks<T: Element>(counts: &[usize]) -> Vec<T> {
    counts.iter().enumerate().flat_map(|(rank, count)| block(rank, rank, *count)).collect()
}

/// The range of a rank's block in a buffer of all blocks.
pub(crate) fn block_range(counts: &[usize], rank: Rank) -> std::ops::Range<usize> {
    let begin = counts[..rank].iter().sum();
    begin..begin + counts[rank]
}

/// Lengths of blocks that are all different, some of them 0.
pub(crate) fn irregular_counts(ranks: usize, count: usize) -> Vec<usize> {
    (0..ranks).map(|rank| if rank % 3 == 1 { 0 } else { count + 5 * rank }).collect()
}

/// A vector of poison bytes, which show what was not written.
pub(crate) fn poisoned<T: Pod>(len: usize) -> Vec<T> {
    let mut data = vec![T::zeroed(); len];
    bytemuck::cast_slice_mut::<T, u8>(&mut data).fill(0xa5);
    data
}

pub(crate) fn bcast<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let want = block::<T>(root, root, count);
    let input = || if comm.rank() == root { want.clone() } else { poisoned(count) };
    let mut data = input();
    comm.bcast(&mut data, root)?;
    check_eq!(data, want, "bcast of {count} from {root}");
    check_eq!(comm.ibcast(input(), root)?.wait()?, want, "ibcast of {count} from {root}");
    Ok(())
}

pub(crate) fn scatter<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let want = block::<T>(root, rank, count);
    let data = || if rank == root { blocks::<T>(root, &all) } else { Vec::new() };
    let mut into = poisoned(count);
    comm.scatter(&data(), &mut into, root)?;
    check_eq!(into, want, "scatter of {count} from {root}");
    check_eq!(comm.iscatter(data(), count, root)?.wait()?, want, "iscatter of {count} from {root}");
    Ok(())
}

pub(crate) fn scatter_in_place<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let mut data = if rank == root { blocks::<T>(root, &all) } else { poisoned(count) };
    let want = if rank == root { data.clone() } else { block(root, rank, count) };
    comm.scatter_in_place(&mut data, root)?;
    check_eq!(data, want, "scatter_in_place of {count} from {root}");
    Ok(())
}

pub(crate) fn scatterv<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let want = block::<T>(root, rank, counts[rank]);
    let data = || if rank == root { blocks::<T>(root, counts) } else { Vec::new() };
    let mut into = poisoned(counts[rank]);
    comm.scatterv(&data(), counts, &mut into, root)?;
    check_eq!(into, want, "scatterv of {counts:?} from {root}");
    check_eq!(comm.iscatterv(data(), counts, root)?.wait()?, want, "iscatterv of {counts:?} from {root}");
    Ok(())
}

pub(crate) fn gather<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let want = if rank == root { all_blocks::<T>(&all) } else { Vec::new() };
    let data = block::<T>(rank, rank, count);
    let mut into = poisoned(want.len());
    comm.gather(&data, &mut into, root)?;
    check_eq!(into, want, "gather of {count} to {root}");
    check_eq!(comm.igather(data, root)?.wait()?, want, "igather of {count} to {root}");
    Ok(())
}

pub(crate) fn gather_in_place<T: Element>(comm: &Comm, count: usize, root: Rank) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let contribution = block::<T>(rank, rank, count);
    if rank != root {
        let mut data = contribution.clone();
        comm.gather_in_place(&mut data, root)?;
        check_eq!(data, contribution, "input of gather_in_place of {count} to {root}");
        return Ok(());
    }
    let mut data = poisoned(count * all.len());
    data[block_range(&all, rank)].copy_from_slice(&contribution);
    comm.gather_in_place(&mut data, root)?;
    check_eq!(data, all_blocks::<T>(&all), "gather_in_place of {count} to {root}");
    Ok(())
}

pub(crate) fn gatherv<T: Element>(comm: &Comm, counts: &[usize], root: Rank) -> Outcome {
    let rank = comm.rank();
    let want = if rank == root { all_blocks::<T>(counts) } else { Vec::new() };
    let data = block::<T>(rank, rank, counts[rank]);
    let mut into = poisoned(want.len());
    comm.gatherv(&data, counts, &mut into, root)?;
    check_eq!(into, want, "gatherv of {counts:?} to {root}");
    check_eq!(comm.igatherv(data, counts, root)?.wait()?, want, "igatherv of {counts:?} to {root}");
    Ok(())
}

pub(crate) fn allgather<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let (data, want) = (block::<T>(rank, rank, count), all_blocks::<T>(&all));
    let mut into = poisoned(want.len());
    comm.allgather_into(&data, &mut into)?;
    check_eq!(into, want, "allgather_into of {count}");
    check_eq!(comm.allgather(&data)?, want, "allgather of {count}");
    check_eq!(comm.iallgather(data)?.wait()?, want, "iallgather of {count}");
    Ok(())
}

pub(crate) fn allgather_in_place<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let mut data = poisoned(count * all.len());
    data[block_range(&all, rank)].copy_from_slice(&block::<T>(rank, rank, count));
    comm.allgather_in_place(&mut data)?;
    check_eq!(data, all_blocks::<T>(&all), "allgather_in_place of {count}");
    Ok(())
}

pub(crate) fn allgatherv<T: Element>(comm: &Comm, counts: &[usize]) -> Outcome {
    let rank = comm.rank();
    let (data, want) = (block::<T>(rank, rank, counts[rank]), all_blocks::<T>(counts));
    let mut into = poisoned(want.len());
    comm.allgatherv(&data, counts, &mut into)?;
    check_eq!(into, want, "allgatherv of {counts:?}");
    check_eq!(comm.iallgatherv(data, counts)?.wait()?, want, "iallgatherv of {counts:?}");
    Ok(())
}

pub(crate) fn alltoall<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, all) = (comm.rank(), vec![count; comm.size()]);
    let data = blocks::<T>(rank, &all);
    let want: Vec<T> = (0..all.len()).flat_map(|from| block(from, rank, count)).collect();
    let mut into = poisoned(want.len());
    comm.alltoall(&data, &mut into)?;
    check_eq!(into, want, "alltoall of {count}");
    check_eq!(comm.ialltoall(data.clone())?.wait()?, want, "ialltoall of {count}");
    let mut both = data;
    comm.alltoall_in_place(&mut both)?;
    check_eq!(both, want, "alltoall_in_place of {count}");
    Ok(())
}

/// Each pair of ranks has its own length, for some 0.
pub(crate) fn alltoallv<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let len = |from: usize, to: usize| if (from + 2 * to) % 3 == 1 { 0 } else { count * (from % 2) + 3 * to + from };
    let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
    let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
    let data = blocks::<T>(rank, &to);
    let want: Vec<T> = from.iter().enumerate().flat_map(|(from, count)| block(from, rank, *count)).collect();
    let mut into = poisoned(want.len());
    comm.alltoallv(&data, &to, &mut into, &from)?;
    check_eq!(into, want, "alltoallv to {to:?}, from {from:?}");
    check_eq!(comm.ialltoallv(data, &to, &from)?.wait()?, want, "ialltoallv to {to:?}, from {from:?}");
    Ok(())
}

/// Elements of reductions.
pub(crate) trait Operand: Pod + Send + PartialEq + std::fmt::Debug {}
impl<T: Pod + Send + PartialEq + std::fmt::Debug> Operand for T {}

pub(crate) fn reduce<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
    root: Rank,
) -> Outcome {
    let is_root = comm.rank() == root;
    let want = if is_root { case.result(0..comm.size(), count) } else { Vec::new() };
    let data = case.contribution(comm.rank(), count);
    let mut into = poisoned(want.len());
    comm.reduce(&data, &mut into, (case.operator)(), root)?;
    check_eq!(into, want, "reduce of {count} to {root}");
    check_eq!(comm.ireduce(data, (case.operator)(), root)?.wait()?, want, "ireduce of {count} to {root}");
    Ok(())
}

pub(crate) fn reduce_in_place<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
    root: Rank,
) -> Outcome {
    let mut data = case.contribution(comm.rank(), count);
    let want = if comm.rank() == root { case.result(0..comm.size(), count) } else { data.clone() };
    comm.reduce_in_place(&mut data, (case.operator)(), root)?;
    check_eq!(data, want, "reduce_in_place of {count} to {root}");
    Ok(())
}

pub(crate) fn allreduce<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let want = case.result(0..comm.size(), count);
    let data = case.contribution(comm.rank(), count);
    let mut into = poisoned(count);
    comm.allreduce_into(&data, &mut into, (case.operator)())?;
    check_eq!(into, want, "allreduce_into of {count}");
    check_eq!(comm.iallreduce(data, (case.operator)())?.wait()?, want, "iallreduce of {count}");
    Ok(())
}

pub(crate) fn allreduce_in_place<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let want = case.result(0..comm.size(), count);
    let mut data = case.contribution(comm.rank(), count);
    check_eq!(comm.allreduce(&data, (case.operator)())?, want, "allreduce of {count}");
    comm.allreduce_in_place(&mut data, (case.operator)())?;
    check_eq!(data, want, "allreduce_in_place of {count}");
    Ok(())
}

pub(crate) fn reduce_scatter_block<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let want = case.result(0..size, count * size)[rank * count..][..count].to_vec();
    let data = case.contribution(rank, count * size);
    let mut into = poisoned(count);
    comm.reduce_scatter_block(&data, &mut into, (case.operator)())?;
    check_eq!(into, want, "reduce_scatter_block of {count}");
    check_eq!(comm.ireduce_scatter_block(data, (case.operator)())?.wait()?, want, "ireduce_scatter_block of {count}");
    Ok(())
}

pub(crate) fn reduce_scatter_block_in_place<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let mut data = case.contribution(rank, count * size);
    comm.reduce_scatter_block_in_place(&mut data, (case.operator)())?;
    let want = &case.result(0..size, count * size)[rank * count..][..count];
    check_eq!(&data[..count], want, "reduce_scatter_block_in_place of {count}");
    Ok(())
}

pub(crate) fn reduce_scatter<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    counts: &[usize],
) -> Outcome {
    let (rank, all) = (comm.rank(), counts.iter().sum());
    let want = case.result(0..comm.size(), all)[block_range(counts, rank)].to_vec();
    let data = case.contribution(rank, all);
    let mut into = poisoned(counts[rank]);
    comm.reduce_scatter(&data, counts, &mut into, (case.operator)())?;
    check_eq!(into, want, "reduce_scatter of {counts:?}");
    let request = comm.ireduce_scatter(data, counts, (case.operator)())?;
    check_eq!(request.wait()?, want, "ireduce_scatter of {counts:?}");
    Ok(())
}

pub(crate) fn scan<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let want = case.result(0..comm.rank() + 1, count);
    let data = case.contribution(comm.rank(), count);
    let mut into = poisoned(count);
    comm.scan(&data, &mut into, (case.operator)())?;
    check_eq!(into, want, "scan of {count}");
    check_eq!(comm.iscan(data, (case.operator)())?.wait()?, want, "iscan of {count}");
    Ok(())
}

pub(crate) fn scan_in_place<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let mut data = case.contribution(comm.rank(), count);
    comm.scan_in_place(&mut data, (case.operator)())?;
    check_eq!(data, case.result(0..comm.rank() + 1, count), "scan_in_place of {count}");
    Ok(())
}

pub(crate) fn exscan<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let first = comm.rank() == 0;
    let data = case.contribution(comm.rank(), count);
    let mut into = poisoned(count);
    // On rank 0 exscan leaves the buffer unchanged, and iexscan returns zeros.
    let want = if first { into.clone() } else { case.result(0..comm.rank(), count) };
    comm.exscan(&data, &mut into, (case.operator)())?;
    check_eq!(bytemuck::cast_slice::<T, u8>(&into), bytemuck::cast_slice::<T, u8>(&want), "exscan of {count}");
    let want = if first { vec![T::zeroed(); count] } else { want };
    check_eq!(comm.iexscan(data, (case.operator)())?.wait()?, want, "iexscan of {count}");
    Ok(())
}

pub(crate) fn exscan_in_place<T: Operand, R: Reduction<T> + 'static>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let mut data = case.contribution(comm.rank(), count);
    let want = if comm.rank() == 0 { data.clone() } else { case.result(0..comm.rank(), count) };
    comm.exscan_in_place(&mut data, (case.operator)())?;
    check_eq!(data, want, "exscan_in_place of {count}");
    Ok(())
}
