//! Bitmaps: sets of small integers.

/// A set of integers below a length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// An empty set of integers below `len`.
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)] }
    }

    /// An empty set of integers below `len`, or an error if there is no memory for it.
    pub fn try_new(len: usize) -> treepie_base::Result<Self> {
        Ok(Self { words: treepie_base::memory::zeroed(len.div_ceil(64), "a bit for each vertex")? })
    }

    /// Whether it contains an index.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 != 0
    }

    /// Inserts an index.
    #[inline]
    pub fn set(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Inserts an index. Returns whether it is new.
    #[inline]
    pub fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (&mut self.words[index / 64], 1 << (index % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes all indices.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The number of indices in it.
    pub fn count_ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Its indices, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| iter_ones(*word).map(move |bit| 64 * at + bit))
    }

    /// Its words: index `i` is bit `i % 64` of word `i / 64`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Its words, mutable.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

/// The positions of the one bits of a word.
#[inline]
pub(crate) fn iter_ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_once() {
        let mut bits = Bitmap::new(130);
        assert!(bits.insert(0) && bits.insert(129) && bits.insert(64) && !bits.insert(64));
        bits.set(63);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!((bits.count_ones(), bits.contains(63), bits.contains(62)), (4, true, false));
        bits.clear();
        assert_eq!(bits, Bitmap::new(130));
    }
}
