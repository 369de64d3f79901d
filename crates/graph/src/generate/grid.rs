//! Grids and tori of any dimension: neighbors differ by one in one coordinate.
//!
//! Ids are in row-major order. Each part has a block of the edges of each dimension: vertices at the border have fewer
//! edges, so blocks of vertices would be unbalanced.

use std::fmt;
use std::str::FromStr;

use super::check_vertices;
use super::seeding::{Seeding, impl_seeding};
use super::text::GeneratorArguments;
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// An undirected grid or torus. It has no self-loops and no multi-edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    sizes: Vec<u64>,
    is_periodic: bool,
    seeding: Seeding,
}

impl_seeding!(Grid);

impl Grid {
    /// A grid with these sizes; a torus if it is periodic. A dimension of size two has one edge, periodic or not.
    pub fn new(sizes: &[u64], is_periodic: bool) -> Result<Self> {
        if sizes.is_empty() {
            return Err(Error::Input("a grid has at least one dimension".to_owned()));
        }
        check_vertices(sizes.iter().try_fold(1, |product: u64, size| product.checked_mul(*size)))?;
        Ok(Self { sizes: sizes.to_vec(), is_periodic, seeding: Seeding::default() })
    }

    pub(super) fn parse(arguments: &mut GeneratorArguments, is_periodic: bool) -> Result<Self> {
        let Sizes(sizes) = arguments.first()?;
        Ok(Self { seeding: Seeding::parse(arguments)?, ..Self::new(&sizes, is_periodic)? })
    }

    /// The number of edges along a line of `size` vertices.
    fn steps(&self, size: u64) -> u64 {
        if self.is_periodic && size > 2 { size } else { size - 1 }
    }

    /// Emits the edges of one dimension.
    fn emit_dimension(&self, dimension: usize, part: usize, parts: usize, batcher: &mut EdgeBatcher) {
        let size = self.sizes[dimension];
        let steps = self.steps(size);
        let outer: u64 = self.sizes[..dimension].iter().product();
        let inner: u64 = self.sizes[dimension + 1..].iter().product();
        for edge in block_range(outer * steps * inner, part, parts) {
            let (line_step, below) = (edge / inner, edge % inner);
            let (above, step) = (line_step / steps, line_step % steps);
            let vertex = |step: u64| (above * size + step) * inner + below;
            batcher.push(self.seeding.edge(vertex(step), vertex((step + 1) % size)));
        }
    }
}

/// Sizes separated by `x`.
struct Sizes(Vec<u64>);

impl FromStr for Sizes {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        text.split('x').map(str::parse).collect::<std::result::Result<_, _>>().map(Sizes)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        write!(f, "{}:{}{}", if self.is_periodic { "torus" } else { "grid" }, sizes.join("x"), self.seeding)
    }
}

impl EdgeSource for Grid {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.sizes.iter().product())
    }

    fn orientation(&self) -> Orientation {
        Orientation::Undirected
    }

    fn weights(&self) -> WeightKind {
        self.seeding.weights()
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut batcher = EdgeBatcher::new(sink);
        (0..self.sizes.len()).for_each(|dimension| self.emit_dimension(dimension, part, parts, &mut batcher));
        batcher.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(sizes: &[u64], is_periodic: bool) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        let graph = Grid::new(sizes, is_periodic).unwrap();
        graph.read_part(0, 1, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
        edges
    }

    #[test]
    fn small_grids() {
        assert_eq!(edges(&[2, 3], false), [(0, 3), (1, 4), (2, 5), (0, 1), (1, 2), (3, 4), (4, 5)]);
        let wrapped = [(0, 3), (1, 4), (2, 5), (0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)];
        assert_eq!(edges(&[2, 3], true), wrapped);
        assert_eq!(edges(&[1, 1], true), []);
    }

    #[test]
    fn neighbors_differ_by_one_in_one_dimension() {
        for (sizes, is_periodic, count) in [([3, 4, 5], false, 2 * 20 + 3 * 15 + 4 * 12), ([3, 4, 5], true, 180)] {
            let coordinates = |vertex: u64| [vertex / 20, vertex / 5 % 4, vertex % 5];
            let mut edges = edges(&sizes, is_periodic);
            for (from, to) in &edges {
                let (from, to) = (coordinates(*from), coordinates(*to));
                let changed: Vec<_> = (0..3).filter(|at| from[*at] != to[*at]).collect();
                let [at] = changed[..] else { panic!("{from:?} {to:?}") };
                assert!(from[at] + 1 == to[at] || is_periodic && from[at] == sizes[at] - 1 && to[at] == 0);
            }
            edges.sort_unstable();
            edges.dedup();
            assert_eq!(edges.len() as u64, count);
        }
    }

    #[test]
    fn parts_are_fair_where_vertices_are_not() {
        let graph = Grid::new(&[2, 1000], false).unwrap();
        let lengths = [0, 1].map(|part| {
            let mut count = 0;
            graph.read_part(part, 2, &mut |some| count += some.len()).unwrap();
            count
        });
        assert_eq!(lengths, [1499, 1499]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for sizes in [&[][..], &[4, 0], &[1 << 40, 1 << 40], &[1 << 49]] {
            assert!(matches!(Grid::new(sizes, false), Err(Error::Input(_))), "{sizes:?}");
        }
    }
}
