//! Hash functions.

/// The output function of splitmix64.
#[inline]
pub(crate) fn splitmix64(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// An order-dependent hash of some words.
#[inline]
pub(crate) fn hash_words<const N: usize>(words: [u64; N]) -> u64 {
    words.into_iter().fold(0, |hash, word| splitmix64(hash ^ word))
}
