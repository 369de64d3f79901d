//! The sort entries of a split.

use bytemuck::{Pod, Zeroable};

/// The sort entry of a rank. In this order, the new communicators follow each other, each with its ranks in order.
///
/// The entry of the thesis has three fields, the last of which is an address or a rank. This one has both: ties are
/// broken by the rank in the communicator that is split, and tables hold world ranks, which only the rank itself knows
/// without a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SplitEntry {
    // The least significant field comes first, so that on little-endian machines the entry is one integer in memory.
    /// The world rank.
    world_rank: u32,
    /// The rank in the communicator that is split, and the undefined bit.
    rank: u32,
    /// The key, which orders ranks of one color.
    key: u32,
    /// The color: ranks with the same color get into one communicator.
    color: u32,
}

/// Words that accompany the entries; all ranks learn their elementwise maximum.
pub type Piggyback = [u64; 2];

/// The elementwise maximum.
pub(super) fn elementwise_max(one: Piggyback, other: Piggyback) -> Piggyback {
    std::array::from_fn(|i| one[i].max(other[i]))
}

/// Set in `rank` for a rank without a color (`MPI_UNDEFINED`). Its color and key are the highest ones, so that it comes
/// last.
const UNDEFINED_BIT: u32 = 1 << 31;

impl SplitEntry {
    /// The entry of a rank of the communicator that is split, with its world rank; without a color it joins no new
    /// communicator.
    pub fn new(color: Option<u32>, key: i32, rank: u32, world_rank: u32) -> Self {
        match color {
            Some(color) => Self { color, key: order_preserving(key), rank, world_rank },
            None => Self { color: u32::MAX, key: u32::MAX, rank: rank | UNDEFINED_BIT, world_rank },
        }
    }

    /// The rank in the communicator that is split.
    pub fn rank(&self) -> u32 {
        self.rank & !UNDEFINED_BIT
    }

    /// The world rank.
    pub fn world_rank(&self) -> u32 {
        self.world_rank
    }

    /// Whether it joins a new communicator.
    pub fn has_color(&self) -> bool {
        self.rank & UNDEFINED_BIT == 0
    }

    /// The same for all ranks of one new communicator, and for all ranks without a color.
    pub fn group_key(&self) -> u64 {
        u64::from(self.color) | u64::from(!self.has_color()) << 32
    }

    /// The piggyback, stored in the memory of an entry.
    pub(super) fn from_piggyback(piggyback: Piggyback) -> Self {
        bytemuck::cast(piggyback)
    }

    /// The piggyback stored in this entry.
    pub(super) fn to_piggyback(self) -> Piggyback {
        bytemuck::cast(self)
    }

    /// All fields as one integer: comparing field by field would take unpredictable branches.
    #[inline]
    fn sort_key(&self) -> u128 {
        let high = u64::from(self.color) << 32 | u64::from(self.key);
        let low = u64::from(self.rank) << 32 | u64::from(self.world_rank);
        u128::from(high) << 64 | u128::from(low)
    }
}

impl Ord for SplitEntry {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for SplitEntry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Maps signed keys to unsigned ones, preserving their order.
fn order_preserving(key: i32) -> u32 {
    key as u32 ^ 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_color_then_key_then_rank_and_undefined_comes_last() {
        let sorted = [
            SplitEntry::new(Some(0), -5, 9, 1),
            SplitEntry::new(Some(0), 0, 3, 0),
            SplitEntry::new(Some(0), 0, 4, 0),
            SplitEntry::new(Some(0), 7, 0, 0),
            SplitEntry::new(Some(1), i32::MIN, 0, 0),
            SplitEntry::new(Some(u32::MAX), i32::MAX, u32::MAX >> 1, 0),
            SplitEntry::new(None, -1, 0, 0),
            SplitEntry::new(None, -9, 5, 0),
        ];
        assert!(sorted.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(sorted[6].group_key(), sorted[7].group_key());
        assert_ne!(sorted[5].group_key(), sorted[6].group_key());
        assert_eq!((sorted[7].rank(), sorted[7].has_color()), (5, false));
        assert_eq!(size_of::<SplitEntry>(), 16);
    }
}
