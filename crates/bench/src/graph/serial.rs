//! Serial algorithms as a baseline: one thread, no messages, and nothing that a program for one core would not do.

pub(super) mod bfs;
pub(super) mod components;
pub(super) mod pagerank;
pub(super) mod sssp;

use treepie::graph::{CsrEdge, Graph, WeightedEdge};

/// CSR of a whole graph.
pub(super) struct SerialCsr<A> {
    offsets: Vec<u64>,
    arcs: Vec<A>,
}

impl<A: CsrEdge> SerialCsr<A> {
    /// From a graph on one rank, where local indices are global ids.
    pub(super) fn new(graph: Graph<A>) -> Self {
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
    fn row(&self, vertex: usize) -> &[A] {
        &self.arcs[self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize]
    }

    #[inline]
    fn degree(&self, vertex: usize) -> u64 {
        self.offsets[vertex + 1] - self.offsets[vertex]
    }
}

/// CSR with weights.
pub(super) type SerialWeightedCsr = SerialCsr<WeightedEdge>;
