//! Serial algorithms as a baseline: one thread, no messages, and nothing that a program for one core would not do.

pub(super) mod bfs;
pub(super) mod components;
pub(super) mod pagerank;
pub(super) mod sssp;

use treepie::graph::{CsrEdge, EdgeWeight, Graph};

/// CSR of a whole graph.
pub(super) struct SerialCsr<W = ()> {
    offsets: Vec<u64>,
    arcs: Vec<CsrEdge<W>>,
}

impl<W: EdgeWeight> SerialCsr<W> {
    /// From a graph on one rank, where local indices are global ids.
    pub(super) fn new(graph: Graph<W>) -> Self {
        let csr = graph.out_edges();
        let mut offsets = vec![0];
        let mut arcs = Vec::with_capacity(csr.num_arcs() as usize);
        for row in 0..csr.len() {
            arcs.extend_from_slice(csr.row(row));
            offsets.push(arcs.len() as u64);
        }
        Self { offsets, arcs }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    #[inline]
    fn row(&self, vertex: usize) -> &[CsrEdge<W>] {
        &self.arcs[self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize]
    }

    #[inline]
    fn degree(&self, vertex: usize) -> u64 {
        self.offsets[vertex + 1] - self.offsets[vertex]
    }
}
