//! How an endpoint waits in the shared segment, and closes it.

use treepie_base::{Error, Result};

use super::SharedSegment;
use crate::abort::AbortReason;
use crate::backoff::Backoff;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::mismatch::SegmentOp;
use crate::op::WaitReason;
use crate::protocol_queues::{GROUP_TAG_BIT, operation_tag};

/// Number of yields of a rank that shares its core, before it makes progress.
const YIELDS_BEFORE_PROGRESS: u32 = 3;

const HAS_SEGMENT: &str = "waits only where there is a segment";

impl Endpoint {
    /// The shared segment of this rank, if it has one: that of the world or of its group.
    #[inline]
    pub fn shared_segment(&mut self) -> Option<&mut dyn SharedSegment> {
        self.fabric.shared_segment()
    }

    /// The shared segment, if it belongs to all ranks of the world.
    #[inline]
    pub fn world_segment(&mut self) -> Option<&mut dyn SharedSegment> {
        let size = self.size() as usize;
        self.fabric.shared_segment().filter(|segment| segment.members().len() == size)
    }

    /// For each rank of the world the lowest rank of the group that shares its segment; empty unless segments belong to
    /// groups.
    pub fn segment_groups(&self) -> &[u32] {
        self.fabric.segment_groups()
    }

    /// The most ranks for each core of a host, rounded up, where ranks are on several hosts.
    pub fn ranks_per_host_core(&self) -> u32 {
        self.fabric.ranks_per_host_core()
    }

    /// Sets the operation that the next rounds belong to, and whether it has messages, too.
    #[inline]
    pub fn begin_segment_op(&mut self, context: u32, tag: u64, call: CallSignature, has_messages: bool) {
        self.state.recent_segment_ops.add(context, tag);
        self.state.mismatches.set_segment_op(SegmentOp { context, tag, call, has_messages });
    }

    /// Closes the segment for all its members, and announces this rank's recent operations as aborted.
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
        let recent = self.state.recent_segment_ops.take();
        let members = match self.fabric.shared_segment() {
            Some(segment) if !recent.is_empty() => segment.members().to_vec(),
            _ => return,
        };
        for (context, tag) in recent {
            let mask = operation_tag(u32::MAX) | GROUP_TAG_BIT;
            self.announce_abort(context, mask, tag, reason, members.iter().copied());
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
        if self.fabric.has_dedicated_core() {
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
}
