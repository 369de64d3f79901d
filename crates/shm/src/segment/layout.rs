//! Sizes and offsets of the parts of a segment.

use treepie_fabric::SlotClass;

use super::groups::MAX_MEMBERS;
use crate::slot_rounds::LARGE_SLOTS;

/// Bytes of the state of a segment, before its flags: two cache lines, as processors fetch lines in pairs, and the flags
/// change all the time.
const STATE_BYTES: usize = 128;
const _: () = assert!(size_of::<super::SegmentState>() <= STATE_BYTES);

/// Sizes and offsets of the parts of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentLayout {
    pub(super) ranks: u32,
    /// The number of rounds that have a flag and a page of their own.
    pub(super) depth: u64,
    /// Bytes from one flag to the next, and from a flag to the data between them.
    pub(super) stride: usize,
    pub(super) header_bytes: usize,
    pub(super) page_bytes: usize,
    pub(super) large_slot_bytes: usize,
}

impl SegmentLayout {
    /// The layout of the segment of a world.
    pub(crate) fn for_world(ranks: u32) -> Self {
        let layout = Self::for_group(ranks);
        if ranks == 2 { Self { depth: 2, stride: 16, header_bytes: 8, ..layout } } else { layout }
    }

    /// The layout of the segment of a group. Groups of a world may differ in size, but not in the capacities of their
    /// slots, by which all ranks decide how they run an operation.
    pub(crate) fn for_group(ranks: u32) -> Self {
        assert!((1..=MAX_MEMBERS).contains(&ranks), "a segment of {ranks} ranks");
        // A cache line for each rank: with four ranks to a line, so that fewer would move, eight ranks on two cores
        // took 5 to 10% longer for most operations.
        let (depth, stride, header_bytes) = (16, 64, 16);
        Self { ranks, depth, stride, header_bytes, page_bytes: 4 << 10, large_slot_bytes: 64 << 10 }
    }

    /// The layout of another group of the same world.
    pub(crate) fn with_ranks(self, ranks: u32) -> Self {
        Self { ranks, ..self }
    }

    /// The index of a round among the `depth` rounds. The depth is a power of two: a division would cost as much as
    /// everything else that reading a flag takes.
    #[inline]
    pub(super) fn slot_index(&self, round: u64) -> usize {
        (round & (self.depth - 1)) as usize
    }

    #[inline]
    pub(super) fn flag_offset(&self, rank: u32, round: u64) -> usize {
        STATE_BYTES + (self.slot_index(round) * self.ranks as usize + rank as usize) * self.stride
    }

    pub(super) fn page_offset(&self, rank: u32, round: u64) -> usize {
        let words = STATE_BYTES + self.depth as usize * self.ranks as usize * self.stride;
        let words = words.next_multiple_of(4096);
        words + (rank as usize * self.depth as usize + self.slot_index(round)) * self.page_bytes
    }

    pub(super) fn large_slot_offset(&self, rank: u32, index: u64) -> usize {
        self.page_offset(self.ranks, 0)
            + (rank as usize * LARGE_SLOTS as usize + index as usize) * self.large_slot_bytes
    }

    /// The size of the segment, in whole pages.
    pub(crate) fn bytes(&self) -> usize {
        self.large_slot_offset(self.ranks, 0)
    }

    #[inline]
    pub(super) fn capacity(&self, class: SlotClass) -> usize {
        match class {
            SlotClass::Line => self.stride - self.header_bytes,
            SlotClass::Page => self.page_bytes,
            SlotClass::Large => self.large_slot_bytes,
        }
    }
}
