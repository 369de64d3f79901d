//! Components in numbers.

use treepie_base::Rank;
use treepie_base::memory::zeroed;
use treepie_comm::{Comm, Max, Sum};
use treepie_sparse::SparseExchange;

use crate::rows::Arc;
use crate::rows::VALUES;
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
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    let parts: Vec<[u64; 2]> = sorted.chunk_by(u64::eq).map(|same| [same[0], same.len() as u64]).collect();
    let owner = |part: &[u64; 2]| layout.place(part[0]).0;
    let to_each = parts.chunk_by(|left, right| owner(left) == owner(right));
    let to_each: Vec<(Rank, Vec<[u64; 2]>)> = to_each.map(|to_one| (owner(&to_one[0]), to_one.to_vec())).collect();
    let mut sizes = zeroed(graph.own(), VALUES)?;
    for [label, size] in comm.exchange(to_each)?.into_iter().flat_map(|(_, parts)| parts) {
        sizes[layout.place(label).1 as usize] += size;
    }
    let components = sizes.iter().filter(|size| **size > 0).count() as u64;
    let components = comm.all_reduce(&[components], Sum)?[0];
    let largest = comm.all_reduce(&[sizes.into_iter().max().unwrap_or(0)], Max)?[0];
    Ok(Found { components, largest })
}
