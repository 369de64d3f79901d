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

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
