//! Plain single-threaded algorithms to measure against: no ranks, no messages, and nothing that a program for one core would not do.

pub(super) mod bfs;
pub(super) mod components;
pub(super) mod pagerank;
pub(super) mod sssp;

use treepie::graph::{Arc, Graph, Weighted};

/// Compressed rows of a whole graph.
pub(super) struct Csr<A> {
    offsets: Vec<u64>,
    arcs: Vec<A>,
}

impl<A: Arc> Csr<A> {
    /// Those of a graph that one rank has alone, where places are numbers.
    pub(super) fn new(graph: Graph<A>) -> Self {
        let rows = graph.out();
        let mut offsets = vec![0];
        let mut arcs = Vec::with_capacity(rows.arcs() as usize);
        for row in 0..rows.len() {
            arcs.extend_from_slice(rows.row(row));
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

/// Arcs with weights.
pub(super) type WeightedCsr = Csr<Weighted>;
