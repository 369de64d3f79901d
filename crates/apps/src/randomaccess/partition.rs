//! Which rank owns which words of the table, for any numbers of words and ranks.

use std::ops::Range;

/// Where the datum of a stream belongs: the table is distributed in blocks of consecutive words.
///
/// The index of a datum is its low bits, as in HPCC, or, if the number of words is no power of two, the datum as a
/// fraction of 2^64 times that number. The owner of an index is also found by a multiplication and a shift: a division
/// would take longer than the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    words: u64,
    ranks: u32,
    /// 2^63 ranks / words, rounded down so that the last index belongs to the last rank.
    factor: u64,
}

/// log2 of the unit of `factor`.
const UNIT_BITS: u32 = 63;

impl Partition {
    /// At least as many words as ranks, at most 2^48.
    pub(super) fn new(words: u64, ranks: u32) -> Self {
        assert!(u64::from(ranks) <= words && words <= 1 << 48, "{words} words for {ranks} ranks");
        let factor = (u128::from(ranks) << UNIT_BITS) / u128::from(words);
        Self { words, ranks, factor: factor as u64 }
    }

    /// The index of a datum in the table.
    #[inline(always)]
    pub(super) fn index(&self, datum: u64) -> u64 {
        if self.words.is_power_of_two() {
            datum & (self.words - 1)
        } else {
            ((u128::from(datum) * u128::from(self.words)) >> 64) as u64
        }
    }

    /// The rank that owns an index.
    #[inline(always)]
    pub(super) fn owner(&self, index: u64) -> u32 {
        ((u128::from(index) * u128::from(self.factor)) >> UNIT_BITS) as u32
    }

    /// The lowest index of a rank; for the number of ranks, that of words.
    pub(super) fn first(&self, rank: u32) -> u64 {
        (u128::from(rank) << UNIT_BITS).div_ceil(u128::from(self.factor)).min(u128::from(self.words)) as u64
    }

    /// The indices of a rank.
    pub(super) fn block(&self, rank: u32) -> Range<u64> {
        self.first(rank)..self.first(rank + 1)
    }

    /// The bits of a datum that are its owner's number, if words and ranks are powers of two: the shift to them.
    pub(super) fn owner_shift(&self) -> Option<u32> {
        let is_by_bits = self.words.is_power_of_two() && self.ranks.is_power_of_two();
        is_by_bits.then(|| self.words.ilog2() - self.ranks.ilog2())
    }

    /// The number of ranks.
    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_balanced_and_owners_are_those_of_blocks() {
        for words in (1..200).chain([1 << 20, (1 << 20) + 7, 1 << 48, (1 << 48) - 1]) {
            for ranks in (1..40).chain([64, 1000]).filter(|ranks| u64::from(*ranks) <= words) {
                let partition = Partition::new(words, ranks);
                let (mut next, share) = (0, words / u64::from(ranks));
                for rank in 0..ranks {
                    let block = partition.block(rank);
                    assert_eq!(block.start, next, "{words} words, {ranks} ranks");
                    let size = block.end - block.start;
                    assert!((share.max(2) - 1..=share + 1).contains(&size), "{size} of {words} words, {ranks} ranks");
                    assert_eq!((partition.owner(block.start), partition.owner(block.end - 1)), (rank, rank));
                    next = block.end;
                }
                assert_eq!(next, words);
            }
        }
    }

    #[test]
    fn powers_of_two_are_those_of_hpcc() {
        let partition = Partition::new(1 << 20, 16);
        let shift = partition.owner_shift().unwrap();
        for datum in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 1 << 19] {
            let index = partition.index(datum);
            assert_eq!(index, datum % (1 << 20));
            assert_eq!(u64::from(partition.owner(index)), datum >> shift & 15);
        }
        assert_eq!(Partition::new(12, 4).owner_shift(), None);
        assert_eq!(Partition::new(10, 3).index(u64::MAX), 9);
    }
}
