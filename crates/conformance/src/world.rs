//! Collective operations on the communicator of the world, for which engines may have ways of their own.

use treepie::{Comm, Error, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::collectives::{self, combines, moves};
use crate::folds::{MAPS, SUM};
use crate::payload::series;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("world/bcast-from-every-root", 1, collectives::bcast).of_world(),
    Case::new("world/scatter-from-every-root", 1, collectives::scatter).of_world(),
    Case::new("world/gather-to-every-root", 1, collectives::gather).of_world(),
    Case::new("world/all-gather", 1, collectives::all_gather).of_world(),
    Case::new("world/all-to-all", 1, collectives::all_to_all).of_world(),
    Case::new("world/reduce-to-every-root", 1, collectives::reduce).of_world(),
    Case::new("world/all-reduce", 1, collectives::all_reduce).of_world(),
    Case::new("world/reduce-scatter", 1, collectives::reduce_scatter).of_world(),
    Case::new("world/scan-and-exscan", 1, collectives::scan).of_world(),
    Case::new("world/all-kinds-of-elements", 1, collectives::all_kinds_of_elements).of_world(),
    Case::new("world/all-kinds-of-operators", 1, collectives::all_kinds_of_operators).of_world(),
    Case::new("world/all-lengths", 1, all_lengths).of_world(),
    Case::new("world/long-blocks", 1, collectives::long_blocks).of_world(),
    Case::new("world/long-blocks-are-combined-in-order", 1, collectives::long_blocks_in_order).of_world(),
    Case::new("world/one-rank-runs-ahead", 1, one_runs_ahead).of_world(),
    Case::new("world/operations-of-all-lengths-one-after-the-other", 1, one_after_the_other).of_world(),
    Case::new("world/messages-come-while-others-are-late", 2, messages_meanwhile).of_world(),
    Case::new("world/ranks-that-disagree-about-lengths-are-told", 2, disagree).of_world(),
];

/// Around the lengths at which the way changes.
fn all_lengths(comm: &Comm) -> Outcome {
    for count in [2, 6, 56, 120, 500, 513, 1100, 4096, 16_384, 33_000] {
        moves::<u64>(comm, count)?;
        combines(comm, &SUM, count)?;
        combines(comm, &MAPS, count)?;
    }
    Ok(())
}

/// A root need not wait for those it sends to, so they find several messages, and must not mistake them.
fn one_runs_ahead(comm: &Comm) -> Outcome {
    for root in [0, comm.size() - 1] {
        for turn in 0..300 {
            let len = [1, 100, 1000, 9000][turn % 4];
            let mut data = if comm.rank() == root { series::<u64>(turn, len) } else { vec![0; len] };
            comm.bcast(&mut data, root)?;
            check_eq!(data, series::<u64>(turn, len), "bcast {turn} of {len} from {root}");
            if comm.rank() != root && turn % 50 == comm.rank() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
    Ok(())
}

/// Nobody waits between two operations, and each has another length and another kind.
fn one_after_the_other(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for turn in 0..400 {
        let len = [1, 3, 40, 600, 5000, 20_000][(turn * 7) % 6];
        match turn % 5 {
            0 => {
                let got = comm.all_gather(&series::<u32>(turn + rank, len))?;
                for from in 0..size {
                    check_eq!(got[from * len..][..len], series::<u32>(turn + from, len), "all_gather {turn}");
                }
            }
            1 => check_eq!(comm.all_reduce(&SUM.data(rank, len), Sum)?, SUM.result(0..size, len), "all_reduce {turn}"),
            2 => comm.barrier()?,
            3 => {
                let data: Vec<u16> = (0..size).flat_map(|to| series::<u16>(turn + 3 * rank + to, len)).collect();
                let mut into = vec![0; size * len];
                comm.all_to_all(&data, &mut into)?;
                for from in 0..size {
                    check_eq!(
                        into[from * len..][..len],
                        series::<u16>(turn + 3 * from + rank, len),
                        "all_to_all {turn}"
                    );
                }
            }
            _ => {
                let root = turn % size;
                let mut into = if rank == root { vec![0; len] } else { Vec::new() };
                comm.reduce(&SUM.data(rank, len), &mut into, Sum, root)?;
                check!(rank != root || into == SUM.result(0..size, len), "reduce {turn} of {len} to {root}");
            }
        }
    }
    Ok(())
}

/// Who waits for others in a collective operation receives messages meanwhile: a long one ends only when it is received.
fn messages_meanwhile(comm: &Comm) -> Outcome {
    let (before, after) = crate::meeting::neighbours(comm);
    for len in [1, 200_000] {
        let incoming = comm.irecv(vec![0u64; len], before, 5)?;
        let outgoing = comm.isend(series::<u64>(comm.rank(), len), after, 5)?;
        if comm.rank() == 0 {
            outgoing.wait()?;
            comm.barrier()?;
        } else {
            comm.barrier()?;
            outgoing.wait()?;
        }
        check_eq!(incoming.wait()?.0, series::<u64>(before, len), "a message of {len}");
    }
    Ok(())
}

/// Rank 0 is one element short. Everybody exchanges with everybody, so everybody is told; the world is of use after it.
/// The lengths are near enough for both to choose the same algorithm: ranks that run different ones may wait for ever.
fn disagree(comm: &Comm) -> Outcome {
    for len in [20, 200, 2000, 40_000] {
        let mine = if comm.rank() == 0 { len - 1 } else { len };
        let results = [
            ("all_gather", comm.all_gather(&vec![1u64; mine]).err()),
            ("all_reduce", comm.all_reduce(&vec![1u64; mine], Sum).err()),
        ];
        for (call, error) in results {
            let told = matches!(error, Some(Error::Disagreement { .. } | Error::GaveUp { .. }));
            check!(told, "{call} of {len} where rank 0 has one less: {error:?}");
        }
        check_eq!(comm.all_reduce(&SUM.data(comm.rank(), 5), Sum)?, SUM.result(0..comm.size(), 5), "after {len}");
    }
    Ok(())
}
