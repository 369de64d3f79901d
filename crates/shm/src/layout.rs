//! How much memory a world of so many ranks gets, and where its parts begin.
//!
//! Rings for every pair would cost P x P; so each rank has an inbox that everybody can write to, and a bounded number
//! of rings for the peers that write most. Rings are large for few ranks (256 KiB to 1 MiB is best: less costs rate,
//! more costs latency, as a lap no longer stays in the cache) and small for many.

use crate::arena::{BARRIER_CELLS, Control, Header};
use crate::board::Shape;
use crate::cell::BarrierCell;
use crate::registry::{Cell, ENTRIES};
use crate::ring::RingHeader;

const PAGE: usize = 4096;

/// The parts of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ranks: u32,
    /// Bytes of each inbox.
    pub(crate) inbox_bytes: usize,
    /// Rings to each rank.
    pub(crate) rings: u32,
    /// Bytes of each ring.
    pub(crate) ring_bytes: usize,
    /// Of the board; none for many ranks.
    pub(crate) board: Option<Shape>,
}

impl Layout {
    pub(crate) fn of(ranks: u32) -> Self {
        let (rings, ring_bytes) = match ranks {
            0..=4 => (ranks.saturating_sub(1), 512 << 10),
            5..=8 => (ranks - 1, 256 << 10),
            9..=16 => (ranks - 1, 128 << 10),
            17..=64 => (ranks - 1, 64 << 10),
            _ => (32, 32 << 10),
        };
        let inbox_bytes = if ranks <= 64 { 128 << 10 } else { 64 << 10 };
        Self { ranks, inbox_bytes, rings, ring_bytes, board: Shape::of(ranks) }
    }

    /// The longest body that fits every channel: a record takes at most an eighth of a ring.
    pub(crate) fn max_body(&self) -> usize {
        let smallest = if self.rings == 0 { self.inbox_bytes } else { self.inbox_bytes.min(self.ring_bytes) };
        smallest / 8 - crate::area::GRANULE
    }

    pub(crate) fn control(&self, rank: u32) -> usize {
        pages(size_of::<Header>()) + rank as usize * size_of::<Control>()
    }

    pub(crate) fn barrier_cell(&self, cell: u32) -> usize {
        self.control(self.ranks) + cell as usize * size_of::<BarrierCell>()
    }

    pub(crate) fn inbox(&self, rank: u32) -> usize {
        pages(self.barrier_cell(BARRIER_CELLS)) + rank as usize * self.inbox_bytes
    }

    pub(crate) fn ring_header(&self, rank: u32, index: u32) -> usize {
        self.inbox(self.ranks) + (rank as usize * self.rings as usize + index as usize) * size_of::<RingHeader>()
    }

    pub(crate) fn ring(&self, rank: u32, index: u32) -> usize {
        pages(self.ring_header(self.ranks, 0))
            + (rank as usize * self.rings as usize + index as usize) * self.ring_bytes
    }

    /// Where the table of a rank's registered memory lies.
    pub(crate) fn registered(&self, rank: u32) -> usize {
        pages(self.ring(self.ranks, 0)) + rank as usize * size_of::<[Cell; ENTRIES]>()
    }

    pub(crate) fn board(&self) -> usize {
        pages(self.registered(self.ranks))
    }

    /// Bytes of all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.board() + self.board.map_or(0, |shape| shape.bytes())
    }
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_total_memory_is_bounded() {
        for ranks in [1, 2, 3, 5, 8, 16, 17, 64, 65, 256, 1024, 4096] {
            let l = Layout::of(ranks);
            assert!(l.control(0) >= size_of::<Header>());
            assert!(l.inbox(0) >= l.barrier_cell(BARRIER_CELLS) && l.inbox(0).is_multiple_of(64));
            assert!(l.ring_header(0, 0) >= l.inbox(ranks) && l.ring(0, 0).is_multiple_of(64));
            assert!(l.max_body() >= 1024);
            assert!(l.bytes() / ranks as usize <= 6 << 20, "{ranks} ranks: {} bytes", l.bytes());
        }
        assert!(Layout::of(1024).bytes() / 1024 <= 2 << 20);
    }
}
