//! Groups under which ranks are shifted.

/// Group operation on ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SymmetryGroup {
    /// Addition modulo the number of ranks.
    Cyclic(u32),
    /// Addition in each dimension, modulo its size.
    Torus(Vec<u32>),
    /// Bitwise exclusive or.
    Xor,
}

impl SymmetryGroup {
    /// A rank shifted by another.
    pub(crate) fn shift(&self, rank: u32, by: u32) -> u32 {
        match self {
            SymmetryGroup::Cyclic(ranks) => ((u64::from(rank) + u64::from(by)) % u64::from(*ranks)) as u32,
            SymmetryGroup::Xor => rank ^ by,
            SymmetryGroup::Torus(dims) => map_coordinates(dims, rank, by, |size, a, b| (a + b) % size),
        }
    }

    /// The inverse of a rank: shifts it to 0.
    #[inline]
    pub(crate) fn inverse(&self, rank: u32) -> u32 {
        match self {
            SymmetryGroup::Cyclic(ranks) => {
                if rank == 0 {
                    0
                } else {
                    ranks - rank
                }
            }
            SymmetryGroup::Xor => rank,
            SymmetryGroup::Torus(dims) => map_coordinates(dims, rank, 0, |size, a, _| (size - a) % size),
        }
    }

    /// Whether a rank is exactly half a ring away from rank 0 in any dimension.
    pub(crate) fn is_half_ring_distance(&self, rank: u32) -> bool {
        let SymmetryGroup::Torus(dims) = self else { return false };
        let mut half = false;
        map_coordinates(dims, rank, 0, |size, a, _| {
            half |= a > 0 && 2 * a == size;
            a
        });
        half
    }
}

/// Combines two ranks coordinate by coordinate; returns the rank with the resulting coordinates.
fn map_coordinates(dims: &[u32], mut a: u32, mut b: u32, mut combine: impl FnMut(u32, u32, u32) -> u32) -> u32 {
    let (mut result, mut stride) = (0, 1);
    for &size in dims {
        result += stride * combine(size, a % size, b % size);
        (a, b, stride) = (a / size, b / size, stride * size);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_shifted_by_its_inverse_is_0() {
        for group in [SymmetryGroup::Cyclic(24), SymmetryGroup::Torus(vec![4, 3, 2]), SymmetryGroup::Xor] {
            for rank in 0..24 {
                assert_eq!(group.shift(rank, group.inverse(rank)), 0, "{group:?}");
            }
        }
        let torus = SymmetryGroup::Torus(vec![4, 3, 2]);
        assert_eq!(torus.shift(3 + 4 * 2, 1 + 4), 0);
        assert!(torus.is_half_ring_distance(2) && torus.is_half_ring_distance(12) && !torus.is_half_ring_distance(5));
    }
}
