//! Large transfers: MPI moves the bytes from one rank's memory to the other's, without a copy by Treepie.
//!
//! The receiver posts its receive with a tag that no other transfer to it has, and sends a CTS with that tag. Both
//! sides split long messages into segments, one after the other, because MPI counts with an `int`. MPI messages between
//! two ranks do not overtake, so segments can share the tag, and it can be reused as soon as the receive is complete.

use std::ptr::NonNull;

use treepie_base::Span;
use treepie_fabric::{BulkDescriptor, BulkError, FabricEvent};

use crate::shim::{MpiRequest, Shim};

/// The longest segment, so long that the start of the next one is negligible.
const MAX_SEGMENT: usize = 64 << 20;

pub(crate) struct Bulk {
    /// One request per transfer, and the transfers: two lists in the same order, because MPI takes an array of
    /// requests.
    requests: Vec<MpiRequest>,
    transfers: Vec<Transfer>,
    /// Transfers that are complete and still to be reported.
    completed: Vec<Transfer>,
    tags: TagPool,
}

/// A transfer in flight. MPI uses its memory until it completes, and this is its only owner.
struct Transfer {
    slot: u32,
    span: Span,
    peer: u32,
    tag: i32,
    sending: bool,
    /// Bytes of the posted segments.
    posted_bytes: usize,
}

impl Transfer {
    /// Posts the next segment; none if it completes at once.
    fn post_segment(&mut self, shim: &Shim) -> Option<MpiRequest> {
        let at = self.posted_bytes;
        let length = MAX_SEGMENT.min(self.span.len() - at);
        self.posted_bytes += length;
        if self.sending {
            let segment = &self.span.as_slice()[at..at + length];
            // SAFETY: the span stays here, and so stays valid and unwritten, until its transfer is complete.
            unsafe { shim.isend(segment.as_ptr(), length, self.peer, self.tag) }
        } else {
            let segment = &mut self.span.as_mut_slice()[at..at + length];
            // SAFETY: as above, and nobody reads or writes the span in between.
            Some(unsafe { shim.irecv(NonNull::from(segment).cast(), length, Some(self.peer), self.tag) })
        }
    }

    fn is_all_posted(&self) -> bool {
        self.posted_bytes == self.span.len()
    }
}

impl Bulk {
    pub(crate) fn new(tag_ub: i32) -> Self {
        let tags = TagPool { free: Vec::new(), used: crate::record::RECORD_TAG, tag_ub };
        Self { requests: Vec::new(), transfers: Vec::new(), completed: Vec::new(), tags }
    }

    /// Begins to receive; returns the span if there are more transfers than MPI has tags.
    pub(crate) fn receive(
        &mut self,
        shim: &Shim,
        from: u32,
        slot: u32,
        span: Span,
    ) -> Result<BulkDescriptor, BulkError> {
        if !span.is_writable() {
            return Err(BulkError::invalid(
                span,
                format!("the receive buffer for a bulk transfer from rank {from} is read-only"),
            ));
        }
        let Some(tag) = self.tags.acquire() else { return Err(BulkError::unsupported(span)) };
        self.post_next(shim, Transfer { slot, span, peer: from, tag, sending: false, posted_bytes: 0 });
        Ok([tag as u64, 0, 0, 0])
    }

    /// Begins to send to a receive that the peer has posted.
    pub(crate) fn send(
        &mut self,
        shim: &Shim,
        to: u32,
        slot: u32,
        cts: BulkDescriptor,
        span: Span,
    ) -> Result<(), BulkError> {
        let Some(tag) = self.tags.validate(cts[0]) else {
            let why = format!("rank {to} cannot have sent a CTS with tag {}", cts[0]);
            return Err(BulkError::invalid(span, why));
        };
        self.post_next(shim, Transfer { slot, span, peer: to, tag, sending: true, posted_bytes: 0 });
        Ok(())
    }

    /// Posts segments until one is pending.
    fn post_next(&mut self, shim: &Shim, mut transfer: Transfer) {
        loop {
            if let Some(request) = transfer.post_segment(shim) {
                self.requests.push(request);
                self.transfers.push(transfer);
                return;
            }
            if transfer.is_all_posted() {
                self.completed.push(transfer);
                return;
            }
        }
    }

    /// Progresses all transfers and reports one that is complete.
    pub(crate) fn poll(&mut self, shim: &Shim) -> Option<FabricEvent<'static>> {
        while let Some(index) = shim.test_any(&self.requests) {
            self.requests.swap_remove(index);
            let transfer = self.transfers.swap_remove(index);
            if transfer.is_all_posted() {
                self.completed.push(transfer);
                break;
            }
            self.post_next(shim, transfer);
        }
        let Transfer { slot, span, tag, sending, .. } = self.completed.pop()?;
        if sending {
            return Some(FabricEvent::BulkSent { slot, span });
        }
        self.tags.release(tag);
        Some(FabricEvent::BulkReceived { slot, span, tell_sender: false })
    }

    /// Whether no transfer is in flight or to be reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.completed.is_empty()
    }
}

/// The tags of this rank's receives.
struct TagPool {
    free: Vec<i32>,
    used: i32,
    tag_ub: i32,
}

impl TagPool {
    fn acquire(&mut self) -> Option<i32> {
        self.free.pop().or_else(|| {
            let next = self.used.checked_add(1).filter(|&tag| tag <= self.tag_ub)?;
            self.used = next;
            Some(next)
        })
    }

    fn release(&mut self, tag: i32) {
        self.free.push(tag);
    }

    /// The tag of a CTS, if it is valid for transfers. All ranks have the same range.
    fn validate(&self, tag: u64) -> Option<i32> {
        i32::try_from(tag).ok().filter(|tag| (crate::record::RECORD_TAG + 1..=self.tag_ub).contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_in_use_are_unique_and_bounded() {
        let mut tags = TagPool { free: Vec::new(), used: 0, tag_ub: 3 };
        assert_eq!([tags.acquire(), tags.acquire(), tags.acquire(), tags.acquire()], [Some(1), Some(2), Some(3), None]);
        tags.release(2);
        assert_eq!([tags.acquire(), tags.acquire()], [Some(2), None]);
        assert_eq!([0, 1, 3, 4, 1 << 40].map(|tag| tags.validate(tag)), [None, Some(1), Some(3), None, None]);
        let mut all = TagPool { free: Vec::new(), used: i32::MAX, tag_ub: i32::MAX };
        assert_eq!(all.acquire(), None);
    }
}
