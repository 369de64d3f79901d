//! What is sorted of each rank when a communicator is split.

use bytemuck::{Pod, Zeroable};

/// A rank with what it asked for. In the order of these, communicators lie one behind the other, their ranks in order.
///
/// The thesis has three fields, of which the last is an address or a rank. Here are both: ties are decided by the rank in the
/// communicator that is split, and tables hold ranks of the world, which only the rank itself knows without a look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Entry {
    // What counts less lies first, so that where numbers begin with their lowest byte the whole is one number in memory.
    /// The rank of the world.
    at: u32,
    /// The rank in the communicator that is split, and whether it stays out.
    rank: u32,
    /// In the order of these.
    key: u32,
    /// Ranks with the same are to be together.
    colour: u32,
}

/// Words that ranks bring along; all get to know the highest of each.
pub type Notes = [u64; 2];

/// The highest of each.
pub(super) fn highest(one: Notes, other: Notes) -> Notes {
    std::array::from_fn(|i| one[i].max(other[i]))
}

/// In `rank`, of a rank that stays out. Colour and key are then the highest ones, so that it comes behind all others.
const OUT: u32 = 1 << 31;

impl Entry {
    /// Of a rank of the communicator that is split, which is that rank of the world; without a colour it stays out.
    pub fn new(colour: Option<u32>, key: i32, rank: u32, at: u32) -> Self {
        match colour {
            Some(colour) => Self { colour, key: sortable(key), rank, at },
            None => Self { colour: u32::MAX, key: u32::MAX, rank: rank | OUT, at },
        }
    }

    /// The rank in the communicator that is split.
    pub fn rank(&self) -> u32 {
        self.rank & !OUT
    }

    /// The rank of the world.
    pub fn at(&self) -> u32 {
        self.at
    }

    /// Whether it is to be in a communicator at all.
    pub fn takes_part(&self) -> bool {
        self.rank & OUT == 0
    }

    /// The same for all that are to be together, and for all that stay out.
    pub fn group(&self) -> u64 {
        u64::from(self.colour) | u64::from(!self.takes_part()) << 32
    }

    /// What goes along with entries, in the place of one.
    pub(super) fn of_notes(notes: Notes) -> Self {
        bytemuck::cast(notes)
    }

    /// That.
    pub(super) fn as_notes(self) -> Notes {
        bytemuck::cast(self)
    }

    /// All that is compared, in one number: comparisons of field after field are branches that nobody can predict.
    #[inline]
    fn number(&self) -> u128 {
        let high = u64::from(self.colour) << 32 | u64::from(self.key);
        let low = u64::from(self.rank) << 32 | u64::from(self.at);
        u128::from(high) << 64 | u128::from(low)
    }
}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Unsigned numbers in the order of the signed ones.
fn sortable(key: i32) -> u32 {
    key as u32 ^ 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_colour_then_key_then_rank_and_those_outside_come_last() {
        let sorted = [
            Entry::new(Some(0), -5, 9, 1),
            Entry::new(Some(0), 0, 3, 0),
            Entry::new(Some(0), 0, 4, 0),
            Entry::new(Some(0), 7, 0, 0),
            Entry::new(Some(1), i32::MIN, 0, 0),
            Entry::new(Some(u32::MAX), i32::MAX, u32::MAX >> 1, 0),
            Entry::new(None, -1, 0, 0),
            Entry::new(None, -9, 5, 0),
        ];
        assert!(sorted.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(sorted[6].group(), sorted[7].group());
        assert_ne!(sorted[5].group(), sorted[6].group());
        assert_eq!((sorted[7].rank(), sorted[7].takes_part()), (5, false));
        assert_eq!(size_of::<Entry>(), 16);
    }
}
