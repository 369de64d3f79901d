//! Global ids in results and messages: 32 bits if all ids fit, else 64.

use bytemuck::Pod;

/// The type of a global id in a result.
pub trait VertexId: Copy + Eq + Ord + std::fmt::Debug + 'static {
    /// A message to a vertex that carries the id of another.
    type Message: Pod;
    /// The id of no vertex.
    const NONE: Self;

    /// Converts from `u64`. The id must fit.
    fn from_u64(global_id: u64) -> Self;

    /// Converts to `u64`.
    fn to_u64(self) -> u64;

    /// A message that carries this id to a local index of the destination.
    fn to_message(self, local_index: u32) -> Self::Message;

    /// The local index and the id of a message.
    fn from_message(message: Self::Message) -> (u32, Self);
}

impl VertexId for u32 {
    type Message = [u32; 2];
    const NONE: Self = u32::MAX;

    #[inline]
    fn from_u64(global_id: u64) -> Self {
        global_id as u32
    }

    #[inline]
    fn to_u64(self) -> u64 {
        self.into()
    }

    #[inline]
    fn to_message(self, local_index: u32) -> [u32; 2] {
        [local_index, self]
    }

    #[inline]
    fn from_message([local_index, id]: [u32; 2]) -> (u32, Self) {
        (local_index, id)
    }
}

impl VertexId for u64 {
    type Message = [u32; 3];
    const NONE: Self = u64::MAX;

    #[inline]
    fn from_u64(global_id: u64) -> Self {
        global_id
    }

    #[inline]
    fn to_u64(self) -> u64 {
        self
    }

    #[inline]
    fn to_message(self, local_index: u32) -> [u32; 3] {
        let [low, high] = split_u64(self);
        [local_index, low, high]
    }

    #[inline]
    fn from_message([local_index, low, high]: [u32; 3]) -> (u32, Self) {
        (local_index, join_u64([low, high]))
    }
}

/// Splits a `u64` into its low and high half, for messages of 32-bit words.
#[inline]
pub(crate) fn split_u64(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Joins a low and a high half.
#[inline]
pub(crate) fn join_u64([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
