//! Look-ups that were made last.

use std::cell::Cell;

/// Entries of a cache.
const ENTRIES: usize = 64;

/// Entries that a number may be in. Partners of doublings are powers of two apart, which one place each would not serve.
const WAYS: usize = 4;
const SETS: usize = ENTRIES / WAYS;

/// Nothing; no number is so high.
const NONE: u32 = u32::MAX;

/// Numbers for numbers: those that were looked up last.
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

    fn set(&self, number: u32) -> &[Cell<(u32, u32)>] {
        let set = (number.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SETS.ilog2())) as usize;
        &self.entries[set * WAYS..][..WAYS]
    }

    /// What is kept for a number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<u32> {
        let found = self.set(number).iter().find(|entry| entry.get().0 == number);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.set(counter.get() + 1);
        found.map(|entry| entry.get().1)
    }

    /// Keeps something for a number that nothing is kept for, instead of what has been there for the longest time.
    pub(super) fn put(&self, number: u32, value: u32) {
        let set = self.set(number);
        if set.iter().any(|entry| entry.get().0 == number) {
            return;
        }
        for i in (1..WAYS).rev() {
            set[i].set(set[i - 1].get());
        }
        set[0].set((number, value));
    }

    /// How many look-ups found something here, and how many did not.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.hits.get(), self.misses.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_last_is_there() {
        let cache = Cache::new();
        assert_eq!(cache.get(5), None);
        for number in 0..1000 {
            cache.put(number, number * 3);
            assert_eq!(cache.get(number), Some(number * 3));
        }
        let kept = (0..1000).filter(|number| cache.get(*number) == Some(number * 3)).count();
        assert_eq!(kept, ENTRIES);
        assert_eq!(cache.counts(), (1000 + ENTRIES as u64, 1 + 1000 - ENTRIES as u64));
    }

    #[test]
    fn partners_of_a_doubling_stay() {
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
