//! Every collective operation with automatic selection and all kinds of data, compared with a plain reference.

use treepie::{Comm, Max, Min, Rank, Reduction, Xor};

use crate::calls::{self, Operand, irregular_counts};
use crate::check::Outcome;
use crate::payload::{Element, Particle};
use crate::reduction_cases::{AFFINE_MAPS, FLOATS, MAX_LOC, MIN_LOC, ReductionCase, SUM, TRIPLES};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("collectives/bcast-from-every-root", 1, bcast),
    Case::new("collectives/scatter-from-every-root", 1, scatter),
    Case::new("collectives/gather-to-every-root", 1, gather),
    Case::new("collectives/allgather", 1, allgather),
    Case::new("collectives/alltoall", 1, alltoall),
    Case::new("collectives/reduce-to-every-root", 1, reduce),
    Case::new("collectives/allreduce", 1, allreduce),
    Case::new("collectives/reduce-scatter", 1, reduce_scatter),
    Case::new("collectives/scan-and-exscan", 1, scan),
    Case::new("collectives/all-kinds-of-elements", 1, all_kinds_of_elements),
    Case::new("collectives/all-kinds-of-operators", 1, all_kinds_of_operators),
    Case::new("collectives/long-blocks", 1, long_blocks),
    Case::new("collectives/long-blocks-are-combined-in-order", 1, long_blocks_in_order),
];

const COUNTS: [usize; 4] = [0, 1, 7, 1000];

/// Every rank, or three if there are many.
fn roots(comm: &Comm) -> Vec<Rank> {
    let size = comm.size();
    if size <= 8 { (0..size).collect() } else { vec![0, size / 2 - 1, size - 1] }
}

pub(crate) fn bcast(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        COUNTS.into_iter().try_for_each(|count| calls::bcast::<u64>(comm, count, root))?;
    }
    Ok(())
}

pub(crate) fn scatter(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for count in COUNTS {
            calls::scatter::<u64>(comm, count, root)?;
            calls::scatter_in_place::<u64>(comm, count, root)?;
            calls::scatterv::<u64>(comm, &irregular_counts(comm.size(), count), root)?;
        }
    }
    Ok(())
}

pub(crate) fn gather(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for count in COUNTS {
            calls::gather::<u64>(comm, count, root)?;
            calls::gather_in_place::<u64>(comm, count, root)?;
            calls::gatherv::<u64>(comm, &irregular_counts(comm.size(), count), root)?;
        }
    }
    Ok(())
}

pub(crate) fn allgather(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::allgather::<u64>(comm, count)?;
        calls::allgather_in_place::<u64>(comm, count)?;
        calls::allgatherv::<u64>(comm, &irregular_counts(comm.size(), count))?;
    }
    calls::allgatherv::<u64>(comm, &vec![0; comm.size()])
}

pub(crate) fn alltoall(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::alltoall::<u64>(comm, count)?;
        calls::alltoallv::<u64>(comm, count)?;
    }
    Ok(())
}

pub(crate) fn reduce(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for count in COUNTS {
            calls::reduce(comm, &SUM, count, root)?;
            calls::reduce(comm, &AFFINE_MAPS, count, root)?;
            calls::reduce_in_place(comm, &SUM, count, root)?;
            calls::reduce_in_place(comm, &AFFINE_MAPS, count, root)?;
        }
    }
    Ok(())
}

pub(crate) fn allreduce(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::allreduce(comm, &SUM, count)?;
        calls::allreduce(comm, &AFFINE_MAPS, count)?;
        calls::allreduce_in_place(comm, &SUM, count)?;
        calls::allreduce_in_place(comm, &AFFINE_MAPS, count)?;
    }
    Ok(())
}

pub(crate) fn reduce_scatter(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::reduce_scatter_block(comm, &SUM, count)?;
        calls::reduce_scatter_block(comm, &AFFINE_MAPS, count)?;
        calls::reduce_scatter_block_in_place(comm, &SUM, count)?;
        calls::reduce_scatter_block_in_place(comm, &AFFINE_MAPS, count)?;
        calls::reduce_scatter(comm, &SUM, &irregular_counts(comm.size(), count))?;
        calls::reduce_scatter(comm, &AFFINE_MAPS, &irregular_counts(comm.size(), count))?;
    }
    Ok(())
}

pub(crate) fn scan(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::scan(comm, &SUM, count)?;
        calls::scan(comm, &AFFINE_MAPS, count)?;
        calls::scan_in_place(comm, &AFFINE_MAPS, count)?;
        calls::exscan(comm, &SUM, count)?;
        calls::exscan(comm, &AFFINE_MAPS, count)?;
        calls::exscan_in_place(comm, &AFFINE_MAPS, count)?;
    }
    Ok(())
}

/// All operations that only move data.
pub(crate) fn check_data_movement<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let last = comm.size() - 1;
    calls::bcast::<T>(comm, count, last)?;
    calls::scatter::<T>(comm, count, last)?;
    calls::scatterv::<T>(comm, &irregular_counts(comm.size(), count), 0)?;
    calls::gather::<T>(comm, count, last)?;
    calls::gatherv::<T>(comm, &irregular_counts(comm.size(), count), 0)?;
    calls::allgather::<T>(comm, count)?;
    calls::allgather_in_place::<T>(comm, count)?;
    calls::allgatherv::<T>(comm, &irregular_counts(comm.size(), count))?;
    calls::alltoall::<T>(comm, count)?;
    calls::alltoallv::<T>(comm, count)
}

pub(crate) fn all_kinds_of_elements(comm: &Comm) -> Outcome {
    for count in [1, 13] {
        check_data_movement::<u8>(comm, count)?;
        check_data_movement::<u16>(comm, count)?;
        check_data_movement::<f64>(comm, count)?;
        check_data_movement::<[i32; 3]>(comm, count)?;
        check_data_movement::<Particle>(comm, count)?;
    }
    Ok(())
}

/// All reduction operations.
pub(crate) fn check_reductions<T: Operand, R: Reduction<T>>(
    comm: &Comm,
    case: &ReductionCase<T, R>,
    count: usize,
) -> Outcome {
    let last = comm.size() - 1;
    calls::reduce(comm, case, count, last)?;
    calls::reduce_in_place(comm, case, count, last)?;
    calls::allreduce(comm, case, count)?;
    calls::allreduce_in_place(comm, case, count)?;
    calls::reduce_scatter_block(comm, case, count)?;
    calls::reduce_scatter_block_in_place(comm, case, count)?;
    calls::reduce_scatter(comm, case, &irregular_counts(comm.size(), count))?;
    calls::scan(comm, case, count)?;
    calls::scan_in_place(comm, case, count)?;
    calls::exscan(comm, case, count)?;
    calls::exscan_in_place(comm, case, count)
}

pub(crate) fn all_kinds_of_operators(comm: &Comm) -> Outcome {
    for count in [1, 13, 300] {
        check_reductions(comm, &ReductionCase { operator: || treepie::Sum, element: u8::from_number }, count)?;
        check_reductions(comm, &ReductionCase { operator: || Min, element: u64::from_number }, count)?;
        check_reductions(comm, &ReductionCase { operator: || Max, element: f64::from_number }, count)?;
        check_reductions(comm, &ReductionCase { operator: || Xor, element: u16::from_number }, count)?;
        check_reductions(comm, &FLOATS, count)?;
        check_reductions(comm, &MIN_LOC, count)?;
        check_reductions(comm, &MAX_LOC, count)?;
        check_reductions(comm, &TRIPLES, count)?;
    }
    Ok(())
}

/// Bytes of a block above the eager limit of every engine.
fn above_eager_limit(comm: &Comm) -> usize {
    if comm.size() <= 8 { 300_000 } else { 70_000 }
}

pub(crate) fn long_blocks(comm: &Comm) -> Outcome {
    check_data_movement::<u8>(comm, above_eager_limit(comm))?;
    check_data_movement::<Particle>(comm, above_eager_limit(comm) / size_of::<Particle>())?;
    calls::bcast::<u8>(comm, 5_000_001, 0)
}

pub(crate) fn long_blocks_in_order(comm: &Comm) -> Outcome {
    check_reductions(comm, &SUM, above_eager_limit(comm) / 8)?;
    check_reductions(comm, &AFFINE_MAPS, above_eager_limit(comm) / 16)
}
