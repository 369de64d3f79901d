//! What ranks are said to have asked for: random keys.

use std::ops::Range;

use treepie_comm::split::Entry;
use treepie_sim::noise::Random;

/// Entries of these ranks, of so many colours, as they come.
pub(super) fn random(random: &mut Random, ranks: Range<u32>, colours: u32) -> Vec<Entry> {
    let mut table = Vec::with_capacity(ranks.len() + 1);
    table.extend(ranks.map(|rank| {
        let word = random.word();
        let colour = (u64::from(word as u32) * u64::from(colours)) >> 32;
        Entry::new(Some(colour as u32), (word >> 32) as i32, rank, rank)
    }));
    table
}

/// Entries of these ranks, of one colour, in order: gaps between keys are random, so nothing has to be sorted.
pub(super) fn sorted(random: &mut Random, ranks: Range<u32>) -> Vec<Entry> {
    let mut table = Vec::with_capacity(ranks.len() + 1);
    // Twice the mean gap, as keys of 63 bits, so that gaps are not rounded much where keys are dense.
    let gap = ((1 << 63) / ranks.len().max(1) as u64).saturating_mul(2);
    let mut key = 0u64;
    table.extend(ranks.map(|rank| {
        key = (key.saturating_add(random.below(gap))).min(u64::MAX >> 1);
        Entry::new(Some(0), ((key >> 31) as u32 ^ 1 << 31) as i32, rank, rank)
    }));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_tables_are_sorted_and_spread_over_all_keys() {
        for length in [1, 2, 1000, 1 << 16] {
            let table = sorted(&mut Random::new(length.into()), 7..7 + length);
            assert!(table.is_sorted() && table.len() == length as usize);
        }
        let middle = sorted(&mut Random::new(1), 0..1 << 16)[1 << 15];
        let [low, high] = [-1 << 28, 1 << 28].map(|key| Entry::new(Some(0), key, 0, 0));
        assert!(low < middle && middle < high, "{middle:?}");
    }
}
