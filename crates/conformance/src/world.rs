//! Collective operations on the world, for which engines may have faster transports.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Commutative, Error, Sum, commutative};

use crate::calls;
use crate::check::{Outcome, check, check_eq};
use crate::collectives::{self, check_data_movement, check_reductions};
use crate::payload::series;
use crate::reduction_cases::{AFFINE_MAPS, FLOATS, ReductionCase, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("world/bcast-from-every-root", 1, collectives::bcast).of_world(),
    Case::new("world/scatter-from-every-root", 1, collectives::scatter).of_world(),
    Case::new("world/gather-to-every-root", 1, collectives::gather).of_world(),
    Case::new("world/allgather-of-several-counts", 1, collectives::allgather).of_world(),
    Case::new("world/alltoall-of-several-counts", 1, collectives::alltoall).of_world(),
    Case::new("world/reduce-to-every-root", 1, collectives::reduce).of_world(),
    Case::new("world/allreduce-of-several-counts", 1, collectives::allreduce).of_world(),
    Case::new("world/reduce-scatter", 1, collectives::reduce_scatter).of_world(),
    Case::new("world/scan-and-exscan", 1, collectives::scan).of_world(),
    Case::new("world/all-kinds-of-elements", 1, collectives::all_kinds_of_elements).of_world(),
    Case::new("world/all-kinds-of-operators", 1, collectives::all_kinds_of_operators).of_world(),
    Case::new("world/all-lengths", 1, all_lengths).of_world(),
    Case::new("world/long-blocks", 1, collectives::long_blocks).of_world(),
    Case::new("world/long-blocks-are-combined-in-order", 1, collectives::long_blocks_in_order).of_world(),
    Case::new("world/one-rank-runs-ahead", 1, one_runs_ahead).of_world(),
    Case::new("world/operations-of-all-lengths-one-after-the-other", 1, one_after_the_other).of_world(),
    Case::new("world/messages-arrive-while-others-are-late", 2, messages_meanwhile).of_world(),
    Case::new("world/gather-of-four-mebibytes-from-each", 1, gather_of_much).of_world(),
    Case::new("world/scatter-of-much-to-each", 1, scatter_of_much).of_world(),
    Case::new("world/reduce-scatter-of-a-single-block", 1, reduce_scatter_of_a_single_block).of_world(),
    Case::new("world/elements-of-one-size-and-two-alignments", 1, two_alignments).of_world(),
    Case::new("world/operators-that-panic-on-a-dup", 2, operator_panics_on_a_dup),
    // Each of these may disable the world's shared segment, so each is also run alone.
    Case::new("world/different-lengths-are-an-error", 2, different_lengths).of_world().last(),
    Case::new("world/operators-that-panic-on-short-data", 2, |comm| operator_panics(comm, 4)).of_world().last(),
    Case::new("world/operators-that-panic-on-long-data", 2, |comm| operator_panics(comm, 40_000)).of_world().last(),
    Case::new("world/operators-that-panic-in-a-direct-exchange", 2, operator_panics_in_direct).of_world().last(),
    Case::new("world/very-different-lengths", 2, very_different_lengths).of_world().last(),
];

/// Lengths on both sides of each change of transport.
fn all_lengths(comm: &Comm) -> Outcome {
    for count in [2, 6, 56, 120, 500, 513, 1100, 4096, 16_384, 33_000] {
        check_data_movement::<u64>(comm, count)?;
        check_reductions(comm, &SUM, count)?;
        check_reductions(comm, &AFFINE_MAPS, count)?;
    }
    Ok(())
}

/// A root need not wait for its receivers, so several broadcasts may be pending, which receivers must not confuse.
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

/// Operations of different kinds and lengths without synchronization in between.
fn one_after_the_other(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for turn in 0..400 {
        let len = [1, 3, 40, 600, 5000, 20_000][(turn * 7) % 6];
        match turn % 5 {
            0 => {
                let got = comm.allgather(&series::<u32>(turn + rank, len))?;
                for from in 0..size {
                    check_eq!(got[from * len..][..len], series::<u32>(turn + from, len), "allgather {turn}");
                }
            }
            1 => check_eq!(
                comm.allreduce(&SUM.contribution(rank, len), Sum)?,
                SUM.result(0..size, len),
                "allreduce {turn}"
            ),
            2 => comm.barrier()?,
            3 => {
                let data: Vec<u16> = (0..size).flat_map(|to| series::<u16>(turn + 3 * rank + to, len)).collect();
                let mut into = vec![0; size * len];
                comm.alltoall(&data, &mut into)?;
                for from in 0..size {
                    check_eq!(into[from * len..][..len], series::<u16>(turn + 3 * from + rank, len), "alltoall {turn}");
                }
            }
            _ => {
                let root = turn % size;
                let mut into = if rank == root { vec![0; len] } else { Vec::new() };
                comm.reduce(&SUM.contribution(rank, len), &mut into, Sum, root)?;
                check!(rank != root || into == SUM.result(0..size, len), "reduce {turn} of {len} to {root}");
            }
        }
    }
    Ok(())
}

/// A rank that waits in a collective operation makes progress on its receives: a long send completes only then.
fn messages_meanwhile(comm: &Comm) -> Outcome {
    let (before, after) = crate::signals::ring_neighbors(comm);
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

/// Rank 0 has one element less. All ranks exchange with all, so every rank gets an error; the world stays usable.
/// The lengths select the same algorithm: ranks that run different ones may hang.
fn different_lengths(comm: &Comm) -> Outcome {
    for len in [20, 200, 2000, 40_000] {
        let local_len = if comm.rank() == 0 { len - 1 } else { len };
        let results = [
            ("allgather", comm.allgather(&vec![1u64; local_len]).err()),
            ("allreduce", comm.allreduce(&vec![1u64; local_len], Sum).err()),
        ];
        for (call, error) in results {
            let is_reported = matches!(error, Some(Error::CollectiveMismatch { .. } | Error::Aborted { .. }));
            check!(is_reported, "{call} of {len} where rank 0 has one less: {error:?}");
        }
        check_eq!(
            comm.allreduce(&SUM.contribution(comm.rank(), 5), Sum)?,
            SUM.result(0..comm.size(), 5),
            "after {len}"
        );
    }
    Ok(())
}

/// The length of a block; shorter with many ranks, so that the total stays the same.
fn block_len(comm: &Comm, elements: usize) -> usize {
    if comm.size() <= 8 { elements } else { elements * 8 / comm.size() }
}

fn gather_of_much(comm: &Comm) -> Outcome {
    calls::gather::<u64>(comm, block_len(comm, (4 << 20) / 8), comm.size() - 1)
}

/// 700,000 bytes are not a multiple of a page.
fn scatter_of_much(comm: &Comm) -> Outcome {
    calls::scatter::<u64>(comm, block_len(comm, 700_000 / 8), comm.size() - 1)
}

/// Only rank 0 has a block; those of the others are empty.
fn reduce_scatter_of_a_single_block(comm: &Comm) -> Outcome {
    let mut counts = vec![0; comm.size()];
    counts[0] = 131_072;
    calls::reduce_scatter(comm, &FLOATS, &counts)
}

/// Four words with an alignment of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
struct Aligned([u64; 4]);

type Addition<T> = Commutative<fn(T, T) -> T>;

fn four(number: u64) -> [u64; 4] {
    [number, number ^ 5, 3 * number, 1]
}

fn add_fours(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

/// What the library caches for an element type must not be used for another of the same size and different alignment.
fn two_alignments(comm: &Comm) -> Outcome {
    let loose: ReductionCase<[u64; 4], Addition<[u64; 4]>> =
        ReductionCase { operator: || commutative(add_fours), element: four };
    let aligned: ReductionCase<Aligned, Addition<Aligned>> = ReductionCase {
        operator: || commutative(|a: Aligned, b: Aligned| Aligned(add_fours(a.0, b.0))),
        element: |number| Aligned(four(number)),
    };
    for count in [1, 3, 15, 100, 1000] {
        calls::reduce_scatter_block(comm, &loose, count)?;
        calls::reduce_scatter_block(comm, &aligned, count)?;
        calls::allreduce(comm, &loose, count)?;
        calls::allreduce(comm, &aligned, count)?;
    }
    Ok(())
}

/// Checks a result if there is one.
fn check_if_ok(comm: &Comm, what: &str, len: usize, result: treepie::Result<Vec<u64>>) -> Outcome {
    match result {
        Ok(sum) => check_eq!(sum, vec![comm.size() as u64; len], "a sum of {what}"),
        Err(error) => {
            check!(!matches!(error, Error::PeerLost { .. }), "{what}: {error}");
        }
    }
    Ok(())
}

/// Checks that operations after a failed one return, with a result or an error.
fn check_later_operations_complete(comm: &Comm, what: &str) -> Outcome {
    for len in [1, 600, 20_000] {
        check_if_ok(comm, &format!("{len} after {what}"), len, comm.allreduce(&vec![1u64; len], Sum))?;
        // It may fail, as above.
        let _ = comm.barrier();
        let _ = comm.bcast(&mut vec![1u64; len], comm.size() - 1);
    }
    Ok(())
}

/// A blocking call whose operator panics on one rank: the others get a result or an error.
fn one_panics(comm: &Comm, what: &str, len: usize) -> Outcome {
    let panics = comm.rank() == comm.size() / 2;
    let operator = commutative(move |a: u64, b: u64| {
        if panics {
            // `resume_unwind` prints no message.
            resume_unwind(Box::new("the operator panics"));
        }
        a.wrapping_add(b)
    });
    match catch_unwind(AssertUnwindSafe(|| comm.allreduce(&vec![1u64; len], operator))) {
        Err(_) => check!(panics, "{what}: a panic of another rank's operator"),
        Ok(result) => check_if_ok(comm, what, len, result)?,
    }
    check_later_operations_complete(comm, what)
}

fn operator_panics_on_a_dup(comm: &Comm) -> Outcome {
    for len in [4, 600, 20_000] {
        one_panics(
            &comm.dup()?.with_algorithm("allreduce/recursive_doubling")?,
            "recursive doubling with a panic",
            len,
        )?;
        one_panics(&comm.dup()?, "automatic selection with a panic", len)?;
    }
    Ok(())
}

fn operator_panics(comm: &Comm, len: usize) -> Outcome {
    one_panics(comm, "automatic selection with a panic", len)
}

fn operator_panics_in_direct(comm: &Comm) -> Outcome {
    one_panics(&comm.with_algorithm("allreduce/direct")?, "a direct exchange with a panic", 4)
}

/// The root and the others select different algorithms. No rank hangs, in this call or in later ones.
fn very_different_lengths(comm: &Comm) -> Outcome {
    let mut data = vec![1u8; if comm.rank() == 0 { 16 } else { 20_000 }];
    // The root need not get an error.
    let _ = comm.bcast(&mut data, 0);
    check_later_operations_complete(comm, "a bcast of different lengths")
}
