//! The shared segment: memory that all ranks of an engine read, and waiting in it.
//!
//! All ranks take part in all rounds, in order. In a round a rank writes its data into its slot, publishes the slot
//! with a tag, and reads the slots of others once they have published theirs. A rank need not wait for those whose
//! slots it does not read.
//!
//! A rank that cannot complete an operation closes the segment for all: ranks that wait in it fail, and no rank uses it
//! again. A rank that starts an operation only then uses messages, and would wait for ranks that have done the
//! operation in the segment before. So the rank that closes the segment announces its recent operations as aborted to
//! all others, and each rank that receives this announces its recent operations in turn: it will not send messages of
//! these.

use treepie_base::{Error, Result};

use crate::abort::AbortReason;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::op::WaitReason;
use crate::protocol_queues::{GROUP_TAG_BIT, operation_tag};
use crate::wait::Backoff;

/// The class of the slots of a round; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotClass {
    /// A few bytes beside the flag that publishes the slot.
    Line,
    /// A few thousand bytes.
    Page,
    /// Many thousand bytes, for few rounds at a time.
    Large,
}

/// The number of bytes of an exposed address ([`SharedSegment::try_expose`]).
pub const EXPOSED_ADDRESS_BYTES: usize = 16;

/// A rank's view of the shared segment.
pub trait SharedSegment {
    /// The slot capacity in bytes.
    fn capacity(&self, class: SlotClass) -> usize;

    /// Writes to this rank's slot for the next round, if others have read its previous contents.
    fn try_write(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool;

    /// Publishes the slot with a 48-bit tag, if the other ranks have advanced far enough.
    fn try_publish(&mut self, class: SlotClass, tag: u64) -> bool;

    /// The tag under which another rank has published its slot of this rank's current round, if it has.
    fn published_tag(&mut self, rank: u32) -> Option<u64>;

    /// Reads a rank's slot of that round. Panics unless [`published_tag`](Self::published_tag) has returned its tag.
    fn read(&mut self, rank: u32, class: SlotClass, offset: usize, len: usize) -> &[u8];

    /// Exposes `data` for single copy: writes its address, in [`EXPOSED_ADDRESS_BYTES`], as
    /// [`try_write`](Self::try_write) does. Others can [read it](Self::read_exposed) until this rank has published the
    /// round after the next one: `data` must stay in place until then, or they read something else.
    fn try_expose(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool;

    /// Single copy: reads the memory of another process, from byte `from` of the data exposed at `offset` in this
    /// round. False if the system does not permit it, or if there are fewer bytes. Panics unless
    /// [`published_tag`](Self::published_tag) has returned its tag.
    fn read_exposed(&mut self, rank: u32, class: SlotClass, offset: usize, from: usize, into: &mut [u8]) -> bool;

    /// Closes the segment with a reason that names a rank.
    fn close(&mut self, reason: AbortReason);

    /// Why the segment was closed, if it was.
    fn closed_reason(&self) -> Option<AbortReason>;

    /// The rank whose slot was not published at the last check.
    fn awaited(&self) -> Option<u32>;

    /// Clears the awaited rank: events in the segment no longer wake this rank.
    fn clear_awaited(&mut self);
}

/// Maximum number of operations that a rank has started in the segment while others have reached none of their rounds:
/// at most the number of adjacent flags, plus the current operation.
const MAX_ROUNDS_AHEAD: usize = 32;

/// The operations that this rank has started in the segment and others may not have.
#[derive(Default)]
pub(crate) struct RecentSegmentOps {
    /// Their contexts and tags, as a ring buffer.
    last: [(u32, u64); MAX_ROUNDS_AHEAD],
    /// Total number of operations.
    count: usize,
}

impl RecentSegmentOps {
    #[inline]
    fn add(&mut self, context: u32, tag: u64) {
        self.last[self.count % MAX_ROUNDS_AHEAD] = (context, tag);
        self.count += 1;
    }

    fn take(&mut self) -> Vec<(u32, u64)> {
        let Self { last, count } = std::mem::take(self);
        last[..count.min(MAX_ROUNDS_AHEAD)].to_vec()
    }
}

/// Number of yields of a rank that shares its core, before it makes progress.
const YIELDS_BEFORE_PROGRESS: u32 = 3;

const HAS_SEGMENT: &str = "waits only where there is a segment";

impl Endpoint {
    /// The engine's shared segment, if it has one.
    #[inline]
    pub fn shared_segment(&mut self) -> Option<&mut dyn SharedSegment> {
        self.fabric.shared_segment()
    }

    /// Sets the operation that the next rounds belong to.
    #[inline]
    pub fn begin_segment_op(&mut self, context: u32, tag: u64, call: CallSignature) {
        self.state.recent_segment_ops.add(context, tag);
        self.state.mismatches.set_segment_op(context, tag, call);
    }

    /// Closes the segment for all ranks, and announces this rank's recent operations as aborted.
    #[cold]
    pub fn close_segment(&mut self, reason: AbortReason) {
        let reason = reason.originating_at(self.state.rank);
        let segment = self.fabric.shared_segment().expect("there is one to close");
        segment.close(reason);
        // After a panic this rank may still be registered as waiting there.
        segment.clear_awaited();
        self.announce_segment_ops(reason);
    }

    /// Announces this rank's recent operations as aborted if the segment is closed; called after the abort of a peer.
    #[cold]
    pub(crate) fn check_segment_closed(&mut self) {
        if let Some(reason) = self.fabric.shared_segment().and_then(|segment| segment.closed_reason()) {
            self.announce_segment_ops(reason);
        }
    }

    fn announce_segment_ops(&mut self, reason: AbortReason) {
        for (context, tag) in self.state.recent_segment_ops.take() {
            self.announce_abort(context, operation_tag(u32::MAX) | GROUP_TAG_BIT, tag, reason, 0..self.size());
        }
    }

    /// Waits in the segment until `poll` returns a value. An error if the awaited rank is lost.
    #[inline]
    pub fn wait_segment<R>(&mut self, mut poll: impl FnMut(&mut dyn SharedSegment) -> Option<R>) -> Result<R> {
        let segment = self.fabric.shared_segment().expect(HAS_SEGMENT);
        if let Some(found) = poll(segment) {
            return Ok(found);
        }
        // On a dedicated core, the awaited rank is mostly less than a microsecond away.
        if self.has_dedicated_core() {
            let segment = self.fabric.shared_segment().expect(HAS_SEGMENT);
            for _ in 0..64 {
                std::hint::spin_loop();
                if let Some(found) = poll(segment) {
                    return Ok(found);
                }
            }
        } else {
            // The awaited rank mostly waits for the core. Making progress before it runs costs as much as yielding.
            for _ in 0..YIELDS_BEFORE_PROGRESS {
                self.fabric.idle(0);
                if let Some(found) = poll(self.fabric.shared_segment().expect(HAS_SEGMENT)) {
                    return Ok(found);
                }
            }
        }
        let result = self.wait_segment_slow(poll);
        if result.is_err() {
            // A closed segment would otherwise count as an event for ever, and this rank would never sleep again.
            self.fabric.shared_segment().expect(HAS_SEGMENT).clear_awaited();
        }
        result
    }

    fn wait_segment_slow<R>(&mut self, mut poll: impl FnMut(&mut dyn SharedSegment) -> Option<R>) -> Result<R> {
        let mut backoff = Backoff::default();
        loop {
            if self.progress() {
                backoff.reset();
            } else {
                self.backoff(&mut backoff, WaitReason::For("a collective operation"));
            }
            let segment = self.fabric.shared_segment().expect(HAS_SEGMENT);
            if let Some(found) = poll(segment) {
                return Ok(found);
            }
            // It was known to be lost before the segment was checked, so slots that it published before count.
            if let Some(rank) = segment.awaited().filter(|rank| self.state.liveness.is_lost(*rank)) {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            if let Some(reason) = segment.closed_reason() {
                // The closing rank closed after everything it had seen: what other ranks have seen, this rank sees,
                // too.
                if let Some(found) = poll(segment) {
                    return Ok(found);
                }
                return Err(reason.to_error(self.state.rank));
            }
            self.check_segment_mismatch()?;
        }
    }

    /// Whether each rank has a core.
    fn has_dedicated_core(&self) -> bool {
        self.fabric.cores().is_some_and(|cores| self.size() <= cores)
    }
}
