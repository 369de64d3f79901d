//! Collective operations on the communicator of the world, for which engines may have ways of their own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Commutative, Error, Sum, commutative};

use crate::calls;
use crate::check::{Outcome, check, check_eq};
use crate::collectives::{self, combines, moves};
use crate::folds::{FLOATS, Fold, MAPS, SUM};
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
    Case::new("world/gather-of-four-mebibytes-from-each", 1, gather_of_much).of_world(),
    Case::new("world/scatter-of-much-to-each", 1, scatter_of_much).of_world(),
    Case::new("world/reduce-scatter-of-a-single-block", 1, reduce_scatter_of_a_single_block).of_world(),
    Case::new("world/elements-of-one-size-and-two-alignments", 1, two_alignments).of_world(),
    Case::new("world/operators-that-panic-on-a-dup", 2, operator_panics_on_a_dup),
    // After each of these, the world may go on without what its engine has for it. So each is also run alone.
    Case::new("world/ranks-that-disagree-about-lengths-are-told", 2, disagree).of_world().last(),
    Case::new("world/operators-that-panic-on-short-data", 2, |comm| operator_panics(comm, 4)).of_world().last(),
    Case::new("world/operators-that-panic-on-long-data", 2, |comm| operator_panics(comm, 40_000)).of_world().last(),
    Case::new("world/operators-that-panic-in-a-direct-exchange", 2, operator_panics_in_direct).of_world().last(),
    Case::new("world/ranks-whose-lengths-are-far-apart", 2, far_apart).of_world().last(),
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
            let told = matches!(error, Some(Error::CallsDiffer { .. } | Error::GaveUp { .. }));
            check!(told, "{call} of {len} where rank 0 has one less: {error:?}");
        }
        check_eq!(comm.all_reduce(&SUM.data(comm.rank(), 5), Sum)?, SUM.result(0..comm.size(), 5), "after {len}");
    }
    Ok(())
}

/// Blocks of many ranks are shorter, so that all together are as long.
fn share(comm: &Comm, elements: usize) -> usize {
    if comm.size() <= 8 { elements } else { elements * 8 / comm.size() }
}

fn gather_of_much(comm: &Comm) -> Outcome {
    calls::gather::<u64>(comm, share(comm, (4 << 20) / 8), comm.size() - 1)
}

/// 700,000 bytes are no multiple of a page.
fn scatter_of_much(comm: &Comm) -> Outcome {
    calls::scatter::<u64>(comm, share(comm, 700_000 / 8), comm.size() - 1)
}

/// Everything is for rank 0, and blocks of the others are empty.
fn reduce_scatter_of_a_single_block(comm: &Comm) -> Outcome {
    let mut counts = vec![0; comm.size()];
    counts[0] = 131_072;
    calls::reduce_scatterv(comm, &FLOATS, &counts)
}

/// As long as four numbers, but it must lie at a multiple of its length.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
struct Aligned([u64; 4]);

type Adding<T> = Commutative<fn(T, T) -> T>;

fn four(number: u64) -> [u64; 4] {
    [number, number ^ 5, 3 * number, 1]
}

fn add_fours(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

/// What was found out for elements of a size must not serve others of that size which are aligned in another way.
fn two_alignments(comm: &Comm) -> Outcome {
    let loose: Fold<[u64; 4], Adding<[u64; 4]>> = Fold { operator: || commutative(add_fours), of: four };
    let aligned: Fold<Aligned, Adding<Aligned>> = Fold {
        operator: || commutative(|a: Aligned, b: Aligned| Aligned(add_fours(a.0, b.0))),
        of: |number| Aligned(four(number)),
    };
    for count in [1, 3, 15, 100, 1000] {
        calls::reduce_scatter(comm, &loose, count)?;
        calls::reduce_scatter(comm, &aligned, count)?;
        calls::all_reduce(comm, &loose, count)?;
        calls::all_reduce(comm, &aligned, count)?;
    }
    Ok(())
}

/// That a result is right if there is one.
fn right_if_any(comm: &Comm, what: &str, len: usize, result: treepie::Result<Vec<u64>>) -> Outcome {
    match result {
        Ok(sum) => check_eq!(sum, vec![comm.size() as u64; len], "a sum of {what}"),
        Err(error) => {
            check!(!matches!(error, Error::PeerLost { .. }), "{what}: {error}");
        }
    }
    Ok(())
}

/// Operations after one that went wrong: each comes to an end, if not to a good one.
fn others_end(comm: &Comm, what: &str) -> Outcome {
    for len in [1, 600, 20_000] {
        right_if_any(comm, &format!("{len} after {what}"), len, comm.all_reduce(&vec![1u64; len], Sum))?;
        // It may be refused, as above.
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
            // Without a word on the terminal.
            resume_unwind(Box::new("the operator panics"));
        }
        a.wrapping_add(b)
    });
    match catch_unwind(AssertUnwindSafe(|| comm.all_reduce(&vec![1u64; len], operator))) {
        Err(_) => check!(panics, "{what}: a panic of another rank's operator"),
        Ok(result) => right_if_any(comm, what, len, result)?,
    }
    others_end(comm, what)
}

fn operator_panics_on_a_dup(comm: &Comm) -> Outcome {
    for len in [4, 600, 20_000] {
        one_panics(&comm.dup()?.using("allreduce/recursive_doubling")?, "recursive doubling with a panic", len)?;
        one_panics(&comm.dup()?, "what is chosen, with a panic", len)?;
    }
    Ok(())
}

fn operator_panics(comm: &Comm, len: usize) -> Outcome {
    one_panics(comm, "what is chosen, with a panic", len)
}

fn operator_panics_in_direct(comm: &Comm) -> Outcome {
    one_panics(&comm.using("allreduce/direct")?, "a direct exchange with a panic", 4)
}

/// The root and the others come to different algorithms. Nobody waits for ever, in this call or in those after it.
fn far_apart(comm: &Comm) -> Outcome {
    let mut data = vec![1u8; if comm.rank() == 0 { 16 } else { 20_000 }];
    // The root need not hear of it.
    let _ = comm.bcast(&mut data, 0);
    others_end(comm, "a bcast of different lengths")
}
