//! Places as coordinates and back.

use std::ops::Deref;

use super::{MAX_DIMENSIONS, Torus};

/// The coordinates of a place, a slice with one entry per dimension that needs no allocation.
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
    /// The coordinates of a place.
    pub fn coordinates(&self, place: u32) -> Coordinates {
        let mut values = [0; MAX_DIMENSIONS];
        let mut rest = place;
        for (value, size) in values.iter_mut().zip(&self.dims) {
            *value = rest % size;
            rest /= size;
        }
        Coordinates { values, dimensions: self.dims.len() }
    }

    /// The place with these coordinates.
    pub fn place_of(&self, coordinates: &[u32]) -> u32 {
        debug_assert!(
            coordinates.len() == self.dims.len() && coordinates.iter().zip(&self.dims).all(|(c, size)| c < size)
        );
        coordinates.iter().zip(&self.dims).rev().fold(0, |place, (coordinate, size)| place * size + coordinate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dimension_is_the_fastest() {
        let torus = Torus::new(&[4, 3, 5], &[true; 3]).unwrap();
        assert_eq!(&*torus.coordinates(1 + 4 * (2 + 3 * 4)), &[1, 2, 4]);
        for place in 0..torus.places() {
            assert_eq!(torus.place_of(&torus.coordinates(place)), place);
        }
    }
}
