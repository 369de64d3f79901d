//! Conversion between nodes and coordinates.

use std::ops::Deref;

use super::{MAX_DIMENSIONS, Torus};

/// The coordinates of a node: a slice with one entry per dimension, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinates {
    pub(super) values: [u32; MAX_DIMENSIONS],
    dimensions: usize,
}

impl Deref for Coordinates {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.values[..self.dimensions]
    }
}

impl Torus {
    /// The coordinates of a node.
    pub fn coordinates(&self, node: u32) -> Coordinates {
        let mut values = [0; MAX_DIMENSIONS];
        let mut rest = node;
        for (value, size) in values.iter_mut().zip(&self.dims) {
            *value = rest % size;
            rest /= size;
        }
        Coordinates { values, dimensions: self.dims.len() }
    }

    /// The node with these coordinates.
    pub fn node_at(&self, coordinates: &[u32]) -> u32 {
        debug_assert!(
            coordinates.len() == self.dims.len() && coordinates.iter().zip(&self.dims).all(|(c, size)| c < size)
        );
        coordinates.iter().zip(&self.dims).rev().fold(0, |node, (coordinate, size)| node * size + coordinate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dimension_varies_fastest() {
        let torus = Torus::new(&[4, 3, 5], &[true; 3]).unwrap();
        assert_eq!(&*torus.coordinates(1 + 4 * (2 + 3 * 4)), &[1, 2, 4]);
        for node in 0..torus.nodes() {
            assert_eq!(torus.node_at(&torus.coordinates(node)), node);
        }
    }
}
