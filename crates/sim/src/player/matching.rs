//! Which message is for which receive: a table by receiver, sender and lane, of those that have only one of the two.
//!
//! Open addressing with linear probing; what is removed is closed up, so that there are no marks to step over. Entries of one
//! receiver lie near each other, and those of receivers in the order of their numbers: what happens at about the same time is
//! then near in memory, and at a million ranks most of a message's time is waiting for memory. If one receiver has so many
//! entries that they get in the way of others, all are spread farther.

/// From one rank to another in a lane of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) to: u32,
    pub(crate) from: u32,
    pub(crate) lane: u32,
}

/// Messages without receives, or receives without messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    key: Key,
    /// Messages if above 0, receives if below. 0: the place is empty.
    count: i32,
    /// Whose receives they are, times two, plus 1 if what they receive is to be combined. Receives of one round from one rank
    /// are taken to be all alike.
    posted: u32,
}

#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    used: usize,
    /// A receiver's entries begin at its number, shifted by this, and are spread over so many places, less 1.
    shift: u32,
    spread: usize,
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) slot: u32,
    pub(crate) combine: bool,
}

impl Table {
    const EMPTY: Entry = Entry { key: Key { to: 0, from: 0, lane: 0 }, count: 0, posted: 0 };

    /// So far from where it should be an entry may lie before all are spread farther.
    const FAR: usize = 128;

    pub(crate) fn new(ranks: u32) -> Self {
        let places = (ranks as usize).next_power_of_two().max(32);
        Self { entries: vec![Self::EMPTY; 2 * places], used: 0, shift: 1, spread: 63 }
    }

    #[inline]
    fn home(&self, key: Key) -> usize {
        let mixed = (u64::from(key.from) << 32 | u64::from(key.lane)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        (((key.to as usize) << self.shift) + (mixed as usize & self.spread)) & (self.entries.len() - 1)
    }

    #[inline]
    fn find(&self, key: Key) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        while self.entries[at].count != 0 && self.entries[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// A message has come: the receive that waits for it, if any does. Otherwise it is kept.
    #[inline]
    pub(crate) fn arrive(&mut self, key: Key) -> Option<Posted> {
        let at = self.find(key);
        let entry = &mut self.entries[at];
        if entry.count < 0 {
            let posted = Posted { slot: entry.posted >> 1, combine: entry.posted & 1 == 1 };
            entry.count += 1;
            if entry.count == 0 {
                self.close(at);
            }
            return Some(posted);
        }
        entry.count += 1;
        if entry.count == 1 {
            self.entries[at].key = key;
            self.added(at);
        }
        None
    }

    /// A receive is posted: whether its message is there. Otherwise the receive is kept.
    #[inline]
    pub(crate) fn post(&mut self, key: Key, posted: Posted) -> bool {
        let at = self.find(key);
        let entry = &mut self.entries[at];
        if entry.count > 0 {
            entry.count -= 1;
            if entry.count == 0 {
                self.close(at);
            }
            return true;
        }
        entry.count -= 1;
        entry.posted = posted.slot << 1 | u32::from(posted.combine);
        if entry.count == -1 {
            self.entries[at].key = key;
            self.added(at);
        }
        false
    }

    /// Moves up what could lie where a place has become empty.
    fn close(&mut self, mut hole: usize) {
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

    /// An entry was added: makes room if there are too many, or if they are in each other's way.
    #[inline]
    fn added(&mut self, at: usize) {
        self.used += 1;
        let mask = self.entries.len() - 1;
        if self.used * 4 > self.entries.len() * 3 {
            self.shift += 1;
            self.spread = self.spread << 1 | 1;
            self.place_again(self.entries.len() * 2);
        } else if at.wrapping_sub(self.home(self.entries[at].key)) & mask > Self::FAR && self.spread < mask {
            self.spread = (self.spread << 3 | 7).min(mask);
            self.place_again(self.entries.len());
        }
    }

    fn place_again(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.entries, vec![Self::EMPTY; places]);
        for entry in old.into_iter().filter(|entry| entry.count != 0) {
            let at = self.find(entry.key);
            self.entries[at] = entry;
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Random;

    #[test]
    fn messages_and_receives_meet_whoever_comes_first() {
        let mut table = Table::new(1);
        let mut random = Random::new(3);
        let mut expected = std::collections::HashMap::new();
        for _ in 0..50_000 {
            let key = Key { to: random.below(20) as u32, from: random.below(20) as u32, lane: random.below(3) as u32 };
            let slot = key.to * 7 + key.lane;
            let count: &mut i32 = expected.entry((key.to, key.from, key.lane)).or_default();
            if random.below(2) == 0 {
                let met = table.arrive(key);
                assert_eq!(met, (*count < 0).then_some(Posted { slot, combine: false }));
                *count += 1;
            } else {
                assert_eq!(table.post(key, Posted { slot, combine: false }), *count > 0);
                *count -= 1;
            }
        }
        assert_eq!(table.used, expected.values().filter(|count| **count != 0).count());
    }

    #[test]
    fn a_receiver_of_everything_does_not_stop_the_others() {
        let mut table = Table::new(1 << 12);
        let key = |from| Key { to: 7, from, lane: 0 };
        (0..1 << 12).for_each(|from| assert_eq!(table.arrive(key(from)), None));
        assert!(table.spread > 1 << 9, "entries are spread");
        (0..1 << 12).for_each(|from| assert!(table.post(key(from), Posted { slot: 0, combine: false })));
        assert_eq!(table.used, 0);
    }
}
