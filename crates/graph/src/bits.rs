//! Sets of numbers, a bit for each.

/// A set of numbers below some length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// An empty set of numbers below `len`.
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)] }
    }

    /// The same, unless there is no memory for so many.
    pub fn try_new(len: usize) -> treepie_base::Result<Self> {
        Ok(Self { words: treepie_base::memory::zeroed(len.div_ceil(64), "a bit for each vertex")? })
    }

    /// Whether it has a number.
    #[inline]
    pub fn has(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 != 0
    }

    /// Puts a number in.
    #[inline]
    pub fn put(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Puts a number in, and says whether it was not there.
    #[inline]
    pub fn put_new(&mut self, number: usize) -> bool {
        let (word, bit) = (&mut self.words[number / 64], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Its numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| ones(*word).map(move |bit| 64 * at + bit))
    }

    /// Its words: number `i` is bit `i % 64` of word `i / 64`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Its words, to be changed.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

/// The places of ones in a word.
#[inline]
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
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
    fn numbers_are_there_once() {
        let mut bits = Bits::new(130);
        assert!(bits.put_new(0) && bits.put_new(129) && bits.put_new(64) && !bits.put_new(64));
        bits.put(63);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!((bits.count(), bits.has(63), bits.has(62)), (4, true, false));
        bits.clear();
        assert_eq!(bits, Bits::new(130));
    }
}
