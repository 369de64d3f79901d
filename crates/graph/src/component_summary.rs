//! The number of components, and the size of the largest.

use treepie_base::Rank;
use treepie_base::memory::{collected, zeroed};
use treepie_comm::{Comm, Max, Sum};
use treepie_sparse::SparseExchange;

use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::{Graph, Result};

/// The number of components, and the size of the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentSummary {
    /// The number of components.
    pub components: u64,
    /// The number of vertices of the largest.
    pub largest: u64,
}

/// Counts components by the labels of local vertices: a global id, the same for all vertices of a component. All ranks
/// call it.
pub fn summarize<A: CsrEdge>(comm: &Comm, graph: &Graph<A>, labels: &[u64]) -> Result<ComponentSummary> {
    let layout = graph.layout();
    let mut sorted = collected(labels.iter().copied(), VALUES_PURPOSE)?;
    sorted.sort_unstable();
    let mut sizes = zeroed(graph.num_local(), VALUES_PURPOSE)?;
    // Local labels are counted in place, without memory: in a graph without edges every vertex is its own label.
    let owner = |label: &u64| layout.owner(*label).0;
    let mut to_each: Vec<(Rank, Vec<[u64; 2]>)> = Vec::new();
    for same in sorted.chunk_by(u64::eq) {
        let (label, size) = (same[0], same.len() as u64);
        match (owner(&label), to_each.last_mut()) {
            (rank, _) if rank == layout.rank() => sizes[layout.owner(label).1 as usize] += size,
            (rank, Some((last, counts))) if rank == *last => counts.push([label, size]),
            (rank, _) => to_each.push((rank, vec![[label, size]])),
        }
    }
    drop(sorted);
    for [label, size] in comm.exchange(to_each)?.into_iter().flat_map(|(_, counts)| counts) {
        sizes[layout.owner(label).1 as usize] += size;
    }
    let components = sizes.iter().filter(|size| **size > 0).count() as u64;
    let components = comm.allreduce(&[components], Sum)?[0];
    let largest = comm.allreduce(&[sizes.into_iter().max().unwrap_or(0)], Max)?[0];
    Ok(ComponentSummary { components, largest })
}
