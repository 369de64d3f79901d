//! A set-associative cache of table lookups.

use std::cell::Cell;

/// Number of entries.
const ENTRIES: usize = 64;

/// Associativity. The partners of recursive doubling are powers of two apart, which would conflict in a direct-mapped
/// cache.
const WAYS: usize = 4;
const SETS: usize = ENTRIES / WAYS;

/// Marks an empty entry; no key is this high.
const NONE: u32 = u32::MAX;

/// The most recent lookups: values by key.
#[derive(Debug)]
pub(super) struct Cache {
    entries: [Cell<(u32, u32)>; ENTRIES],
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { entries: [const { Cell::new((NONE, 0)) }; ENTRIES], hits: Cell::new(0), misses: Cell::new(0) }
    }

    fn set(&self, key: u32) -> &[Cell<(u32, u32)>] {
        let set = (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SETS.ilog2())) as usize;
        &self.entries[set * WAYS..][..WAYS]
    }

    /// The cached value of a key.
    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<u32> {
        let found = self.set(key).iter().find(|entry| entry.get().0 == key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.set(counter.get() + 1);
        found.map(|entry| entry.get().1)
    }

    /// Inserts a value for a key that is not cached, replacing the oldest entry of its set.
    pub(super) fn put(&self, key: u32, value: u32) {
        let set = self.set(key);
        if set.iter().any(|entry| entry.get().0 == key) {
            return;
        }
        for i in (1..WAYS).rev() {
            set[i].set(set[i - 1].get());
        }
        set[0].set((key, value));
    }

    /// Number of hits, and of misses.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.hits.get(), self.misses.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_inserted_entries_are_cached() {
        let cache = Cache::new();
        assert_eq!(cache.get(5), None);
        for number in 0..1000 {
            cache.put(number, number * 3);
            assert_eq!(cache.get(number), Some(number * 3));
        }
        let cached = (0..1000).filter(|number| cache.get(*number) == Some(number * 3)).count();
        assert_eq!(cached, ENTRIES);
        assert_eq!(cache.counts(), (1000 + ENTRIES as u64, 1 + 1000 - ENTRIES as u64));
    }

    #[test]
    fn partners_of_recursive_doubling_stay_cached() {
        let cache = Cache::new();
        for round in 0..10 {
            for step in 0..20 {
                let partner = 12345 ^ 1 << step;
                assert_eq!(cache.get(partner).is_some(), round > 0, "step {step}");
                cache.put(partner, 1);
            }
        }
    }
}
