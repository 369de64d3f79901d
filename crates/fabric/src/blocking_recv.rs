//! The blocking receive in progress.

use treepie_base::{Bytes, Error, copy_short};

use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::matching::Rts;
use crate::op::{Envelope, Select};

/// The blocking receive in progress: it is younger than all posted ones, so it needs no queue entry.
pub(crate) struct BlockingRecv<'a> {
    pub(crate) key: MatchKey,
    /// The call that the message must belong to.
    pub(crate) call: CallSignature,
    pub(crate) into: &'a mut [u8],
    /// If messages of any length are received, the alignment of the memory that longer ones than `into` get.
    align: Option<usize>,
    pub(crate) allocated: Option<Bytes>,
    pub(crate) outcome: Option<RecvOutcome>,
}

pub(crate) enum RecvOutcome {
    Received(Envelope),
    /// The receive fails, and the message stays queued.
    Rejected(Box<Error>),
    Rts(Envelope, Rts),
}

impl<'a> BlockingRecv<'a> {
    pub(crate) fn new(select: Select, into: &'a mut [u8], align: Option<usize>) -> Self {
        Self { key: select.key(), call: select.call, into, align, allocated: None, outcome: None }
    }

    /// Whether a message of this length can be received; memory for it is allocated where `into` is too short.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        if bytes <= self.into.len() as u64 {
            return true;
        }
        self.allocated = self.align.and_then(|align| Bytes::try_zeroed(usize::try_from(bytes).ok()?, align));
        self.allocated.is_some()
    }

    /// The memory for a message that there is room for.
    pub(crate) fn memory(&mut self, bytes: u64) -> &mut [u8] {
        let memory = self.allocated.as_mut().map_or(&mut *self.into, Bytes::as_mut_slice);
        &mut memory[..bytes as usize]
    }

    /// Copies a message from the engine's memory, if it fits.
    #[inline]
    pub(crate) fn copy(&mut self, body: &[u8]) -> bool {
        if let Some(into) = self.into.get_mut(..body.len()) {
            copy_short(into, body);
            return true;
        }
        self.allocated = self.align.map(|align| Bytes::copy_of(body, align));
        self.allocated.is_some()
    }

    /// Why the receive of rank `rank` fails on a message that it matches: it belongs to another call, or there is no
    /// room for it.
    #[cold]
    pub(crate) fn rejection(&self, rank: u32, message: MatchKey, call: CallSignature, bytes: u64) -> Error {
        if self.call != call {
            self.call.mismatch_error(rank, call, message.source)
        } else if self.align.is_some() {
            no_memory(bytes)
        } else {
            Error::Truncated { got: bytes, room: self.into.len() as u64 }
        }
    }
}

/// The error of a receive of any length.
#[cold]
pub(crate) fn no_memory(bytes: u64) -> Error {
    Error::OutOfMemory { what: "a message", bytes }
}

/// Decides which receives poll for their message when they start.
#[derive(Default)]
pub(crate) struct RecvPollGate {
    /// Number of receives started.
    started: u32,
    /// Number of receives that are not to poll.
    skip: u32,
}

impl RecvPollGate {
    /// Counts a receive. Returns whether to make progress first: receives that find their message at once might never
    /// do so, and acknowledgements and other peers would wait for ever.
    #[inline]
    pub(crate) fn start(&mut self) -> bool {
        self.started = self.started.wrapping_add(1);
        self.started.is_multiple_of(64)
    }

    /// Whether this receive is to poll.
    #[inline]
    pub(crate) fn should_poll(&mut self) -> bool {
        let polls = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        polls
    }

    /// A poll takes the cache line from the sender that is about to write it, so the next receives skip theirs; by then
    /// several messages may have arrived. Between 4 and 16 it makes no difference; 0 costs a fifth of the rate.
    pub(crate) fn found_nothing(&mut self) {
        self.skip = 8;
    }
}
