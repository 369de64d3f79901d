//! What records mean. `slot` is the receiver's own name for something it asked to be told about.

use crate::bins::Key;
use crate::call::Call;
use crate::engine::Head;
use crate::matching::Offer;

/// Bits of [`Head::kind`] that say what a record is.
const KIND_BITS: u32 = 5;
/// Bits above those: the operation that a message belongs to.
const OPERATION_BITS: u32 = Call::OPERATION_BITS;
/// The rest: bits of a tag above the 32 that have a place of their own.
const HIGH_BITS: u32 = u32::BITS - KIND_BITS - OPERATION_BITS;

/// Bits of a tag.
pub const TAG_BITS: u32 = u32::BITS + HIGH_BITS;

impl Head {
    /// Of a message, or of what is said about messages with such tags.
    #[inline]
    pub(crate) fn of_message(kind: u32, context: u32, tag: u64, call: Call, slot: u32) -> Self {
        debug_assert!(tag >> TAG_BITS == 0 && kind >> KIND_BITS == 0);
        let high = (tag >> u32::BITS) as u32;
        let kind = kind | u32::from(call.operation) << KIND_BITS | high << (KIND_BITS + OPERATION_BITS);
        Self { kind, context, tag: tag as u32, slot }
    }

    /// What the record is.
    #[inline]
    pub(crate) fn what(&self) -> u32 {
        self.kind & ((1 << KIND_BITS) - 1)
    }

    /// The tag, all of it.
    #[inline]
    pub(crate) fn whole_tag(&self) -> u64 {
        u64::from(self.kind >> (KIND_BITS + OPERATION_BITS)) << u32::BITS | u64::from(self.tag)
    }

    /// What a message of this rank is matched by.
    #[inline]
    pub(crate) fn key(&self, source: u32) -> Key {
        Key { context: self.context, source, tag: self.whole_tag() }
    }

    /// The operation that the message belongs to; how much it is about stands elsewhere.
    #[inline]
    pub(crate) fn call(&self, size: u32) -> Call {
        let operation = (self.kind >> KIND_BITS & ((1 << OPERATION_BITS) - 1)) as u8;
        Call { operation, size }
    }
}

/// A whole message. Its sender does not wait; `slot` is how much its operation is about.
pub(crate) const EAGER: u32 = 1;
/// A whole message; `slot` is to be acknowledged when it is received.
pub(crate) const EAGER_SYNC: u32 = 2;
/// The announcement of a message: an [`Offer`].
pub(crate) const OFFER: u32 = 3;
/// To the sender of an offer: it is received; here is how to take part. See [`Accept`].
pub(crate) const ACCEPT: u32 = 4;
/// The next bytes of an accepted message, for the receive `slot`.
pub(crate) const DATA: u32 = 5;
/// The operation `slot` has been answered; where the engine has no shorter way.
pub(crate) const ACK: u32 = 6;
/// The operation `slot` will never be answered: this rank leaves, or has given up what it belongs to. Why is in `tag` and `context`.
pub(crate) const REFUSE: u32 = 7;
/// `slot` more bytes of eager messages may be sent.
pub(crate) const CREDIT: u32 = 8;
/// Are you still there? Asked where the engine cannot tell.
pub(crate) const ASK: u32 = 9;
/// This rank leaves.
pub(crate) const GONE: u32 = 10;
/// Write into the window `context`; body: offset, then data. Acknowledged by `WINDOW_PUT_DONE`.
pub(crate) const WINDOW_PUT: u32 = 11;
pub(crate) const WINDOW_PUT_DONE: u32 = 12;
/// Read from the window `context`; body: offset, length. Answered by `WINDOW_GOT`.
pub(crate) const WINDOW_GET: u32 = 13;
/// Add in the window `context`; body: offset, value. Answered by `WINDOW_GOT`.
pub(crate) const WINDOW_ADD: u32 = 14;
/// What was asked for.
pub(crate) const WINDOW_GOT: u32 = 15;
/// No messages of `context` whose tags have the bits `tag` under a mask will be sent any more; body: the mask, and why.
pub(crate) const GAVE_UP: u32 = 16;

/// Bodies that are a few words.
pub(crate) fn words<const N: usize>(body: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| u64::from_ne_bytes(body[i * 8..i * 8 + 8].try_into().expect("8 bytes")))
}

/// The bytes of a few words.
pub(crate) fn body<const N: usize>(words: [u64; N]) -> Body {
    let mut bytes = [0; 56];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    Body { bytes, len: N as u8 * 8 }
}

/// A short body, by value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    bytes: [u8; 56],
    len: u8,
}

impl Body {
    pub(crate) const EMPTY: Body = Body { bytes: [0; 56], len: 0 };

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl Offer {
    pub(crate) fn to_body(self) -> Body {
        body([self.bytes, self.place, u64::from(self.size) << 32 | u64::from(self.generation)])
    }

    pub(crate) fn from_body(slot: u32, body: &[u8]) -> Self {
        let [bytes, place, both] = words(body);
        Self { bytes, place, slot, generation: both as u32, size: (both >> 32) as u32 }
    }
}

/// How an offered message is to travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accept {
    /// Guards against an answer that comes after its operation has ended.
    pub(crate) generation: u32,
    /// The receive, for [`DATA`].
    pub(crate) receive: u32,
    /// The engine's part, or none: send records.
    pub(crate) invite: Option<crate::Invite>,
}

impl Accept {
    pub(crate) fn to_body(self) -> Body {
        let name = u64::from(self.generation) << 32 | u64::from(self.receive);
        let [a, b, c, d] = self.invite.unwrap_or_default();
        body([name, u64::from(self.invite.is_some()), a, b, c, d])
    }

    pub(crate) fn from_body(body: &[u8]) -> Self {
        let [name, direct, a, b, c, d] = words(body);
        Self { generation: (name >> 32) as u32, receive: name as u32, invite: (direct != 0).then_some([a, b, c, d]) }
    }
}
