//! A hash of small numbers, such as ranks and cells.

use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for maps with several lookups per message, where the default hash would be a tenth of the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

/// Builds [`NumberHasher`]s.
pub type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.write_u32(number as u32);
        self.write_u32((number >> 32) as u32);
    }

    /// Maps use the lowest and the highest bits. The low bits of a product depend only on those of its factors, which
    /// are equal for numbers that differ in high bits, such as the tags of operations.
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    /// Random hashes would leave 37% of the buckets empty.
    #[test]
    fn shifted_numbers_spread_over_the_low_bits() {
        for shift in [0, 8, 18, 32, 40] {
            let bucket = |number: u64| BuildNumberHasher::default().hash_one(number << shift) & 0x3ff;
            let buckets: HashSet<u64> = (0..1024).map(bucket).collect();
            assert!(buckets.len() > 512, "{} of 1024 buckets for numbers << {shift}", buckets.len());
        }
    }
}
