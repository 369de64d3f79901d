//! Tori and meshes of up to eight dimensions, and mixtures of the two.

mod coloring;
mod coordinates;
mod cycles;
mod hamiltonian;
mod morton;
mod route;

pub use coordinates::Coordinates;
pub use route::TieBreak;

use crate::error::link_count;
use crate::{Error, Result};

/// The maximum number of dimensions of a torus.
pub const MAX_DIMENSIONS: usize = 8;

/// A grid whose dimensions are rings where they wrap and lines where they do not.
///
/// The first dimension varies fastest: node = x + X (y + Y z). The link that leaves a node in dimension d has the id
/// (node * dimensions + d) * 2, plus 1 in the negative direction. A ring of two nodes has two links each way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    dims: Vec<u32>,
    wrap: Vec<bool>,
}

impl Torus {
    pub(crate) fn new(dims: &[u32], wrap: &[bool]) -> Result<Self> {
        if dims.is_empty() || dims.len() > MAX_DIMENSIONS || dims.contains(&0) {
            return Err(Error::Dimensions { dims: dims.to_vec() });
        }
        if wrap.len() != dims.len() {
            return Err(Error::Wrap { wraps: wrap.len(), dims: dims.len() });
        }
        let nodes = dims.iter().fold(1u128, |nodes, &size| nodes.saturating_mul(size.into()));
        link_count(nodes.saturating_mul(2 * dims.len() as u128))?;
        Ok(Torus { dims: dims.to_vec(), wrap: wrap.to_vec() })
    }

    /// The size of each dimension, the fastest first.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Whether the dimension is a ring.
    pub fn wraps(&self, dimension: usize) -> bool {
        self.wrap[dimension]
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.dims.iter().product()
    }

    /// The difference of the numbers of two neighbors in a dimension.
    pub fn stride(&self, dimension: usize) -> u32 {
        self.dims[..dimension].iter().product()
    }

    /// Links that one node can drive concurrently: 2 per dimension, 1 on a line of two, none in a dimension of size 1.
    pub(crate) fn ports(&self) -> u32 {
        let of_dimension = |(&size, &wraps): (&u32, &bool)| match size {
            1 => 0,
            2 if !wraps => 1,
            _ => 2,
        };
        self.dims.iter().zip(&self.wrap).map(of_dimension).sum::<u32>().max(1)
    }

    pub(crate) fn links(&self) -> u32 {
        self.nodes() * self.dims.len() as u32 * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tori_are_errors() {
        assert_eq!(Torus::new(&[], &[]), Err(Error::Dimensions { dims: vec![] }));
        assert_eq!(Torus::new(&[4, 0], &[true; 2]), Err(Error::Dimensions { dims: vec![4, 0] }));
        assert!(Torus::new(&[2; 8], &[true; 8]).is_ok());
        assert_eq!(Torus::new(&[1; 9], &[true; 9]), Err(Error::Dimensions { dims: vec![1; 9] }));
        assert_eq!(Torus::new(&[4, 4], &[true; 3]), Err(Error::Wrap { wraps: 3, dims: 2 }));
        assert_eq!(Torus::new(&[1 << 16; 2], &[true; 2]), Err(Error::TooLarge { links: 1 << 34 }));
        assert!(matches!(Torus::new(&[u32::MAX; 8], &[true; 8]), Err(Error::TooLarge { .. })));
        assert!(Torus::new(&[1 << 15, 1 << 14], &[true; 2]).is_ok());
    }

    #[test]
    fn ports_count_the_links_that_a_node_has() {
        let ports = |dims: &[u32], wrap: &[bool]| Torus::new(dims, wrap).unwrap().ports();
        assert_eq!(ports(&[8, 8, 8], &[true; 3]), 6);
        assert_eq!(ports(&[8, 8], &[false; 2]), 4);
        assert_eq!(ports(&[2, 2, 1], &[true, false, true]), 3);
        assert_eq!(ports(&[1], &[true]), 1);
    }
}
