//! Small worlds: a ring whose vertices know their nearest neighbours, with some edges bent to anywhere.
//! [Watts, Strogatz, Collective dynamics of small-world networks, Nature 393, 1998]
//!
//! Each vertex has the edges to half of its neighbours, those that follow it. Each of them ends, with probability beta,
//! at a random vertex instead: not at itself, and at none at which an edge that it has already ends. A vertex does not
//! know what the other end does, as any row is made alone; so two vertices may have an edge to each other twice. That
//! is as rare as hitting one vertex of all.

use std::fmt;

use super::chance::{Chance, by_chance};
use super::random::{Purpose, Stream};
use super::text::Arguments;
use super::{checked_probability, checked_vertices};
use crate::outlet::Outlet;
use crate::{Edge, Edges, Error, Orientation, Result, Weights, share};

/// An undirected ring with rewired edges. It has no self-loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WattsStrogatz {
    vertices: u64,
    /// Neighbours of a vertex in the ring.
    neighbours: u64,
    rewired: f64,
    chance: Chance,
}

by_chance!(WattsStrogatz);

impl WattsStrogatz {
    /// A ring in which each vertex has so many neighbours, an even number, and edges are rewired with probability
    /// `beta`.
    pub fn new(vertices: u64, neighbours: u64, beta: f64) -> Result<Self> {
        checked_vertices(Some(vertices))?;
        if !neighbours.is_multiple_of(2) || neighbours >= vertices {
            let what = format!("an even number of neighbours below the {vertices} vertices");
            return Err(Error::Input(format!("a Watts-Strogatz graph needs {what}, not {neighbours}")));
        }
        Ok(Self { vertices, neighbours, rewired: checked_probability(beta)?, chance: Chance::default() })
    }

    pub(super) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let graph = Self::new(arguments.first()?, arguments.required("k")?, arguments.required("beta")?)?;
        Ok(Self { chance: Chance::parse(arguments)?, ..graph })
    }

    /// Puts the ends of a vertex's edges into `ends`.
    fn row(&self, from: u64, ends: &mut Vec<u64>) {
        let mut stream = Stream::new(self.chance.seed, Purpose::Row, from);
        ends.clear();
        ends.extend((1..=self.neighbours / 2).map(|distance| (from + distance) % self.vertices));
        for at in 0..ends.len() {
            // A fraction is above 0.
            if stream.fraction() <= self.rewired {
                ends[at] = loop {
                    let end = stream.below(self.vertices);
                    // At most half of all others are taken.
                    if end != from && !ends.contains(&end) {
                        break end;
                    }
                };
            }
        }
    }
}

impl fmt::Display for WattsStrogatz {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { vertices, neighbours, rewired, chance } = self;
        write!(f, "watts-strogatz:{vertices},k={neighbours},beta={rewired}{chance}")
    }
}

impl Edges for WattsStrogatz {
    fn vertices(&self) -> Option<u64> {
        Some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        Orientation::Undirected
    }

    fn weights(&self) -> Weights {
        self.chance.weights()
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut outlet = Outlet::new(sink);
        let mut ends = Vec::new();
        for from in share(self.vertices, part, parts) {
            self.row(from, &mut ends);
            ends.iter().for_each(|to| outlet.put(self.chance.edge(from, *to)));
        }
        outlet.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn edges(graph: WattsStrogatz) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        graph.part(0, 1, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
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
        for (vertices, neighbours, beta) in [(0, 0, 0.1), (10, 3, 0.1), (10, 10, 0.1), (10, 4, 1.1), (10, 4, -0.1)] {
            assert!(matches!(WattsStrogatz::new(vertices, neighbours, beta), Err(Error::Input(_))));
        }
    }
}
