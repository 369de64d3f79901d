//! Watts-Strogatz small-world graphs: a ring of nearest neighbors with rewired edges.
//! [Watts, Strogatz, Collective dynamics of 'small-world' networks, Nature 393, 1998]
//!
//! The row of a vertex has the edges to the half of its neighbors that follow it. Each is rewired with probability
//! beta to a random vertex: not to itself, and not to a target in its row. Rows are generated independently, so two
//! vertices may have an edge in both rows. The probability is that of drawing one vertex of all.

use std::fmt;

use super::random::{RandomStream, StreamPurpose};
use super::seeding::{Seeding, impl_seeding};
use super::text::GeneratorArguments;
use super::{check_probability, check_vertices};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// An undirected ring with rewired edges. It has no self-loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WattsStrogatz {
    vertices: u64,
    /// The number of neighbors of a vertex in the ring.
    neighbors: u64,
    beta: f64,
    seeding: Seeding,
}

impl_seeding!(WattsStrogatz);

impl WattsStrogatz {
    /// A ring of vertices with an even number of neighbors, whose edges are rewired with probability `beta`.
    pub fn new(vertices: u64, neighbors: u64, beta: f64) -> Result<Self> {
        check_vertices(Some(vertices))?;
        if !neighbors.is_multiple_of(2) || neighbors >= vertices {
            let what = format!("an even number of neighbors below the {vertices} vertices");
            return Err(Error::Input(format!("a Watts-Strogatz graph needs {what}, not {neighbors}")));
        }
        Ok(Self { vertices, neighbors, beta: check_probability(beta)?, seeding: Seeding::default() })
    }

    pub(super) fn parse(arguments: &mut GeneratorArguments) -> Result<Self> {
        let graph = Self::new(arguments.first()?, arguments.required("k")?, arguments.required("beta")?)?;
        Ok(Self { seeding: Seeding::parse(arguments)?, ..graph })
    }

    /// Replaces `targets` by the targets of a vertex's edges.
    fn row(&self, from: u64, targets: &mut Vec<u64>) {
        let mut stream = RandomStream::new(self.seeding.seed, StreamPurpose::Row, from);
        targets.clear();
        targets.extend((1..=self.neighbors / 2).map(|distance| (from + distance) % self.vertices));
        for at in 0..targets.len() {
            // A fraction is above 0, so beta = 0 rewires nothing.
            if stream.fraction() <= self.beta {
                targets[at] = loop {
                    let target = stream.below(self.vertices);
                    // At most half of all other vertices are targets already.
                    if target != from && !targets.contains(&target) {
                        break target;
                    }
                };
            }
        }
    }
}

impl fmt::Display for WattsStrogatz {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { vertices, neighbors, beta, seeding } = self;
        write!(f, "watts-strogatz:{vertices},k={neighbors},beta={beta}{seeding}")
    }
}

impl EdgeSource for WattsStrogatz {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        Orientation::Undirected
    }

    fn weights(&self) -> WeightKind {
        self.seeding.weights()
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut batcher = EdgeBatcher::new(sink);
        let mut targets = Vec::new();
        for from in block_range(self.vertices, part, parts) {
            self.row(from, &mut targets);
            targets.iter().for_each(|to| batcher.push(self.seeding.edge(from, *to)));
        }
        batcher.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn edges(graph: WattsStrogatz) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        graph.read_part(0, 1, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
        edges
    }

    #[test]
    fn without_rewiring_it_is_a_ring() {
        let ring = edges(WattsStrogatz::new(5, 4, 0.0).unwrap());
        assert_eq!(ring, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 0), (4, 0), (4, 1)]);
        assert_eq!(edges(WattsStrogatz::new(5, 0, 0.5).unwrap()), []);
    }

    #[test]
    fn as_many_are_rewired_as_asked_for_to_anywhere() {
        let vertices = 10_000u64;
        for beta in [0.1, 0.5, 1.0] {
            let edges = edges(WattsStrogatz::new(vertices, 6, beta).unwrap());
            assert_eq!(edges.len(), 30_000);
            let distance = |(from, to): &(u64, u64)| (to + vertices - from) % vertices;
            let far: Vec<u64> = edges.iter().map(distance).filter(|distance| *distance > 3).collect();
            assert!((far.len() as f64 - 30_000.0 * beta).abs() < 4.0 * 87.0, "{beta}: {}", far.len());
            let mean = far.iter().sum::<u64>() as f64 / far.len() as f64;
            assert!((mean / vertices as f64 - 0.5).abs() < 0.03, "{beta}: {mean}");
        }
    }

    #[test]
    fn a_vertex_has_no_edge_twice_and_none_to_itself() {
        for seed in 0..200 {
            let edges = edges(WattsStrogatz::new(7, 6, 0.7).unwrap().with_seed(seed));
            assert!(edges.iter().all(|(from, to)| from != to));
            assert_eq!(edges.iter().collect::<HashSet<_>>().len(), 21);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (vertices, neighbors, beta) in [(0, 0, 0.1), (10, 3, 0.1), (10, 10, 0.1), (10, 4, 1.1), (10, 4, -0.1)] {
            assert!(matches!(WattsStrogatz::new(vertices, neighbors, beta), Err(Error::Input(_))));
        }
    }
}
