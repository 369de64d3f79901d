//! Every collective operation as it is chosen by itself, with all kinds of data, compared with a plain reference.

use treepie::{Comm, Max, Min, Rank, Reduction, Xor};

use crate::calls::{self, Operand, irregular};
use crate::check::Outcome;
use crate::folds::{FLOATS, Fold, GREATEST, LEAST, MAPS, SUM, TRIPLES};
use crate::payload::{Element, Particle};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("collectives/bcast-from-every-root", 1, bcast),
    Case::new("collectives/scatter-from-every-root", 1, scatter),
    Case::new("collectives/gather-to-every-root", 1, gather),
    Case::new("collectives/all-gather", 1, all_gather),
    Case::new("collectives/all-to-all", 1, all_to_all),
    Case::new("collectives/reduce-to-every-root", 1, reduce),
    Case::new("collectives/all-reduce", 1, all_reduce),
    Case::new("collectives/reduce-scatter", 1, reduce_scatter),
    Case::new("collectives/scan-and-exscan", 1, scan),
    Case::new("collectives/all-kinds-of-elements", 1, all_kinds_of_elements),
    Case::new("collectives/all-kinds-of-operators", 1, all_kinds_of_operators),
    Case::new("collectives/long-blocks", 1, long_blocks),
    Case::new("collectives/long-blocks-are-combined-in-order", 1, long_blocks_in_order),
];

const COUNTS: [usize; 4] = [0, 1, 7, 1000];

/// Every rank; of many, some.
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
            calls::scatterv::<u64>(comm, &irregular(comm.size(), count), root)?;
        }
    }
    Ok(())
}

pub(crate) fn gather(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for count in COUNTS {
            calls::gather::<u64>(comm, count, root)?;
            calls::gather_in_place::<u64>(comm, count, root)?;
            calls::gatherv::<u64>(comm, &irregular(comm.size(), count), root)?;
        }
    }
    Ok(())
}

pub(crate) fn all_gather(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::all_gather::<u64>(comm, count)?;
        calls::all_gather_in_place::<u64>(comm, count)?;
        calls::all_gatherv::<u64>(comm, &irregular(comm.size(), count))?;
    }
    calls::all_gatherv::<u64>(comm, &vec![0; comm.size()])
}

pub(crate) fn all_to_all(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::all_to_all::<u64>(comm, count)?;
        calls::all_to_allv::<u64>(comm, count)?;
    }
    Ok(())
}

pub(crate) fn reduce(comm: &Comm) -> Outcome {
    for root in roots(comm) {
        for count in COUNTS {
            calls::reduce(comm, &SUM, count, root)?;
            calls::reduce(comm, &MAPS, count, root)?;
            calls::reduce_in_place(comm, &SUM, count, root)?;
            calls::reduce_in_place(comm, &MAPS, count, root)?;
        }
    }
    Ok(())
}

pub(crate) fn all_reduce(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::all_reduce(comm, &SUM, count)?;
        calls::all_reduce(comm, &MAPS, count)?;
        calls::all_reduce_in_place(comm, &SUM, count)?;
        calls::all_reduce_in_place(comm, &MAPS, count)?;
    }
    Ok(())
}

pub(crate) fn reduce_scatter(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::reduce_scatter(comm, &SUM, count)?;
        calls::reduce_scatter(comm, &MAPS, count)?;
        calls::reduce_scatter_in_place(comm, &SUM, count)?;
        calls::reduce_scatter_in_place(comm, &MAPS, count)?;
        calls::reduce_scatterv(comm, &SUM, &irregular(comm.size(), count))?;
        calls::reduce_scatterv(comm, &MAPS, &irregular(comm.size(), count))?;
    }
    Ok(())
}

pub(crate) fn scan(comm: &Comm) -> Outcome {
    for count in COUNTS {
        calls::scan(comm, &SUM, count)?;
        calls::scan(comm, &MAPS, count)?;
        calls::scan_in_place(comm, &MAPS, count)?;
        calls::exscan(comm, &SUM, count)?;
        calls::exscan(comm, &MAPS, count)?;
        calls::exscan_in_place(comm, &MAPS, count)?;
    }
    Ok(())
}

/// All operations that only move data.
pub(crate) fn moves<T: Element>(comm: &Comm, count: usize) -> Outcome {
    let last = comm.size() - 1;
    calls::bcast::<T>(comm, count, last)?;
    calls::scatter::<T>(comm, count, last)?;
    calls::scatterv::<T>(comm, &irregular(comm.size(), count), 0)?;
    calls::gather::<T>(comm, count, last)?;
    calls::gatherv::<T>(comm, &irregular(comm.size(), count), 0)?;
    calls::all_gather::<T>(comm, count)?;
    calls::all_gather_in_place::<T>(comm, count)?;
    calls::all_gatherv::<T>(comm, &irregular(comm.size(), count))?;
    calls::all_to_all::<T>(comm, count)?;
    calls::all_to_allv::<T>(comm, count)
}

pub(crate) fn all_kinds_of_elements(comm: &Comm) -> Outcome {
    for count in [1, 13] {
        moves::<u8>(comm, count)?;
        moves::<u16>(comm, count)?;
        moves::<f64>(comm, count)?;
        moves::<[i32; 3]>(comm, count)?;
        moves::<Particle>(comm, count)?;
    }
    Ok(())
}

/// All operations that combine.
pub(crate) fn combines<T: Operand, R: Reduction<T>>(comm: &Comm, fold: &Fold<T, R>, count: usize) -> Outcome {
    let last = comm.size() - 1;
    calls::reduce(comm, fold, count, last)?;
    calls::reduce_in_place(comm, fold, count, last)?;
    calls::all_reduce(comm, fold, count)?;
    calls::all_reduce_in_place(comm, fold, count)?;
    calls::reduce_scatter(comm, fold, count)?;
    calls::reduce_scatter_in_place(comm, fold, count)?;
    calls::reduce_scatterv(comm, fold, &irregular(comm.size(), count))?;
    calls::scan(comm, fold, count)?;
    calls::scan_in_place(comm, fold, count)?;
    calls::exscan(comm, fold, count)?;
    calls::exscan_in_place(comm, fold, count)
}

pub(crate) fn all_kinds_of_operators(comm: &Comm) -> Outcome {
    for count in [1, 13, 300] {
        combines(comm, &Fold { operator: || treepie::Sum, of: u8::of }, count)?;
        combines(comm, &Fold { operator: || Min, of: u64::of }, count)?;
        combines(comm, &Fold { operator: || Max, of: f64::of }, count)?;
        combines(comm, &Fold { operator: || Xor, of: u16::of }, count)?;
        combines(comm, &FLOATS, count)?;
        combines(comm, &LEAST, count)?;
        combines(comm, &GREATEST, count)?;
        combines(comm, &TRIPLES, count)?;
    }
    Ok(())
}

/// Bytes of a block that is no short message anywhere.
fn long(comm: &Comm) -> usize {
    if comm.size() <= 8 { 300_000 } else { 70_000 }
}

pub(crate) fn long_blocks(comm: &Comm) -> Outcome {
    moves::<u8>(comm, long(comm))?;
    moves::<Particle>(comm, long(comm) / size_of::<Particle>())?;
    calls::bcast::<u8>(comm, 5_000_001, 0)
}

pub(crate) fn long_blocks_in_order(comm: &Comm) -> Outcome {
    combines(comm, &SUM, long(comm) / 8)?;
    combines(comm, &MAPS, long(comm) / 16)
}
