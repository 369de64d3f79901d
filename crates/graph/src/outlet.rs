//! Where edges that are read or generated go: they are collected, so that the receiver is called once for many.

use crate::Edge;

/// So many fit into the first cache.
const BATCH: usize = 1024;

/// Edges on their way to a sink.
pub(crate) struct Outlet<'a> {
    edges: Vec<Edge>,
    sink: &'a mut dyn FnMut(&[Edge]),
    /// Edges so far, also those that still wait.
    given: u64,
}

impl<'a> Outlet<'a> {
    pub(crate) fn new(sink: &'a mut dyn FnMut(&[Edge])) -> Self {
        Self { edges: Vec::with_capacity(BATCH), sink, given: 0 }
    }

    #[inline]
    pub(crate) fn put(&mut self, edge: Edge) {
        self.edges.push(edge);
        self.given += 1;
        if self.edges.len() == BATCH {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        (self.sink)(&self.edges);
        self.edges.clear();
    }

    /// How many edges there were so far.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Passes on what is left.
    pub(crate) fn finish(mut self) {
        if !self.edges.is_empty() {
            self.pass_on();
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
            let mut outlet = Outlet::new(&mut sink);
            (0..count).for_each(|number| outlet.put(Edge::new(number, 0)));
            assert_eq!(outlet.given(), count);
            outlet.finish();
            assert_eq!(passed, (0..count).collect::<Vec<_>>());
        }
    }
}
