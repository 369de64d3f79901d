//! The sizes and offsets of the parts of an arena, by the number of ranks.
//!
//! A ring for every pair would cost P x P; so each rank has an inbox that all peers can write to, and a bounded number
//! of rings for the peers that send most. Rings are large for few ranks (256 KiB to 1 MiB is best: less costs rate,
//! more costs latency, as a lap no longer fits the cache) and small for many.

use crate::arena::{ArenaHeader, BARRIER_CELLS, RankControl};
use crate::barrier_cell::BarrierCell;
use crate::registry::{MAX_REGISTRATIONS, RegistrationCell};
use crate::ring::RingHeader;
use crate::segment::{MAX_MEMBERS, SegmentGroups, SegmentLayout};

const PAGE: usize = 4096;

/// Sizes of the parts of an arena, and their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaLayout {
    pub(crate) ranks: u32,
    /// Bytes of each inbox.
    pub(crate) inbox_bytes: usize,
    /// Rings to each rank.
    pub(crate) rings: u32,
    /// Bytes of each ring.
    pub(crate) ring_bytes: usize,
    /// The groups of ranks that have a shared segment each: one, if they are at most 64 and no bound was set.
    pub(crate) groups: SegmentGroups,
    /// The layout of the segment of the largest group.
    segment: SegmentLayout,
}

/// The longest message that ranks of a world of this size send eagerly, in one record.
pub fn eager_limit(ranks: u32) -> usize {
    ArenaLayout::for_ranks(ranks).max_body()
}

impl ArenaLayout {
    pub(crate) fn for_ranks(ranks: u32) -> Self {
        Self::in_groups(ranks, MAX_MEMBERS)
    }

    /// With segments of groups of at most this number of ranks.
    pub(crate) fn in_groups(ranks: u32, most: u32) -> Self {
        let (rings, ring_bytes) = match ranks {
            0..=4 => (ranks.saturating_sub(1), 512 << 10),
            5..=8 => (ranks - 1, 256 << 10),
            9..=16 => (ranks - 1, 128 << 10),
            17..=64 => (ranks - 1, 64 << 10),
            _ => (32, 32 << 10),
        };
        let inbox_bytes = if ranks <= 64 { 128 << 10 } else { 64 << 10 };
        let groups = SegmentGroups::of(ranks, most);
        let segment = match groups.count() {
            1 => SegmentLayout::for_world(ranks),
            // The first group is as large as any.
            _ => SegmentLayout::for_group(groups.members(0).len() as u32),
        };
        Self { ranks, inbox_bytes, rings, ring_bytes, groups, segment }
    }

    /// Memory for nothing but the segment of these ranks, which are all ranks of the world or a group of them.
    pub(crate) fn for_segment(ranks: u32, is_world: bool) -> Self {
        let layout = Self { inbox_bytes: 0, rings: 0, ring_bytes: 0, ..Self::for_ranks(ranks) };
        if is_world { layout } else { Self { segment: SegmentLayout::for_group(ranks), ..layout } }
    }

    /// The longest body that fits every channel: a record takes at most an eighth of a ring.
    pub(crate) fn max_body(&self) -> usize {
        let smallest = if self.rings == 0 { self.inbox_bytes } else { self.inbox_bytes.min(self.ring_bytes) };
        smallest / 8 - crate::ring_memory::GRANULE
    }

    pub(crate) fn control(&self, rank: u32) -> usize {
        round_up_to_page(size_of::<ArenaHeader>()) + rank as usize * size_of::<RankControl>()
    }

    pub(crate) fn barrier_cell(&self, cell: u32) -> usize {
        self.control(self.ranks) + cell as usize * size_of::<BarrierCell>()
    }

    pub(crate) fn inbox(&self, rank: u32) -> usize {
        round_up_to_page(self.barrier_cell(BARRIER_CELLS)) + rank as usize * self.inbox_bytes
    }

    pub(crate) fn ring_header(&self, rank: u32, index: u32) -> usize {
        self.inbox(self.ranks) + (rank as usize * self.rings as usize + index as usize) * size_of::<RingHeader>()
    }

    pub(crate) fn ring(&self, rank: u32, index: u32) -> usize {
        round_up_to_page(self.ring_header(self.ranks, 0))
            + (rank as usize * self.rings as usize + index as usize) * self.ring_bytes
    }

    /// Offset of a rank's table of registered memory.
    pub(crate) fn registrations(&self, rank: u32) -> usize {
        round_up_to_page(self.ring(self.ranks, 0)) + rank as usize * size_of::<[RegistrationCell; MAX_REGISTRATIONS]>()
    }

    /// Offset and layout of the segment of a group.
    pub(crate) fn segment(&self, group: u32) -> (usize, SegmentLayout) {
        let ranks = self.groups.members(group).len() as u32;
        (self.segment_offset(group), self.segment.with_ranks(ranks))
    }

    fn segment_offset(&self, group: u32) -> usize {
        round_up_to_page(self.registrations(self.ranks)) + group as usize * self.segment.bytes()
    }

    /// Bytes of the arena without the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.segment_offset(self.groups.count())
    }
}

fn round_up_to_page(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_total_memory_is_bounded() {
        for ranks in [1, 2, 3, 5, 8, 16, 17, 64, 65, 256, 1024, 4096] {
            let l = ArenaLayout::for_ranks(ranks);
            assert!(l.control(0) >= size_of::<ArenaHeader>());
            assert!(l.inbox(0) >= l.barrier_cell(BARRIER_CELLS) && l.inbox(0).is_multiple_of(64));
            assert!(l.ring_header(0, 0) >= l.inbox(ranks) && l.ring(0, 0).is_multiple_of(64));
            assert!(l.max_body() >= 1024);
            assert!(l.bytes() / ranks as usize <= 6 << 20, "{ranks} ranks: {} bytes", l.bytes());
        }
        assert!(ArenaLayout::for_ranks(1024).bytes() / 1024 <= 2 << 20);
        assert!(ArenaLayout::for_segment(64, true).bytes() / 64 <= 512 << 10);
    }

    #[test]
    fn segments_of_groups_do_not_overlap() {
        let layout = ArenaLayout::for_ranks(130);
        let segments: Vec<_> = (0..layout.groups.count()).map(|group| layout.segment(group)).collect();
        assert!(segments.windows(2).all(|pair| pair[0].0 + pair[0].1.bytes() <= pair[1].0), "{segments:?}");
        assert!(segments.last().is_some_and(|(offset, last)| offset + last.bytes() <= layout.bytes()));
    }
}
