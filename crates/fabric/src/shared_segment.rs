//! The shared segment: memory that all ranks of an engine read, or those of a group, and waiting in it.
//!
//! The ranks that share a segment are its [members](SharedSegment::members), and a rank has one segment. It belongs to
//! the world or, where not all ranks can share one, to a group ([`Fabric::segment_groups`]): the ranks of a host, or at
//! most 64 of them.
//!
//! All members take part in all rounds, in order. In a round a rank writes its data into its slot, publishes the slot
//! with a tag, and reads the slots of others once they have published theirs. A rank need not wait for those whose
//! slots it does not read.
//!
//! A rank that cannot complete an operation closes the segment for all members: those that wait in it fail, and none uses
//! it again. A rank that starts an operation only then uses messages, and would wait for ranks that have done the
//! operation in the segment before. So the rank that closes the segment announces its recent operations as aborted to
//! the other members, and each rank that receives this announces its recent operations in turn: it will not send messages
//! of these.
//!
//! [`Fabric::segment_groups`]: crate::Fabric::segment_groups

mod endpoint;

use crate::abort::AbortReason;

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

/// A rank's view of the shared segment. Its methods take indices into [`members`](Self::members), which are world ranks
/// where the segment belongs to the world.
pub trait SharedSegment {
    /// The ranks of the world that share the segment, ascending; at most 64.
    fn members(&self) -> &[u32];

    /// The index of this rank among the members.
    fn index(&self) -> u32;

    /// The slot capacity in bytes. The same on all ranks of the world.
    fn capacity(&self, class: SlotClass) -> usize;

    /// Writes to this rank's slot for the next round, if others have read its previous contents.
    fn try_write(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool;

    /// Publishes the slot with a 48-bit tag, if the other members have advanced far enough.
    fn try_publish(&mut self, class: SlotClass, tag: u64) -> bool;

    /// The tag under which another member has published its slot of this rank's current round, if it has.
    fn published_tag(&mut self, member: u32) -> Option<u64>;

    /// Reads a member's slot of that round. Panics unless [`published_tag`](Self::published_tag) has returned its tag.
    fn read(&mut self, member: u32, class: SlotClass, offset: usize, len: usize) -> &[u8];

    /// Exposes `data` for single copy: writes its address, in [`EXPOSED_ADDRESS_BYTES`], as
    /// [`try_write`](Self::try_write) does. Others can [read it](Self::read_exposed) until this rank has published the
    /// round after the next one: `data` must stay in place until then, or they read something else.
    fn try_expose(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool;

    /// Single copy: reads the memory of another process, from byte `from` of the data exposed at `offset` in this
    /// round. False if the system does not permit it, or if there are fewer bytes. Panics unless
    /// [`published_tag`](Self::published_tag) has returned its tag.
    fn read_exposed(&mut self, member: u32, class: SlotClass, offset: usize, from: usize, into: &mut [u8]) -> bool;

    /// Closes the segment for its members, with a reason that names a rank of the world.
    fn close(&mut self, reason: AbortReason);

    /// Why the segment was closed, if it was.
    fn closed_reason(&self) -> Option<AbortReason>;

    /// The rank of the world whose slot was not published at the last check.
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
