//! Digests of lists.

/// A digest, which almost surely differs for different lists (FNV-1a).
pub(crate) fn digest(list: impl IntoIterator<Item = u64>) -> u64 {
    list.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, number| (hash ^ number).wrapping_mul(0x100_0000_01b3))
}
