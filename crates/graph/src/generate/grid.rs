//! Grids and tori of any number of dimensions: a vertex has edges to those that differ from it by one in one dimension.
//!
//! The last dimension is that in which neighbours have neighbouring numbers. Edges are counted dimension by dimension,
//! and a part takes its share of each: vertices at the border have fewer, so counting vertices would not be fair.

use std::fmt;
use std::str::FromStr;

use super::chance::{Chance, by_chance};
use super::checked_vertices;
use super::text::Arguments;
use crate::outlet::Outlet;
use crate::{Edge, Edges, Error, Orientation, Result, Weights, share};

/// An undirected grid or torus. It has no self-loops and no multi-edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    sizes: Vec<u64>,
    wraps: bool,
    chance: Chance,
}

by_chance!(Grid);

impl Grid {
    /// A grid with these sizes; if it wraps it is a torus. A dimension of two vertices has one edge between them,
    /// wrapped or not.
    pub fn new(sizes: &[u64], wraps: bool) -> Result<Self> {
        if sizes.is_empty() {
            return Err(Error::Input("a grid has at least one dimension".to_owned()));
        }
        checked_vertices(sizes.iter().try_fold(1, |product: u64, size| product.checked_mul(*size)))?;
        Ok(Self { sizes: sizes.to_vec(), wraps, chance: Chance::default() })
    }

    pub(super) fn parse(arguments: &mut Arguments, wraps: bool) -> Result<Self> {
        let Sizes(sizes) = arguments.first()?;
        Ok(Self { chance: Chance::parse(arguments)?, ..Self::new(&sizes, wraps)? })
    }

    /// Steps that can be taken forward in a line of so many vertices.
    fn steps(&self, size: u64) -> u64 {
        if self.wraps && size > 2 { size } else { size - 1 }
    }

    /// Edges of all lines in one dimension.
    fn lines(&self, dimension: usize, part: usize, parts: usize, outlet: &mut Outlet) {
        let size = self.sizes[dimension];
        let steps = self.steps(size);
        let outer: u64 = self.sizes[..dimension].iter().product();
        let inner: u64 = self.sizes[dimension + 1..].iter().product();
        for number in share(outer * steps * inner, part, parts) {
            let (place, below) = (number / inner, number % inner);
            let (above, step) = (place / steps, place % steps);
            let vertex = |step: u64| (above * size + step) * inner + below;
            outlet.put(self.chance.edge(vertex(step), vertex((step + 1) % size)));
        }
    }
}

/// Sizes with an x between them.
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
        write!(f, "{}:{}{}", if self.wraps { "torus" } else { "grid" }, sizes.join("x"), self.chance)
    }
}

impl Edges for Grid {
    fn vertices(&self) -> Option<u64> {
        Some(self.sizes.iter().product())
    }

    fn orientation(&self) -> Orientation {
        Orientation::Undirected
    }

    fn weights(&self) -> Weights {
        self.chance.weights()
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut outlet = Outlet::new(sink);
        (0..self.sizes.len()).for_each(|dimension| self.lines(dimension, part, parts, &mut outlet));
        outlet.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(sizes: &[u64], wraps: bool) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        let graph = Grid::new(sizes, wraps).unwrap();
        graph.part(0, 1, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
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
    fn neighbours_differ_by_one_in_one_dimension() {
        for (sizes, wraps, count) in [([3, 4, 5], false, 2 * 20 + 3 * 15 + 4 * 12), ([3, 4, 5], true, 180)] {
            let coordinates = |vertex: u64| [vertex / 20, vertex / 5 % 4, vertex % 5];
            let mut edges = edges(&sizes, wraps);
            for (from, to) in &edges {
                let (from, to) = (coordinates(*from), coordinates(*to));
                let moved: Vec<_> = (0..3).filter(|at| from[*at] != to[*at]).collect();
                let [at] = moved[..] else { panic!("{from:?} {to:?}") };
                assert!(from[at] + 1 == to[at] || wraps && from[at] == sizes[at] - 1 && to[at] == 0);
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
            graph.part(part, 2, &mut |some| count += some.len()).unwrap();
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
