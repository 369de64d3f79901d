//! Components in numbers.

use treepie_base::Rank;
use treepie_base::memory::{collected, zeroed};
use treepie_comm::{Comm, Max, Sum};
use treepie_sparse::SparseExchange;

use crate::rows::{Arc, VALUES};
use crate::{Graph, Result};

/// How many components there are, and how many vertices the largest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many.
    pub components: u64,
    /// Vertices of the largest.
    pub largest: u64,
}

/// Counts components by the labels of the own vertices: numbers of vertices, the same for all of a component. All ranks call it.
pub fn count<A: Arc>(comm: &Comm, graph: &Graph<A>, labels: &[u64]) -> Result<Found> {
    let layout = graph.layout();
    let mut sorted = collected(labels.iter().copied(), VALUES)?;
    sorted.sort_unstable();
    let mut sizes = zeroed(graph.own(), VALUES)?;
    // Labels of this rank are counted here, and need no memory: in a graph without edges all vertices have their own.
    let owner = |label: &u64| layout.place(*label).0;
    let mut to_each: Vec<(Rank, Vec<[u64; 2]>)> = Vec::new();
    for same in sorted.chunk_by(u64::eq) {
        let (label, size) = (same[0], same.len() as u64);
        match (owner(&label), to_each.last_mut()) {
            (rank, _) if rank == layout.rank() => sizes[layout.place(label).1 as usize] += size,
            (rank, Some((last, parts))) if rank == *last => parts.push([label, size]),
            (rank, _) => to_each.push((rank, vec![[label, size]])),
        }
    }
    drop(sorted);
    for [label, size] in comm.exchange(to_each)?.into_iter().flat_map(|(_, parts)| parts) {
        sizes[layout.place(label).1 as usize] += size;
    }
    let components = sizes.iter().filter(|size| **size > 0).count() as u64;
    let components = comm.all_reduce(&[components], Sum)?[0];
    let largest = comm.all_reduce(&[sizes.into_iter().max().unwrap_or(0)], Max)?[0];
    Ok(Found { components, largest })
}
