//! The random graph G(n, p): each pair of vertices has an edge with the same probability, independently of all others.
//! [Gilbert, Random graphs, 1959; Erdős, Rényi, On random graphs I, 1959]
//!
//! Cost: linear in vertices and edges, as the distance to the next pair with an edge is drawn. [Batagelj, Brandes,
//! Efficient generation of large random networks, 2005] The candidates of a vertex are those that follow it on a
//! circle: all others in a directed graph, half of them in an undirected one. So each pair is a candidate once, and all
//! rows have the same length, unlike those of a triangular matrix.

use std::fmt;

use super::random::{Bernoulli, RandomStream, StreamPurpose};
use super::seeding::{Seeding, impl_seeding};
use super::text::GeneratorArguments;
use super::{check_probability, check_vertices};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// The density of edges, as it was specified.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Density {
    Degree(f64),
    Probability(f64),
}

/// A G(n, p) graph. It has no self-loops and no multi-edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErdosRenyi {
    vertices: u64,
    density: Density,
    directed: bool,
    seeding: Seeding,
}

impl_seeding!(ErdosRenyi);

impl ErdosRenyi {
    /// An undirected graph with a mean degree.
    pub fn with_degree(vertices: u64, degree: f64) -> Result<Self> {
        let vertices = check_vertices(Some(vertices))?;
        let most = vertices - 1;
        if !(0.0..=most as f64).contains(&degree) {
            return Err(Error::Input(format!(
                "the degree among {vertices} vertices is from 0 to {most}, not {degree}"
            )));
        }
        Ok(Self { vertices, density: Density::Degree(degree), directed: false, seeding: Seeding::default() })
    }

    /// An undirected graph with the probability of an edge.
    pub fn with_probability(vertices: u64, probability: f64) -> Result<Self> {
        let vertices = check_vertices(Some(vertices))?;
        let density = Density::Probability(check_probability(probability)?);
        Ok(Self { vertices, density, directed: false, seeding: Seeding::default() })
    }

    /// The directed graph: each direction of a pair is drawn independently. The degree is the out-degree.
    #[must_use]
    pub fn directed(mut self) -> Self {
        self.directed = true;
        self
    }

    pub(super) fn parse(arguments: &mut GeneratorArguments) -> Result<Self> {
        let vertices = arguments.first()?;
        let graph = match (arguments.value("degree")?, arguments.value("p")?) {
            (Some(degree), None) => Self::with_degree(vertices, degree)?,
            (None, Some(probability)) => Self::with_probability(vertices, probability)?,
            _ => return Err(arguments.error("one of `degree=` and `p=` is needed")),
        };
        Ok(Self { directed: arguments.flag("directed"), seeding: Seeding::parse(arguments)?, ..graph })
    }

    /// The probability of an edge.
    pub fn probability(&self) -> f64 {
        match self.density {
            Density::Probability(probability) => probability,
            Density::Degree(0.0) => 0.0,
            Density::Degree(degree) => degree / (self.vertices - 1) as f64,
        }
    }

    /// The number of candidates of a vertex.
    fn num_candidates(&self, vertex: u64) -> u64 {
        if self.directed {
            self.vertices - 1
        } else {
            // Opposite vertices of an even circle would be candidates of each other.
            let opposite = self.vertices.is_multiple_of(2) && vertex < self.vertices / 2;
            (self.vertices - 1) / 2 + u64::from(opposite)
        }
    }
}

impl fmt::Display for ErdosRenyi {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "erdos-renyi:{}", self.vertices)?;
        match self.density {
            Density::Degree(degree) => write!(f, ",degree={degree}")?,
            Density::Probability(probability) => write!(f, ",p={probability}")?,
        }
        write!(f, "{}{}", if self.directed { ",directed" } else { "" }, self.seeding)
    }
}

impl EdgeSource for ErdosRenyi {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        if self.directed { Orientation::Directed } else { Orientation::Undirected }
    }

    fn weights(&self) -> WeightKind {
        self.seeding.weights()
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let bernoulli = Bernoulli::new(self.probability());
        let mut batcher = EdgeBatcher::new(sink);
        for from in block_range(self.vertices, part, parts) {
            let mut stream = RandomStream::new(self.seeding.seed, StreamPurpose::Row, from);
            bernoulli.for_each_success(self.num_candidates(from), &mut stream, |skipped| {
                let to = from + 1 + skipped;
                let to = if to < self.vertices { to } else { to - self.vertices };
                batcher.push(self.seeding.edge(from, to));
            });
        }
        batcher.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn edges(graph: ErdosRenyi) -> Vec<Edge> {
        let mut edges = Vec::new();
        graph.read_part(0, 1, &mut |some| edges.extend_from_slice(some)).unwrap();
        edges
    }

    #[test]
    fn certainty_gives_each_pair_once() {
        for vertices in 1..12 {
            let all = ErdosRenyi::with_probability(vertices, 1.0).unwrap();
            let pairs = edges(all).into_iter().map(|edge| (edge.from.min(edge.to), edge.from.max(edge.to)));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort_unstable();
            let expected = (0..vertices).flat_map(|low| (low + 1..vertices).map(move |high| (low, high)));
            assert_eq!(pairs, expected.collect::<Vec<_>>());

            let mut arcs: Vec<_> = edges(all.directed()).into_iter().map(|edge| (edge.from, edge.to)).collect();
            arcs.sort_unstable();
            let expected = (0..vertices).flat_map(|from| (0..vertices).map(move |to| (from, to)));
            assert_eq!(arcs, expected.filter(|(from, to)| from != to).collect::<Vec<_>>());
        }
        assert_eq!(edges(ErdosRenyi::with_probability(100, 0.0).unwrap()), []);
        assert_eq!(edges(ErdosRenyi::with_degree(1, 0.0).unwrap()), []);
    }

    #[test]
    fn counts_are_near_their_expectation() {
        for (graph, pairs, degree) in [
            (ErdosRenyi::with_degree(20_001, 16.0).unwrap(), 20_001.0 * 20_000.0 / 2.0, 16.0),
            (ErdosRenyi::with_degree(20_000, 5.5).unwrap().directed(), 20_000.0 * 19_999.0, 5.5),
            (ErdosRenyi::with_probability(800, 0.4).unwrap(), 800.0 * 799.0 / 2.0, 0.4 * 799.0),
        ] {
            let edges = edges(graph);
            let probability = graph.probability();
            let mean: f64 = pairs * probability;
            let deviation = (mean * (1.0 - probability)).sqrt();
            assert!((edges.len() as f64 - mean).abs() < 4.0 * deviation, "{graph}: {} for {mean}", edges.len());
            // A degree is a sum of many trials: six standard deviations are enough for all vertices.
            let mut degrees = vec![0.0; graph.vertices as usize];
            for edge in &edges {
                degrees[edge.from as usize] += 1.0;
                if !graph.directed {
                    degrees[edge.to as usize] += 1.0;
                }
            }
            let far = degrees.iter().find(|count: &&f64| (**count - degree).abs() > 6.0 * degree.sqrt() + 6.0);
            assert_eq!(far, None, "{graph}");
        }
    }

    #[test]
    fn all_pairs_are_alike() {
        let mut counts = [[0u32; 10]; 10];
        for seed in 0..2000 {
            for edge in edges(ErdosRenyi::with_probability(10, 0.3).unwrap().with_seed(seed)) {
                counts[edge.from.min(edge.to) as usize][edge.from.max(edge.to) as usize] += 1;
            }
        }
        for (low, row) in counts.into_iter().enumerate() {
            for (high, count) in row.into_iter().enumerate() {
                let expected = if low < high { 600 } else { 0 };
                assert!(count.abs_diff(expected) <= expected / 6, "{low} {high}: {count}");
            }
        }
    }

    #[test]
    fn weights_do_not_change_the_edges() {
        let graph = ErdosRenyi::with_degree(1000, 4.0).unwrap();
        let (plain, weighted) = (edges(graph), edges(graph.with_weights()));
        assert!(plain.iter().all(|edge| edge.weight == 1.0));
        assert!(plain.iter().zip(&weighted).all(|(one, other)| (one.from, one.to) == (other.from, other.to)));
        let different: HashSet<_> = weighted.iter().map(|edge| edge.weight.to_bits()).collect();
        assert!(plain.len() == weighted.len() && different.len() > weighted.len() * 9 / 10);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(ErdosRenyi::with_probability(1 << 48, 0.0).is_ok());
        for bad in [
            ErdosRenyi::with_degree(0, 0.0),
            ErdosRenyi::with_degree(10, 9.1),
            ErdosRenyi::with_degree(10, f64::NAN),
            ErdosRenyi::with_probability(10, -0.1),
            ErdosRenyi::with_probability((1 << 48) + 1, 0.1),
        ] {
            assert!(matches!(bad, Err(Error::Input(_))), "{bad:?}");
        }
    }
}
