//! Random colors and keys of the ranks.

use std::ops::Range;

use treepie_comm::split::SplitEntry;
use treepie_sim::noise::SplitMix64;

/// Unsorted entries of these ranks, with `colors` colors.
pub(super) fn random(random: &mut SplitMix64, ranks: Range<u32>, colors: u32) -> Vec<SplitEntry> {
    let mut table = Vec::with_capacity(ranks.len() + 1);
    table.extend(ranks.map(|rank| {
        let word = random.next_u64();
        let color = (u64::from(word as u32) * u64::from(colors)) >> 32;
        SplitEntry::new(Some(color as u32), (word >> 32) as i32, rank, rank)
    }));
    table
}

/// Sorted entries of these ranks, of one color: gaps between keys are random, so no sort is needed.
pub(super) fn sorted(random: &mut SplitMix64, ranks: Range<u32>) -> Vec<SplitEntry> {
    let mut table = Vec::with_capacity(ranks.len() + 1);
    // Twice the mean gap, as keys of 63 bits, so that gaps are not rounded much where keys are dense.
    let gap = ((1 << 63) / ranks.len().max(1) as u64).saturating_mul(2);
    let mut key = 0u64;
    table.extend(ranks.map(|rank| {
        key = (key.saturating_add(random.below(gap))).min(u64::MAX >> 1);
        SplitEntry::new(Some(0), ((key >> 31) as u32 ^ 1 << 31) as i32, rank, rank)
    }));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_tables_are_sorted_and_spread_over_all_keys() {
        for length in [1, 2, 1000, 1 << 16] {
            let table = sorted(&mut SplitMix64::new(length.into()), 7..7 + length);
            assert!(table.is_sorted() && table.len() == length as usize);
        }
        let middle = sorted(&mut SplitMix64::new(1), 0..1 << 16)[1 << 15];
        let [low, high] = [-1 << 28, 1 << 28].map(|key| SplitEntry::new(Some(0), key, 0, 0));
        assert!(low < middle && middle < high, "{middle:?}");
    }
}
