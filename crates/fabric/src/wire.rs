//! The wire format: record kinds and header packing. `slot` is an index that the receiver of the record has assigned.

use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::engine::RecordHeader;
use crate::matching::Rts;

/// Bits of [`RecordHeader::kind`] for the record kind.
const KIND_BITS: u32 = 5;
/// Bits above those: the operation that a message belongs to.
const OPERATION_BITS: u32 = CallSignature::OPERATION_BITS;
/// The rest: tag bits above the 32 of [`RecordHeader::tag`].
const HIGH_BITS: u32 = u32::BITS - KIND_BITS - OPERATION_BITS;

/// Bits of a tag.
pub const TAG_BITS: u32 = u32::BITS + HIGH_BITS;

impl RecordHeader {
    /// The header of a message, or of a control record about messages with such tags.
    #[inline]
    pub(crate) fn for_message(kind: u32, context: u32, tag: u64, call: CallSignature, slot: u32) -> Self {
        debug_assert!(tag >> TAG_BITS == 0 && kind >> KIND_BITS == 0);
        let high = (tag >> u32::BITS) as u32;
        let kind = kind | u32::from(call.operation) << KIND_BITS | high << (KIND_BITS + OPERATION_BITS);
        Self { kind, context, tag: tag as u32, slot }
    }

    /// The record kind.
    #[inline]
    pub(crate) fn record_kind(&self) -> u32 {
        self.kind & ((1 << KIND_BITS) - 1)
    }

    /// The sender's slot that the receiver acknowledges, if this is a synchronous eager message.
    pub fn synchronous_slot(&self) -> Option<u32> {
        (self.record_kind() == EAGER_SYNC).then_some(self.slot)
    }

    /// The full tag.
    #[inline]
    pub(crate) fn full_tag(&self) -> u64 {
        u64::from(self.kind >> (KIND_BITS + OPERATION_BITS)) << u32::BITS | u64::from(self.tag)
    }

    /// The match key of a message from `source`.
    #[inline]
    pub(crate) fn key(&self, source: u32) -> MatchKey {
        MatchKey { context: self.context, source, tag: self.full_tag() }
    }

    /// The call that the message belongs to; each record kind stores its size elsewhere.
    #[inline]
    pub(crate) fn call(&self, size: u32) -> CallSignature {
        let operation = (self.kind >> KIND_BITS & ((1 << OPERATION_BITS) - 1)) as u8;
        CallSignature { operation, size }
    }
}

/// An eager message; `slot` is the size in the signature of its call.
pub(crate) const EAGER: u32 = 1;
/// A synchronous eager message; the receiver acknowledges `slot`.
pub(crate) const EAGER_SYNC: u32 = 2;
/// A request to send: an [`Rts`].
pub(crate) const RTS: u32 = 3;
/// Clear to send: the receive has matched. See [`Cts`].
pub(crate) const CTS: u32 = 4;
/// The next bytes of a rendezvous message, for the receive `slot`.
pub(crate) const DATA: u32 = 5;
/// Acknowledges the operation `slot`, where the engine's `ack` does not support it.
pub(crate) const ACK: u32 = 6;
/// Rejects the operation `slot`: the receiver finalizes, or has aborted the operation. `tag` and `context` encode the
/// reason.
pub(crate) const NACK: u32 = 7;
/// Returns credit for `slot` bytes of eager messages.
pub(crate) const CREDIT: u32 = 8;
/// Asks whether the rank is alive, where the engine does not detect failures.
pub(crate) const PING: u32 = 9;
/// The sender finalizes.
pub(crate) const FINALIZING: u32 = 10;
/// Puts into the window `context`; body: offset, then data. Acknowledged by [`WINDOW_PUT_ACK`].
pub(crate) const WINDOW_PUT: u32 = 11;
pub(crate) const WINDOW_PUT_ACK: u32 = 12;
/// Gets from the window `context`; body: offset, length. Answered by [`WINDOW_REPLY`].
pub(crate) const WINDOW_GET: u32 = 13;
/// Fetch-and-add in the window `context`; body: offset, value. Answered by [`WINDOW_REPLY`].
pub(crate) const WINDOW_FETCH_ADD: u32 = 14;
/// The data or value of a get or fetch-and-add.
pub(crate) const WINDOW_REPLY: u32 = 15;
/// The sender sends no more messages of `context` whose tags equal `tag` under a mask; body: the mask and the reason.
pub(crate) const ABORT: u32 = 16;

/// Decodes a body of a few words.
pub(crate) fn decode_words<const N: usize>(body: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| u64::from_ne_bytes(body[i * 8..i * 8 + 8].try_into().expect("8 bytes")))
}

/// Encodes a body of a few words.
pub(crate) fn encode_words<const N: usize>(words: [u64; N]) -> Body {
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

impl Rts {
    pub(crate) fn to_body(self) -> Body {
        encode_words([self.bytes, self.rkey, u64::from(self.call_size) << 32 | u64::from(self.generation)])
    }

    pub(crate) fn from_body(slot: u32, body: &[u8]) -> Self {
        let [bytes, rkey, both] = decode_words(body);
        Self { bytes, rkey, slot, generation: both as u32, call_size: (both >> 32) as u32 }
    }
}

/// A clear to send (CTS): how the sender transfers the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cts {
    /// Guards against a CTS that arrives after its operation has completed.
    pub(crate) generation: u32,
    /// The slot of the receive, for [`DATA`].
    pub(crate) receive: u32,
    /// The engine's bulk descriptor; none: stream data records.
    pub(crate) descriptor: Option<crate::BulkDescriptor>,
}

impl Cts {
    pub(crate) fn to_body(self) -> Body {
        let id = u64::from(self.generation) << 32 | u64::from(self.receive);
        let [a, b, c, d] = self.descriptor.unwrap_or_default();
        encode_words([id, u64::from(self.descriptor.is_some()), a, b, c, d])
    }

    pub(crate) fn from_body(body: &[u8]) -> Self {
        let [id, has_descriptor, a, b, c, d] = decode_words(body);
        Self {
            generation: (id >> 32) as u32,
            receive: id as u32,
            descriptor: (has_descriptor != 0).then_some([a, b, c, d]),
        }
    }
}
