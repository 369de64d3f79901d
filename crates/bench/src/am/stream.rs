//! Random indices into the table of all ranks, the same on both sides. `am_peer.c` draws the same; keep both in step.

use treepie::{Pod, Rank, Zeroable};

/// An update of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Update {
    /// Index in the owner's table.
    pub(super) index: u32,
    /// Small, so that combined addends do not overflow.
    pub(super) addend: u32,
}

/// Distribution of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// All words equally often.
    Uniform,
    /// Zipf's law within each owner's table: the second word about as often as the next two together, as the next four,
    /// and so on.
    Skewed,
}

/// The table of all ranks: each has the same number of words, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) ranks: usize,
    pub(super) words: usize,
}

impl Tables {
    /// The weight of a word in checksums: an update of a wrong word changes the sum.
    pub(super) fn checksum_weight(self, owner: Rank, at: usize) -> u64 {
        2 * (owner * self.words + at) as u64 + 1
    }
}

/// One rank's updates and their owners, without end, from xorshift: a few instructions, to not dominate the
/// measurement.   [Marsaglia 2003]
#[derive(Clone, Debug)]
pub(super) struct Stream {
    state: u64,
    total_words: u64,
    bits: u32,
    mask: u64,
}

impl Stream {
    /// The stream of a rank in one of its batches.
    pub(super) fn new(tables: Tables, rank: Rank, turn: usize) -> Self {
        let number = (turn * tables.ranks + rank + 1) as u64;
        let state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (total_words, mask) = ((tables.ranks * tables.words) as u64, tables.words as u64 - 1);
        Self { state, total_words, bits: tables.words.trailing_zeros(), mask }
    }

    /// The same updates, with skewed keys.
    pub(super) fn skewed(self) -> impl Iterator<Item = (Rank, Update)> {
        // Addends are uniform between 0 and 255.
        let octaves = self.bits + 1;
        self.map(move |(owner, Update { index, addend })| {
            (owner, Update { index: index >> ((addend * octaves) >> 8), addend })
        })
    }
}

impl Iterator for Stream {
    type Item = (Rank, Update);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut x = self.state;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.state = x;
        let word = ((x >> 32) * self.total_words) >> 32;
        let update = Update { index: (word & self.mask) as u32, addend: (x & 0xff) as u32 };
        Some(((word >> self.bits) as Rank, update))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: Tables = Tables { ranks: 3, words: 1 << 10 };

    #[test]
    fn all_owners_and_words_are_drawn_equally_often() {
        let mut owners = [0; 3];
        let mut halves = [0; 2];
        for (owner, update) in Stream::new(TABLES, 2, 5).take(30_000) {
            owners[owner] += 1;
            halves[update.index as usize >> 9] += 1;
        }
        assert!(owners.iter().all(|times| (9_500..10_500).contains(times)), "{owners:?}");
        assert!(halves.iter().all(|times| (14_500..15_500).contains(times)), "{halves:?}");
    }

    #[test]
    fn a_skewed_stream_draws_each_octave_of_words_equally_often() {
        let mut octaves = [0u32; 11];
        for (_, update) in Stream::new(TABLES, 0, 0).skewed().take(110_000) {
            octaves[(u32::BITS - update.index.leading_zeros()) as usize] += 1;
        }
        // Uniform keys are in the last octave half of the time, in the one before a quarter, and so on.
        assert!(octaves[1..8].iter().all(|times| (9_000..11_000).contains(times)), "{octaves:?}");
    }

    #[test]
    fn each_rank_and_batch_has_its_own_stream() {
        let first = |rank, turn| Stream::new(Tables { ranks: 3, words: 1 << 22 }, rank, turn).nth(3).unwrap();
        let mut all: Vec<u32> = (0..4).flat_map(|turn| (0..3).map(move |rank| first(rank, turn).1.index)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
        assert_eq!(first(1, 2), first(1, 2));
    }
}
