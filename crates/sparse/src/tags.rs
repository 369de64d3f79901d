//! Tags of exchange messages: the protocol, a kind, and a small number.
//!
//! Ranks that run different protocols would misread each other's messages. So the tag identifies the protocol, and
//! `ProtocolTagged` checks it before the protocol gets the message.

use treepie_base::{Error, Result};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// A message of the program. The meaning of the number is up to the protocol.
    Data,
    /// A message of the final barrier; the number is its round.
    Barrier,
    /// Metadata sent before the data; the number is the round.
    Meta,
    /// A message count.
    Count,
}

const KINDS: [MessageKind; 4] = [MessageKind::Data, MessageKind::Barrier, MessageKind::Meta, MessageKind::Count];

/// Bits of the number.
pub(crate) const NUMBER_BITS: u32 = 13;

/// Bits of number and kind.
const PROTOCOL_TAG_BITS: u32 = NUMBER_BITS + 2;

impl MessageKind {
    pub(crate) const fn tag(self, number: u32) -> u32 {
        (self as u32) << NUMBER_BITS | number
    }

    pub(crate) fn decode(tag: u32) -> (Self, u32) {
        (KINDS[(tag >> NUMBER_BITS) as usize % KINDS.len()], tag & ((1 << NUMBER_BITS) - 1))
    }
}

/// Adds the protocol's number to a tag.
pub(crate) fn with_protocol(protocol: u32, tag: u32) -> u32 {
    assert_eq!(tag >> PROTOCOL_TAG_BITS, 0, "the tag exceeds PROTOCOL_TAG_BITS");
    protocol << PROTOCOL_TAG_BITS | tag
}

/// Removes the protocol's number from a tag; an error if it is another protocol's.
pub(crate) fn strip_protocol(protocol: u32, from: u32, tag: u32) -> Result<u32> {
    if tag >> PROTOCOL_TAG_BITS == protocol {
        Ok(tag & ((1 << PROTOCOL_TAG_BITS) - 1))
    } else {
        Err(Error::CollectiveOrderMismatch { rank: from as usize })
    }
}
