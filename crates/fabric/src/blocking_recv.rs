//! The blocking receive in progress.

use treepie_base::{Bytes, copy_short};

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
    Truncated {
        bytes: u64,
    },
    /// The message belongs to another call, and stays queued.
    Mismatch {
        source: u32,
        call: CallSignature,
    },
    Rts(Envelope, Rts),
}

impl<'a> BlockingRecv<'a> {
    pub(crate) fn new(select: Select, into: &'a mut [u8], align: Option<usize>) -> Self {
        Self { key: select.key(), call: select.call, into, align, allocated: None, outcome: None }
    }

    /// Whether a message of this length can be received.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.into.len() as u64 || self.align.is_some()
    }

    /// The memory for a message that fits.
    pub(crate) fn memory(&mut self, bytes: u64) -> &mut [u8] {
        match self.align {
            Some(align) if bytes > self.into.len() as u64 => {
                self.allocated.insert(Bytes::zeroed(bytes as usize, align)).as_mut_slice()
            }
            _ => &mut self.into[..bytes as usize],
        }
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

    /// Why the receive fails on a message that it matches.
    #[cold]
    pub(crate) fn rejection(&self, message: MatchKey, call: CallSignature, bytes: u64) -> RecvOutcome {
        if self.call == call {
            RecvOutcome::Truncated { bytes }
        } else {
            RecvOutcome::Mismatch { source: message.source, call }
        }
    }
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
