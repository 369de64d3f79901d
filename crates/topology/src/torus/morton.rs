//! Orders of the stages of recursive doubling in which long messages take short routes. [thesis 3.4.1]
//!
//! The highest coordinate bits come first, whatever their dimension: an exchange over 2^b hops costs about 2^b, and
//! messages double in length from stage to stage, so the longest routes must carry the shortest messages. Among equal
//! bits the last dimension comes first.

use std::cmp::Reverse;

use super::Torus;

impl Torus {
    /// All nodes in Morton order: sorted by their coordinate bits, highest bits first.
    ///
    /// Distance halving on this order is the thesis's reordered recursive doubling. Sizes need not be powers of two.
    pub fn morton_order(&self) -> Vec<u32> {
        let bits = self.bits_by_distance();
        let mut nodes: Vec<u32> = (0..self.nodes()).collect();
        nodes.sort_by_cached_key(|&node| {
            let coordinates = self.coordinates(node);
            bits.iter().fold(0u64, |key, &(bit, dimension)| key << 1 | u64::from(coordinates[dimension] >> bit & 1))
        });
        nodes
    }

    /// The thesis's schedule S: the bit of the node number in which partners differ in each stage.
    ///
    /// `None` if a size is not a power of two: the bits of the node number are then not coordinate bits.
    pub fn schedule_bits(&self) -> Option<Vec<u32>> {
        let all_powers = self.dims.iter().all(|size| size.is_power_of_two());
        let bit_of_node = |(bit, dimension)| bit + self.stride(dimension).ilog2();
        all_powers.then(|| self.bits_by_distance().into_iter().map(bit_of_node).collect())
    }

    /// The bits of all coordinates with their dimensions, the highest first.
    fn bits_by_distance(&self) -> Vec<(u32, usize)> {
        let of_dimension =
            |(dimension, size): (usize, &u32)| (0..coordinate_bits(*size)).map(move |bit| (bit, dimension));
        let mut bits: Vec<_> = self.dims.iter().enumerate().flat_map(of_dimension).collect();
        bits.sort_by_key(|&bit| Reverse(bit));
        bits
    }
}

/// Bits that a coordinate below `size` needs.
fn coordinate_bits(size: u32) -> u32 {
    u32::BITS - (size - 1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torus(dims: &[u32]) -> Torus {
        Torus::new(dims, &vec![true; dims.len()]).unwrap()
    }

    #[test]
    fn the_schedule_of_the_thesis() {
        assert_eq!(torus(&[8, 8, 8]).schedule_bits().unwrap(), [8, 5, 2, 7, 4, 1, 6, 3, 0]);
        assert_eq!(torus(&[8, 16, 32]).schedule_bits().unwrap(), [11, 10, 6, 9, 5, 2, 8, 4, 1, 7, 3, 0]);
        assert_eq!(torus(&[8, 1]).schedule_bits().unwrap(), [2, 1, 0]);
        assert_eq!(torus(&[6, 8]).schedule_bits(), None);
    }

    #[test]
    fn morton_order_is_the_schedule_applied_to_the_index() {
        for dims in [[8, 8, 8], [2, 8, 4]] {
            let torus = torus(&dims);
            let schedule = torus.schedule_bits().unwrap();
            for (node, index) in torus.morton_order().into_iter().zip(0u32..) {
                let spread = schedule.iter().rev().enumerate().map(|(bit, to)| (index >> bit & 1) << to).sum::<u32>();
                assert_eq!(node, spread);
            }
        }
        assert_eq!(torus(&[4, 4]).morton_order()[..6], [0, 1, 4, 5, 2, 3]);
    }

    #[test]
    fn odd_sizes_are_ordered_too() {
        let order = torus(&[3, 5]).morton_order();
        assert_eq!(order, [0, 1, 3, 4, 2, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14]);
    }
}
