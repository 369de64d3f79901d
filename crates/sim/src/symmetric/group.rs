//! Ways to shift ranks.

/// How ranks are added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Modulo so many.
    Cyclic(u32),
    /// In each dimension, modulo its size.
    Torus(Vec<u32>),
    /// Bit by bit.
    Xor,
}

impl Group {
    /// A rank shifted by another.
    pub(crate) fn shift(&self, rank: u32, by: u32) -> u32 {
        match self {
            Group::Cyclic(ranks) => ((u64::from(rank) + u64::from(by)) % u64::from(*ranks)) as u32,
            Group::Xor => rank ^ by,
            Group::Torus(dims) => by_dimensions(dims, rank, by, |size, a, b| (a + b) % size),
        }
    }

    /// What shifts a rank to 0.
    #[inline]
    pub(crate) fn inverse(&self, rank: u32) -> u32 {
        match self {
            Group::Cyclic(ranks) => {
                if rank == 0 {
                    0
                } else {
                    ranks - rank
                }
            }
            Group::Xor => rank,
            Group::Torus(dims) => by_dimensions(dims, rank, 0, |size, a, _| (size - a) % size),
        }
    }

    /// Whether a rank is exactly half a ring away from rank 0 in any dimension.
    pub(crate) fn is_half_a_ring(&self, rank: u32) -> bool {
        let Group::Torus(dims) = self else { return false };
        let mut half = false;
        by_dimensions(dims, rank, 0, |size, a, _| {
            half |= a > 0 && 2 * a == size;
            a
        });
        half
    }
}

/// Does something with each coordinate of two ranks; the rank with the results as coordinates.
fn by_dimensions(dims: &[u32], mut a: u32, mut b: u32, mut combine: impl FnMut(u32, u32, u32) -> u32) -> u32 {
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
        for group in [Group::Cyclic(24), Group::Torus(vec![4, 3, 2]), Group::Xor] {
            for rank in 0..24 {
                assert_eq!(group.shift(rank, group.inverse(rank)), 0, "{group:?}");
            }
        }
        let torus = Group::Torus(vec![4, 3, 2]);
        assert_eq!(torus.shift(3 + 4 * 2, 1 + 4), 0);
        assert!(torus.is_half_a_ring(2) && torus.is_half_a_ring(12) && !torus.is_half_a_ring(5));
    }
}
