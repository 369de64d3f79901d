//! Calls that are made of others: what the program calls is compared, and not what they are made of.

use treepie::{Comm, Error, Level, Max, Network};

use super::{told, works};
use crate::check::{Outcome, check};

/// A network of the communicator's ranks with two clusters.
fn clusters(comm: &Comm) -> String {
    Network::load(&format!("clusters:1+{}", comm.size() - 1)).expect("a network").to_string()
}

pub(super) fn matching(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let size = comm.size();
    let grid = comm.cartesian(&[size, 1], &[true, false])?.expect("all have a place");
    works(&grid)?;
    for keep in [[true, false], [false, true]] {
        let part = grid.sub(&keep)?;
        works(&part)?;
    }
    // Each has neighbours of its own.
    for graph in [comm.graph(&[comm.rank()])?, comm.graph_adjacent(&[comm.rank()], &[])?] {
        works(&graph)?;
    }
    works(&comm.split_by(Level::Host, 0)?)?;
    works(&comm.on(&clusters(comm))?.split_by(Level::Cluster, 0)?)?;
    // What is refused everywhere is each rank's own error.
    let flat = comm.on(&format!("flat:{size}"))?.split_by(Level::Leaf, 0).err();
    check!(matches!(flat, Some(Error::Algorithm(_))), "a network without leaves: {flat:?}");
    works(comm)
}

pub(super) fn different(comm: &Comm) -> Outcome {
    // The way to split is part of the text, and the environment may name another one.
    let comm = &comm.checked().using("split/merge")?;
    let (is_zero, size) = (comm.rank() == 0, comm.size());
    let result = if is_zero { comm.graph(&[0]) } else { comm.graph_adjacent(&[], &[0]) };
    told(comm, result, "graph", (1, "graph_adjacent"))?;
    // The same as what a graph begins with.
    let result = if is_zero { comm.graph(&[0]).map(drop) } else { comm.all_reduce(&[5u64, 1], Max).map(drop) };
    told(comm, result, "graph", (1, "all_reduce of 2 elements of 8 bytes"))?;
    let words = |dims: [usize; 2]| format!("cartesian of {dims:?} [true, false] by split/merge");
    let (one, other) = ([size, 1], [1, size]);
    let result = comm.cartesian(if is_zero { &one } else { &other }, &[true, false]);
    told(comm, result, &words(one), (1, &words(other)))?;
    let result = if is_zero { comm.cartesian(&one, &[true, false]).map(drop) } else { comm.split(0, 0).map(drop) };
    told(comm, result, &words(one), (1, "split by split/merge"))?;
    let grid = comm.cartesian(&one, &[true, false])?.expect("all have a place");
    let words = |keep: [bool; 2]| format!("sub keeping {keep:?} by split/merge");
    let result = grid.sub(&[is_zero, true]);
    told(&grid, result, &words([true, true]), (1, &words([false, true])))?;
    let result = if is_zero { comm.split_by(Level::Host, 0) } else { comm.split_by(Level::Leaf, 0) };
    told(comm, result, "split_by Host by split/merge", (1, "split_by Leaf by split/merge"))?;
    let clusters = clusters(comm);
    let handle = if is_zero { comm.clone() } else { comm.on(&clusters)? };
    let words = "split_by Cluster by split/merge";
    told(comm, handle.split_by(Level::Cluster, 0), words, (1, &format!("{words} on {clusters}")))
}

/// What calls are made of is done by algorithms that must be the same.
pub(super) fn different_algorithms(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let is_zero = comm.rank() == 0;
    let gathers = comm.using(if is_zero { "allgather/ring" } else { "allgather/linear" })?;
    let splits = gathers.using("split/allgather_sort")?;
    let results = [
        (gathers.dup().map(drop), "dup"),
        (gathers.create(&[0]).map(drop), "create"),
        (gathers.window::<u64>(1).map(drop), "window of elements of 8 bytes"),
        (splits.split(0, 0).map(drop), "split by split/allgather_sort"),
    ];
    for (result, call) in results {
        let words = |id| format!("{call} with allgather/{id}");
        told(comm, result, &words("ring"), (1, &words("linear")))?;
    }
    let reduces = comm.using(if is_zero { "allreduce/linear" } else { "allreduce/recursive_doubling" })?;
    let words = |id| format!("graph with allreduce/{id}");
    told(comm, reduces.graph(&[0]), &words("linear"), (1, &words("recursive_doubling")))?;
    let meets = comm.using(if is_zero { "barrier/dissemination" } else { "barrier/recursive_doubling" })?;
    let words = |id| format!("window of elements of 1 bytes with barrier/{id}");
    told(comm, meets.window::<u8>(1).map(drop), &words("dissemination"), (1, &words("recursive_doubling")))?;
    let clusters = clusters(comm);
    let handle = if is_zero { comm.clone() } else { comm.on(&clusters)? };
    told(comm, handle.dup(), "dup", (1, &format!("dup on {clusters}")))
}
