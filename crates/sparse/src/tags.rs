//! What messages of exchanges are called: the protocol, a kind, and a small number.
//!
//! Ranks that run different protocols would take each other's messages for something else. So each message names its
//! protocol; that is looked at in one place, before any protocol sees it.

use treepie_base::{Error, Result};

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
pub(crate) const NUMBER_BITS: u32 = 13;

/// Of number and kind.
const OWN_BITS: u32 = NUMBER_BITS + 2;

impl Kind {
    pub(crate) const fn tag(self, number: u32) -> u32 {
        (self as u32) << NUMBER_BITS | number
    }

    pub(crate) fn of(tag: u32) -> (Self, u32) {
        (KINDS[(tag >> NUMBER_BITS) as usize % KINDS.len()], tag & ((1 << NUMBER_BITS) - 1))
    }
}

/// A protocol's own tag with the number of the protocol.
pub(crate) fn of_protocol(protocol: u32, tag: u32) -> u32 {
    assert_eq!(tag >> OWN_BITS, 0, "the tag of a protocol does not fit");
    protocol << OWN_BITS | tag
}

/// The protocol's own tag, if a message is of this protocol.
pub(crate) fn own(protocol: u32, from: u32, tag: u32) -> Result<u32> {
    if tag >> OWN_BITS == protocol {
        Ok(tag & ((1 << OWN_BITS) - 1))
    } else {
        Err(Error::OtherOperation { rank: from as usize })
    }
}
