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

    /// In halves: maps use the low bits of a hash, which a product's high half does not reach.
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.write_u32(number as u32);
        self.write_u32((number >> 32) as u32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
