//! Lengths of parts in bytes, cached: a scattered part is expensive to measure, and many ranks send it.

use treepie_schedule::{BlockRange, BufferMap};

use super::workload::{BlockSizes, Workload};

pub(crate) struct PartLengths {
    /// Recently measured parts, direct-mapped; empty if ranks have different layouts.
    cache: Vec<(BlockRange, u64)>,
}

impl PartLengths {
    const CACHE_SLOTS: usize = 1 << 12;

    pub(crate) fn new(sizes: &BlockSizes) -> Self {
        let shared = matches!(sizes, BlockSizes::Shared(_));
        Self { cache: if shared { vec![(BlockRange::EMPTY, 0); Self::CACHE_SLOTS] } else { Vec::new() } }
    }

    /// Bytes of a part of a rank.
    #[inline]
    pub(crate) fn bytes_of(&mut self, workload: Workload<'_>, rank: u32, part: BlockRange) -> u64 {
        let measure = || {
            let buffers = BufferMap { schedule: workload.schedule, layouts: workload.sizes.layouts(rank), rank };
            buffers.range_len(part) as u64 * workload.element
        };
        if part.len == 0 {
            return 0;
        }
        if self.cache.is_empty() {
            return measure();
        }
        // The length of a part does not depend on the rank, only its position does.
        let key = u64::from(part.lo)
            ^ u64::from(part.len) << 32
            ^ u64::from(part.segment) << 20
            ^ u64::from(part.segments) << 44
            ^ u64::from(part.view) << 56;
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % Self::CACHE_SLOTS;
        if self.cache[slot].0 != part {
            self.cache[slot] = (part, measure());
        }
        self.cache[slot].1
    }
}
