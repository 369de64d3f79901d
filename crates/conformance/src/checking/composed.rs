//! Calls that are composed of other collective calls: only the outer call is compared.

use treepie::{Comm, Error, Max, Network, SplitType};

use super::{check_mismatch_reported, check_usable};
use crate::check::{Outcome, check};

/// A network of the communicator's ranks with two clusters.
fn clusters(comm: &Comm) -> String {
    Network::load(&format!("clusters:1+{}", comm.size() - 1)).expect("a network").to_string()
}

pub(super) fn matching(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let size = comm.size();
    let grid = comm.cart_create(&[size, 1], &[true, false])?.expect("every rank is in the grid");
    check_usable(&grid)?;
    for keep in [[true, false], [false, true]] {
        let part = grid.sub(&keep)?;
        check_usable(&part)?;
    }
    // Neighbors may differ.
    for graph in [comm.dist_graph_create(&[comm.rank()])?, comm.dist_graph_create_adjacent(&[comm.rank()], &[])?] {
        check_usable(&graph)?;
    }
    check_usable(&comm.split_type(SplitType::Host, 0)?)?;
    check_usable(&comm.with_network(&clusters(comm))?.split_type(SplitType::Cluster, 0)?)?;
    // An error on all ranks is reported as it is, not as a mismatch.
    let flat = comm.with_network(&format!("flat:{size}"))?.split_type(SplitType::Leaf, 0).err();
    check!(matches!(flat, Some(Error::Algorithm(_))), "a network without leaves: {flat:?}");
    check_usable(comm)
}

pub(super) fn different(comm: &Comm) -> Outcome {
    // The split algorithm is part of the text, and the environment may name another one.
    let comm = &comm.checked().with_algorithm("split/merge")?;
    let (is_zero, size) = (comm.rank() == 0, comm.size());
    let result = if is_zero { comm.dist_graph_create(&[0]) } else { comm.dist_graph_create_adjacent(&[], &[0]) };
    check_mismatch_reported(comm, result, "dist_graph_create", (1, "dist_graph_create_adjacent"))?;
    // The same allreduce that `dist_graph_create` starts with.
    let result =
        if is_zero { comm.dist_graph_create(&[0]).map(drop) } else { comm.allreduce(&[5u64, 1], Max).map(drop) };
    check_mismatch_reported(comm, result, "dist_graph_create", (1, "allreduce of 2 elements of 8 bytes"))?;
    let words = |dims: [usize; 2]| format!("cart_create of {dims:?} [true, false] by split/merge");
    let (one, other) = ([size, 1], [1, size]);
    let result = comm.cart_create(if is_zero { &one } else { &other }, &[true, false]);
    check_mismatch_reported(comm, result, &words(one), (1, &words(other)))?;
    let result = if is_zero { comm.cart_create(&one, &[true, false]).map(drop) } else { comm.split(0, 0).map(drop) };
    check_mismatch_reported(comm, result, &words(one), (1, "split by split/merge"))?;
    let grid = comm.cart_create(&one, &[true, false])?.expect("every rank is in the grid");
    let words = |keep: [bool; 2]| format!("sub keeping {keep:?} by split/merge");
    let result = grid.sub(&[is_zero, true]);
    check_mismatch_reported(&grid, result, &words([true, true]), (1, &words([false, true])))?;
    let result = if is_zero { comm.split_type(SplitType::Host, 0) } else { comm.split_type(SplitType::Leaf, 0) };
    check_mismatch_reported(comm, result, "split_type Host by split/merge", (1, "split_type Leaf by split/merge"))?;
    let clusters = clusters(comm);
    let handle = if is_zero { comm.clone() } else { comm.with_network(&clusters)? };
    let words = "split_type Cluster by split/merge";
    check_mismatch_reported(
        comm,
        handle.split_type(SplitType::Cluster, 0),
        words,
        (1, &format!("{words} on {clusters}")),
    )
}

/// The algorithms of the inner calls must be the same on all ranks.
pub(super) fn different_algorithms(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let is_zero = comm.rank() == 0;
    let gathers = comm.with_algorithm(if is_zero { "allgather/ring" } else { "allgather/linear" })?;
    let splits = gathers.with_algorithm("split/allgather_sort")?;
    let results = [
        (gathers.create(&[0]).map(drop), "create"),
        (gathers.window::<u64>(1).map(drop), "window of elements of 8 bytes"),
        (splits.split(0, 0).map(drop), "split by split/allgather_sort"),
    ];
    for (result, call) in results {
        let words = |id| format!("{call} with allgather/{id}");
        check_mismatch_reported(comm, result, &words("ring"), (1, &words("linear")))?;
    }
    let reduces = comm.with_algorithm(if is_zero { "allreduce/linear" } else { "allreduce/recursive_doubling" })?;
    let results = [(reduces.dup().map(drop), "dup"), (reduces.dist_graph_create(&[0]).map(drop), "dist_graph_create")];
    for (result, call) in results {
        let words = |id| format!("{call} with allreduce/{id}");
        check_mismatch_reported(comm, result, &words("linear"), (1, &words("recursive_doubling")))?;
    }
    let barriers = comm.with_algorithm(if is_zero { "barrier/dissemination" } else { "barrier/recursive_doubling" })?;
    let words = |id| format!("window of elements of 1 bytes with barrier/{id}");
    check_mismatch_reported(
        comm,
        barriers.window::<u8>(1).map(drop),
        &words("dissemination"),
        (1, &words("recursive_doubling")),
    )?;
    let clusters = clusters(comm);
    let handle = if is_zero { comm.clone() } else { comm.with_network(&clusters)? };
    check_mismatch_reported(comm, handle.dup(), "dup", (1, &format!("dup on {clusters}")))
}
