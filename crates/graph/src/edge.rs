//! Edges, and the sources that a graph is built from.

use bytemuck::{Pod, Zeroable};
use treepie_comm::Comm;

use crate::Result;

/// An edge of a source: the external ids of its endpoints, and its weight, which is 1 in an unweighted source.
///
/// Weights of type `u32` and `f32` are represented exactly.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Edge {
    /// External id of its source.
    pub from: u64,
    /// External id of its target.
    pub to: u64,
    /// Its weight.
    pub weight: f64,
}

impl Edge {
    /// An edge without a weight.
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, weight: 1.0 }
    }
}

/// The directions that an edge of a source stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// Each edge is an arc.
    Directed,
    /// Each edge stands for two arcs, one in each direction.
    Undirected,
    /// Each edge is an arc, and the source has its reverse arc too.
    Symmetric,
}

/// The type of the weights of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    /// Unweighted.
    None,
    /// Integers from 0 to 2^32-1.
    Integer,
    /// Floating-point numbers.
    Real,
}

/// A source of edges. Each rank reads a part of them.
pub trait EdgeSource {
    /// The number of vertices n, if it is known without reading all edges; external ids are then consecutive, from
    /// [`first_id`](Self::first_id) on.
    fn num_vertices(&self) -> Option<u64>;

    /// The external id of the first vertex, 0 or 1, if the number of vertices is known.
    fn first_id(&self) -> u64 {
        0
    }

    /// The directions that an edge stands for.
    fn orientation(&self) -> Orientation;

    /// The type of weights, as far as it is known without reading all edges.
    fn weights(&self) -> WeightKind;

    /// Passes the edges of part `part` of `parts` to `sink`, in batches. Each edge is in exactly one part, for any
    /// number of parts.
    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()>;

    /// Passes a part of the edges to `sink`, as [`read_part`](Self::read_part) of this rank's part does, but ranks may divide the
    /// edges otherwise, and hand each other what only one of them can read. `sink` is also called without edges, while a rank
    /// waits. All ranks call it.
    fn read_together(&self, comm: &Comm, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        self.read_part(comm.rank(), comm.size(), sink)
    }

    /// Passes the external ids of part `part` of `parts` to `sink`. Only needed for isolated vertices with arbitrary
    /// ids.
    fn read_vertex_ids(&self, _part: usize, _parts: usize, _sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        Ok(())
    }

    /// Whether edges are sorted, so that [`read_rows`](Self::read_rows) can read those of any vertices. The number of
    /// vertices is then known.
    fn is_sorted(&self) -> bool {
        false
    }

    /// Passes the out-edges of a range of vertices, counted from 0, to `sink`, sorted by source, target and weight. Only called if
    /// [`is_sorted`](Self::is_sorted).
    fn read_rows(&self, _vertices: std::ops::Range<u64>, _sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        Ok(())
    }

    /// Checks the number of edges of all parts, if the source declares it.
    fn check_edge_count(&self, _edges: u64) -> Result<()> {
        Ok(())
    }
}

/// The block of part `part` when the range from 0 to `count` is divided into `parts`; sizes differ by at most one.
pub fn block_range(count: u64, part: usize, parts: usize) -> std::ops::Range<u64> {
    let bound = |part: usize| (u128::from(count) * part as u128 / parts as u128) as u64;
    bound(part)..bound(part + 1)
}
