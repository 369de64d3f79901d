//! The Kronecker generator of the Graph 500 benchmark, bit for bit that of its reference code (version 3).
//!
//! An edge descends through the adjacency matrix: at each of `scale` levels it falls into one of four quadrants, with
//! probabilities 0.57, 0.19, 0.19 and 0.05. Edges below the diagonal are mirrored at it. Then vertex ids are scrambled,
//! so that an id tells nothing about the degree. There are multi-edges and self-loops. [Graph 500 specification;
//! Leskovec et al., Kronecker graphs, JMLR 11, 2010]
//!
//! Edge e draws its random numbers 2^64 e steps after the start of the stream. Within a part the stream of the next
//! edge is one matrix product away; only the first edge needs a skip.

use std::collections::HashSet;
use std::fmt;

use super::MAX_VERTICES;
use super::mrg::{MrgState, TransitionMatrix};
use super::text::GeneratorArguments;
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// 1 / (2^31-1): scales a random number to a fraction.
const FRACTION: f64 = 4.656_612_875_245_797e-10;
/// Its square, for the lower bits.
const FRACTION_SQUARED: f64 = 2.168_404_346_990_493e-19;

/// Cumulative probabilities of quadrants, times 10000: above the diagonal, below it, and the first on it.
const ABOVE: u32 = 1900;
const BELOW: u32 = 3800;
const FIRST: u32 = 9500;
/// Random numbers below this are rejected: the number of the others is a multiple of 10000.
const REJECTED: u32 = 0x7FFF_FFFF % 10_000;

/// A Kronecker graph of 2^scale vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kronecker {
    scale: u32,
    edge_factor: u64,
    seeds: (u64, u64),
    /// The start of the stream.
    start: MrgState,
    /// The keys that scramble vertex ids.
    scramble: (u64, u64),
}

impl Kronecker {
    /// The edge factor of the benchmark: edges per vertex.
    pub const EDGE_FACTOR: u64 = 16;
    /// The seeds of the benchmark.
    pub const SEEDS: (u64, u64) = (2, 3);

    /// The graph of the benchmark at this scale. It has edge factor x 2^scale edges.
    pub fn new(scale: u32, edge_factor: u64) -> Result<Self> {
        let most = MAX_VERTICES.ilog2();
        if !(1..=most).contains(&scale) {
            return Err(Error::Input(format!("the scale of a Kronecker graph is from 1 to {most}, not {scale}")));
        }
        if edge_factor.checked_mul(1 << scale).is_none() {
            return Err(Error::Input(format!("a Kronecker graph of {edge_factor} x 2^{scale} edges is too large")));
        }
        Ok(Self::seeded(scale, edge_factor, Self::SEEDS))
    }

    /// The same graph with seeds other than those of the benchmark.
    #[must_use]
    pub fn with_seeds(self, first: u64, second: u64) -> Self {
        Self::seeded(self.scale, self.edge_factor, (first, second))
    }

    fn seeded(scale: u32, edge_factor: u64, seeds: (u64, u64)) -> Self {
        let start = MrgState::new(seeds.0, seeds.1);
        let mut stream = start.skip(50, 7, 0);
        let mut word = || {
            let high = u64::from(stream.draw());
            high.wrapping_mul(0xFFFF_FFFF).wrapping_add(u64::from(stream.draw()))
        };
        Self { scale, edge_factor, seeds, start, scramble: (word(), word()) }
    }

    pub(super) fn parse(arguments: &mut GeneratorArguments) -> Result<Self> {
        let scale = arguments.first()?;
        let edge_factor = arguments.value("edgefactor")?.unwrap_or(Self::EDGE_FACTOR);
        let graph = Self::new(scale, edge_factor)?;
        let Some(seeds) = arguments.value::<String>("seed")? else { return Ok(graph) };
        let (first, second) = match seeds.split_once(':') {
            Some((first, second)) => (first.parse(), second.parse()),
            None => (seeds.parse(), Ok(Self::SEEDS.1)),
        };
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(graph.with_seeds(first, second)),
            _ => Err(arguments.error(format!("`{seeds}` is no seed"))),
        }
    }

    /// The scale: the binary logarithm of the number of vertices.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    /// The number of edges, self-loops and multi-edges included.
    pub fn edge_count(&self) -> u64 {
        self.edge_factor << self.scale
    }

    /// The edge with an index.
    pub fn edge(&self, index: u64) -> Edge {
        self.descend(self.start.skip(0, index, 0))
    }

    #[inline]
    fn descend(&self, mut stream: MrgState) -> Edge {
        let (mut down, mut right) = (0u64, 0u64);
        for _ in 0..self.scale {
            let mut drawn = stream.draw();
            while drawn < REJECTED {
                drawn = stream.draw();
            }
            let drawn = drawn % 10_000;
            // Without branches, which would be unpredictable.
            let goes_down = (ABOVE..BELOW).contains(&drawn) | (drawn >= FIRST);
            let goes_right = !(ABOVE..FIRST).contains(&drawn);
            down = down << 1 | u64::from(goes_down);
            right = right << 1 | u64::from(goes_right);
        }
        // The edge leaves the diagonal at the highest bit in which both differ, and there it must go right.
        let leaves = (down ^ right).checked_ilog2().map_or(0, |bit| 1 << bit);
        let mirrored = down & leaves;
        let (from, to) = (down ^ mirrored, right ^ mirrored);
        // The reference rounds to f32 before and after the product.
        let weight = (f64::from(stream.draw() as f32) * FRACTION) as f32;
        Edge { from: self.scramble_vertex(from), to: self.scramble_vertex(to), weight: f64::from(weight) }
    }

    #[inline]
    fn scramble_vertex(&self, vertex: u64) -> u64 {
        let (first, second) = self.scramble;
        let turned = |product: u64| product.reverse_bits() >> (64 - self.scale);
        let vertex = vertex.wrapping_add(first).wrapping_add(second);
        let vertex = turned(vertex.wrapping_mul(first | 0x4519_8402_1149_3211));
        turned(vertex.wrapping_mul(second | 0x3050_8521_02C8_43A5))
    }

    /// The candidate search key of a drawing.
    pub fn search_key_candidate(&self, drawing: u64) -> u64 {
        let mut stream = self.start.skip(2, 0, 4 * drawing);
        let mut fraction = || {
            let high = f64::from(stream.draw()) * FRACTION;
            high + f64::from(stream.draw()) * FRACTION_SQUARED
        };
        let sum = fraction() + fraction();
        let vertices = 1u64 << self.scale;
        (sum * vertices as f64) as u64 % vertices
    }

    /// Search keys: the first `count` distinct candidates with an edge to another vertex. There may be fewer: drawings
    /// end at the number of vertices.
    pub fn search_keys(&self, count: usize, mut degree_is_positive: impl FnMut(u64) -> bool) -> Vec<u64> {
        let mut seen = HashSet::new();
        let candidates = (0..1u64 << self.scale).map(|drawing| self.search_key_candidate(drawing));
        candidates.filter(|vertex| seen.insert(*vertex) && degree_is_positive(*vertex)).take(count).collect()
    }
}

impl fmt::Display for Kronecker {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "kronecker:{}", self.scale)?;
        if self.edge_factor != Self::EDGE_FACTOR {
            write!(f, ",edgefactor={}", self.edge_factor)?;
        }
        match self.seeds {
            Self::SEEDS => Ok(()),
            (first, second) if second == Self::SEEDS.1 => write!(f, ",seed={first}"),
            (first, second) => write!(f, ",seed={first}:{second}"),
        }
    }
}

impl EdgeSource for Kronecker {
    fn num_vertices(&self) -> Option<u64> {
        Some(1 << self.scale)
    }

    fn orientation(&self) -> Orientation {
        Orientation::Undirected
    }

    fn weights(&self) -> WeightKind {
        WeightKind::Real
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let indices = block_range(self.edge_count(), part, parts);
        let to_next = TransitionMatrix::power_of_two(64);
        let mut stream = self.start.skip(0, indices.start, 0);
        let mut batcher = EdgeBatcher::new(sink);
        for _ in indices {
            batcher.push(self.descend(stream));
            stream = stream.apply(&to_next);
        }
        batcher.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::packed::{pack, pack_weight};
    use crate::generate::sha256::Sha256;

    /// The results of the reference code at a scale, with its seeds and edge factor 16.
    struct Golden {
        scale: u32,
        edges: &'static str,
        weights: &'static str,
        self_loops: usize,
        unique: usize,
        not_isolated: usize,
        largest_degree: u32,
        first: [(u64, u64); 3],
        roots: &'static [u64],
    }

    impl Golden {
        fn check(&self) {
            let graph = Kronecker::new(self.scale, Kronecker::EDGE_FACTOR).unwrap();
            let mut edges = Vec::new();
            graph.read_part(0, 1, &mut |some| edges.extend_from_slice(some)).unwrap();
            assert_eq!(edges.len() as u64, graph.edge_count());
            assert_eq!([0, 1, 2].map(|at: usize| (edges[at].from, edges[at].to)), self.first);

            let (mut ends, mut weights) = (Sha256::new(), Sha256::new());
            for edge in &edges {
                ends.write(&pack(edge.from, edge.to));
                weights.write(&pack_weight(edge.weight));
            }
            assert_eq!(ends.finish()[..16], *self.edges);
            assert_eq!(weights.finish()[..16], *self.weights);

            let mut degrees = vec![0u32; 1 << self.scale];
            let mut pairs = Vec::new();
            for edge in edges.iter().filter(|edge| edge.from != edge.to) {
                degrees[edge.from as usize] += 1;
                degrees[edge.to as usize] += 1;
                pairs.push(edge.from.min(edge.to) << 32 | edge.from.max(edge.to));
            }
            assert_eq!(edges.len() - pairs.len(), self.self_loops);
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), self.unique);
            assert_eq!(degrees.iter().filter(|degree| **degree > 0).count(), self.not_isolated);
            assert_eq!(*degrees.iter().max().unwrap(), self.largest_degree);
            let keys = graph.search_keys(self.roots.len(), |vertex| degrees[vertex as usize] > 0);
            assert_eq!(keys, self.roots);
        }
    }

    #[test]
    fn scale_10_is_that_of_the_reference() {
        let golden = Golden {
            scale: 10,
            edges: "b6890e5051a7a45a",
            weights: "199971e6332f459f",
            self_loops: 144,
            unique: 10551,
            not_isolated: 899,
            largest_degree: 1977,
            first: [(299, 797), (684, 861), (185, 385)],
            roots: &[458, 214, 220, 966, 395, 9, 848, 777, 344, 236, 900, 440, 806, 712, 116, 163],
        };
        golden.check();
        let graph = Kronecker::new(10, 16).unwrap();
        let weights = [0, 1, 2].map(|number| graph.edge(number).weight as f32);
        assert_eq!(weights, [0.490_170_42, 0.528_551_46, 0.651_318_9]);
    }

    #[test]
    fn scale_12_is_that_of_the_reference() {
        let golden = Golden {
            scale: 12,
            edges: "a21c53347c8ca614",
            weights: "58f03ecd7d252607",
            self_loops: 208,
            unique: 48358,
            not_isolated: 3353,
            largest_degree: 4765,
            first: [(2477, 2850), (684, 2881), (2400, 3127)],
            roots: &[1834, 858, 881, 504],
        };
        golden.check();
    }

    #[test]
    fn scale_16_is_that_of_the_reference() {
        let golden = Golden {
            scale: 16,
            edges: "8fd23b636aa8b776",
            weights: "a81bf9d9ef5300b8",
            self_loops: 491,
            unique: 909_598,
            not_isolated: 46815,
            largest_degree: 25485,
            first: [(53430, 37000), (16463, 33235), (57163, 11309)],
            roots: &[29348, 8064, 61854, 29808],
        };
        golden.check();
    }

    #[test]
    fn scale_18_is_that_of_the_reference() {
        let golden = Golden {
            scale: 18,
            edges: "79142c059cb496c7",
            weights: "96b65ca3be3de8b6",
            self_loops: 778,
            unique: 3_805_022,
            not_isolated: 173_692,
            largest_degree: 59225,
            first: [(124_678, 60600), (246_228, 41283), (119_874, 131_147)],
            roots: &[117_395, 54946, 56428, 32257],
        };
        golden.check();
    }

    #[test]
    fn any_edge_is_found_alone() {
        let graph = Kronecker::new(7, 3).unwrap().with_seeds(5, u64::MAX);
        let mut edges = Vec::new();
        graph.read_part(1, 3, &mut |some| edges.extend_from_slice(some)).unwrap();
        assert_eq!(edges, (128..256).map(|number| graph.edge(number)).collect::<Vec<_>>());
        assert_ne!(edges[0], Kronecker::new(7, 3).unwrap().edge(128));
    }

    #[test]
    fn search_keys_differ_and_run_out() {
        let graph = Kronecker::new(4, 16).unwrap();
        let keys = graph.search_keys(64, |vertex| vertex != 3);
        let mut expected: Vec<u64> =
            (0..16).map(|drawing| graph.search_key_candidate(drawing)).filter(|key| *key != 3).collect();
        assert_eq!(keys[..2], expected[..2]);
        expected.sort_unstable();
        expected.dedup();
        let mut sorted = keys;
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for (scale, edge_factor) in [(0, 16), (49, 16), (48, 1 << 16), (1, 1 << 63)] {
            assert!(matches!(Kronecker::new(scale, edge_factor), Err(Error::Input(_))), "{scale} {edge_factor}");
        }
        let largest = Kronecker::new(48, (1 << 16) - 1).unwrap();
        assert!(largest.edge(largest.edge_count() - 1).to < 1 << 48);
    }
}
