//! Numbers that look like random ones, made of others.

/// The step of splitmix64.
#[inline]
pub(crate) fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// Some bits that depend on all of these numbers, and on their order.
#[inline]
pub(crate) fn digest<const N: usize>(numbers: [u64; N]) -> u64 {
    numbers.into_iter().fold(0, |hash, number| mixed(hash ^ number))
}
