//! A rank's block of the table.

use treepie_base::HugeArray;
use treepie_base::prefetch;

use super::Pages;
use super::partition::Partition;

/// The words of a rank. Initially each word is its index.
pub(super) struct Table {
    words: HugeArray<u64>,
    partition: Partition,
    first: u64,
}

/// Updates whose words are prefetched: a core waits for about this many lines at once, so that random updates run at the
/// rate of the memory instead of its latency.
const PREFETCH_AHEAD: usize = 64;

impl Table {
    /// `None` if the system refuses the memory: by default it refuses only what could never be there.
    pub(super) fn new(partition: Partition, rank: u32, pages: Pages) -> Option<Self> {
        let block = partition.block(rank);
        let len = usize::try_from(block.end - block.start).ok()?;
        let words = HugeArray::try_zeroed(len, pages == Pages::Huge)?;
        let mut table = Self { words, partition, first: block.start };
        table.reset();
        Some(table)
    }

    /// Its initial contents.
    pub(super) fn reset(&mut self) {
        self.words.iter_mut().zip(self.first..).for_each(|(word, index)| *word = index);
    }

    #[inline(always)]
    fn local_index(&self, datum: u64) -> usize {
        (self.partition.index(datum) - self.first) as usize
    }

    /// The word of a datum that belongs here.
    #[inline(always)]
    pub(super) fn word(&self, datum: u64) -> &u64 {
        &self.words[self.local_index(datum)]
    }

    /// One update.
    #[inline(always)]
    pub(super) fn update(&mut self, datum: u64) {
        let index = self.local_index(datum);
        self.words[index] ^= datum;
    }

    /// An update of each datum of a list.
    pub(super) fn update_all(&mut self, list: &[u64]) {
        let ahead = PREFETCH_AHEAD.min(list.len());
        list[..ahead].iter().for_each(|datum| prefetch(self.word(*datum)));
        for (datum, later) in list.iter().zip(&list[ahead..]) {
            prefetch(self.word(*later));
            self.update(*datum);
        }
        list[list.len() - ahead..].iter().for_each(|datum| self.update(*datum));
    }

    /// Words that differ from their initial value.
    pub(super) fn count_changed(&self) -> u64 {
        self.words.iter().zip(self.first..).filter(|(word, index)| **word != *index).count() as u64
    }
}
