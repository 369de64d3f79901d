//! Batches of edges, so that the sink of a reader or generator is called once for many.

use crate::Edge;

/// Edges of a batch: they fit into the L1 cache.
const BATCH: usize = 1024;

/// Collects edges for a sink.
pub(crate) struct EdgeBatcher<'a> {
    edges: Vec<Edge>,
    sink: &'a mut dyn FnMut(&[Edge]),
    /// Edges so far, buffered ones included.
    num_edges: u64,
}

impl<'a> EdgeBatcher<'a> {
    pub(crate) fn new(sink: &'a mut dyn FnMut(&[Edge])) -> Self {
        Self { edges: Vec::with_capacity(BATCH), sink, num_edges: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, edge: Edge) {
        self.edges.push(edge);
        self.num_edges += 1;
        if self.edges.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        (self.sink)(&self.edges);
        self.edges.clear();
    }

    /// Passes what there is to the sink, perhaps nothing, so that it makes progress while a reader waits.
    pub(crate) fn idle(&mut self) {
        self.flush();
    }

    /// The number of edges so far.
    pub(crate) fn num_edges(&self) -> u64 {
        self.num_edges
    }

    /// Passes the last batch to the sink.
    pub(crate) fn finish(mut self) {
        if !self.edges.is_empty() {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_edges_pass_in_order() {
        for count in [0, 1, 1023, 1024, 1025, 5000] {
            let mut passed = Vec::new();
            let mut sink = |some: &[Edge]| {
                assert!(!some.is_empty());
                passed.extend(some.iter().map(|edge| edge.from));
            };
            let mut batcher = EdgeBatcher::new(&mut sink);
            (0..count).for_each(|number| batcher.push(Edge::new(number, 0)));
            assert_eq!(batcher.num_edges(), count);
            batcher.finish();
            assert_eq!(passed, (0..count).collect::<Vec<_>>());
        }
    }
}
