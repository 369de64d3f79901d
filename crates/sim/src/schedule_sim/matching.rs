//! Message matching: a hash table by receiver, sender and lane, of messages without receives or receives without
//! messages.
//!
//! Open addressing with linear probing and backward-shift deletion, so there are no tombstones. Entries of one receiver
//! lie near each other, and receivers in the order of ranks: simultaneous events then touch nearby memory, and at a
//! million ranks memory latency is most of a message's time. If one receiver has enough entries that probes get long,
//! all entries are spread farther.

/// Source, destination and lane of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SimMatchKey {
    pub(crate) to: u32,
    pub(crate) from: u32,
    pub(crate) lane: u32,
}

/// Unexpected messages, or posted receives, of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchEntry {
    key: SimMatchKey,
    /// Messages if positive, receives if negative, 0 if the slot is empty.
    count: i32,
    /// Slot of the posted receives times two, plus 1 if they combine. Receives of one round from one rank are assumed
    /// to be alike.
    posted: u32,
}

#[derive(Debug)]
pub(crate) struct MatchTable {
    entries: Vec<MatchEntry>,
    used: usize,
    /// Home of a receiver's entries is its rank shifted by this; entries hash over `spread` + 1 slots from there.
    shift: u32,
    spread: usize,
}

/// A posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostedRecv {
    pub(crate) slot: u32,
    pub(crate) combine: bool,
}

impl MatchTable {
    const EMPTY: MatchEntry = MatchEntry { key: SimMatchKey { to: 0, from: 0, lane: 0 }, count: 0, posted: 0 };

    /// Longest probe before all entries are spread farther.
    const MAX_PROBE: usize = 128;

    pub(crate) fn new(ranks: u32) -> Self {
        let slots = (ranks as usize).next_power_of_two().max(32);
        Self { entries: vec![Self::EMPTY; 2 * slots], used: 0, shift: 1, spread: 63 }
    }

    #[inline]
    fn home(&self, key: SimMatchKey) -> usize {
        let mixed = (u64::from(key.from) << 32 | u64::from(key.lane)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        (((key.to as usize) << self.shift) + (mixed as usize & self.spread)) & (self.entries.len() - 1)
    }

    #[inline]
    fn find(&self, key: SimMatchKey) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        while self.entries[at].count != 0 && self.entries[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// Matches an arriving message with a posted receive; otherwise stores it as unexpected.
    #[inline]
    pub(crate) fn arrive(&mut self, key: SimMatchKey) -> Option<PostedRecv> {
        let at = self.find(key);
        let entry = &mut self.entries[at];
        if entry.count < 0 {
            let posted = PostedRecv { slot: entry.posted >> 1, combine: entry.posted & 1 == 1 };
            entry.count += 1;
            if entry.count == 0 {
                self.remove_at(at);
            }
            return Some(posted);
        }
        entry.count += 1;
        if entry.count == 1 {
            self.entries[at].key = key;
            self.on_insert(at);
        }
        None
    }

    /// Posts a receive. Returns whether it matched an unexpected message; otherwise the receive is stored.
    #[inline]
    pub(crate) fn post(&mut self, key: SimMatchKey, posted: PostedRecv) -> bool {
        let at = self.find(key);
        let entry = &mut self.entries[at];
        if entry.count > 0 {
            entry.count -= 1;
            if entry.count == 0 {
                self.remove_at(at);
            }
            return true;
        }
        entry.count -= 1;
        entry.posted = posted.slot << 1 | u32::from(posted.combine);
        if entry.count == -1 {
            self.entries[at].key = key;
            self.on_insert(at);
        }
        false
    }

    /// Removes an entry and shifts back those that could take its slot.
    fn remove_at(&mut self, mut hole: usize) {
        self.used -= 1;
        let mask = self.entries.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.entries[at].count != 0 {
            let home = self.home(self.entries[at].key);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.entries[hole].count = 0;
    }

    /// Grows the table if it is too full, or spreads entries if a probe got too long.
    #[inline]
    fn on_insert(&mut self, at: usize) {
        self.used += 1;
        let mask = self.entries.len() - 1;
        if self.used * 4 > self.entries.len() * 3 {
            self.shift += 1;
            self.spread = self.spread << 1 | 1;
            self.rehash(self.entries.len() * 2);
        } else if at.wrapping_sub(self.home(self.entries[at].key)) & mask > Self::MAX_PROBE && self.spread < mask {
            self.spread = (self.spread << 3 | 7).min(mask);
            self.rehash(self.entries.len());
        }
    }

    fn rehash(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.entries, vec![Self::EMPTY; slots]);
        for entry in old.into_iter().filter(|entry| entry.count != 0) {
            let at = self.find(entry.key);
            self.entries[at] = entry;
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<MatchEntry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::SplitMix64;

    #[test]
    fn messages_and_receives_match_in_either_order() {
        let mut table = MatchTable::new(1);
        let mut random = SplitMix64::new(3);
        let mut expected = std::collections::HashMap::new();
        for _ in 0..50_000 {
            let key = SimMatchKey {
                to: random.below(20) as u32,
                from: random.below(20) as u32,
                lane: random.below(3) as u32,
            };
            let slot = key.to * 7 + key.lane;
            let count: &mut i32 = expected.entry((key.to, key.from, key.lane)).or_default();
            if random.below(2) == 0 {
                let matched = table.arrive(key);
                assert_eq!(matched, (*count < 0).then_some(PostedRecv { slot, combine: false }));
                *count += 1;
            } else {
                assert_eq!(table.post(key, PostedRecv { slot, combine: false }), *count > 0);
                *count -= 1;
            }
        }
        assert_eq!(table.used, expected.values().filter(|count| **count != 0).count());
    }

    #[test]
    fn many_entries_of_one_receiver_are_spread() {
        let mut table = MatchTable::new(1 << 12);
        let key = |from| SimMatchKey { to: 7, from, lane: 0 };
        (0..1 << 12).for_each(|from| assert_eq!(table.arrive(key(from)), None));
        assert!(table.spread > 1 << 9, "entries are spread");
        (0..1 << 12).for_each(|from| assert!(table.post(key(from), PostedRecv { slot: 0, combine: false })));
        assert_eq!(table.used, 0);
    }
}
