//! What messages of exchanges are called: a kind, and a small number.

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What a rank sends to another, as it was given. The number is the protocol's.
    Data,
    /// Of the barrier at the end; the number is its round.
    Closing,
    /// What is told before data is sent; the number is the round.
    Meta,
    /// So many messages come.
    Count,
}

const KINDS: [Kind; 4] = [Kind::Data, Kind::Closing, Kind::Meta, Kind::Count];

/// Of the number.
pub(crate) const NUMBER_BITS: u32 = 16;

/// The largest number.
const MOST: u32 = (1 << NUMBER_BITS) - 1;

impl Kind {
    pub(crate) const fn tag(self, number: u32) -> u32 {
        (self as u32) << NUMBER_BITS | number
    }

    pub(crate) fn of(tag: u32) -> (Self, u32) {
        (KINDS[(tag >> NUMBER_BITS) as usize % KINDS.len()], tag & MOST)
    }
}
