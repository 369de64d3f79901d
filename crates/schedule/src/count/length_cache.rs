//! A cache of the lengths of block ranges. A scattered range is slow to measure, and many ranks send the same one.

use crate::layout::{BlockLayouts, BufferMap};
use crate::op::BlockRange;

pub(super) struct LengthCache {
    /// Empty if ranks have different layouts.
    entries: Vec<(BlockRange, usize)>,
}

impl LengthCache {
    const CAPACITY: usize = 1 << 14;

    pub(super) fn new(layouts: &[BlockLayouts]) -> Self {
        let all_same = layouts.windows(2).all(|two| two[0] == two[1]);
        Self { entries: if all_same { vec![(BlockRange::EMPTY, 0); Self::CAPACITY] } else { Vec::new() } }
    }

    pub(super) fn length_of(&mut self, buffer_map: BufferMap<'_>, part: BlockRange) -> usize {
        // Blocks in the order of block numbers are measured in constant time.
        if part.len < 2 || part.view == 0 && part.segments == 1 || self.entries.is_empty() {
            return buffer_map.range_len(part);
        }
        let key =
            u64::from(part.lo) << 32 ^ u64::from(part.segment) << 16 ^ u64::from(part.view) << 8 ^ u64::from(part.len);
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % Self::CAPACITY;
        if self.entries[slot].0 != part {
            self.entries[slot] = (part, buffer_map.range_len(part));
        }
        self.entries[slot].1
    }
}
