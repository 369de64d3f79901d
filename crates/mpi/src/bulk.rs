//! Large transfers: MPI moves the bytes from one rank's memory to the other's, with no copy of ours.
//!
//! The receiver posts its receive under a tag that no other transfer towards it has, and invites the sender to send
//! with that tag. Both sides move long memory in pieces, one after the other, because MPI counts with an `int`. MPI
//! keeps the order of messages between two ranks, so pieces can share the tag, and it can serve another transfer as
//! soon as the receiver is done with it.

use std::ptr::NonNull;

use treepie_base::Span;
use treepie_fabric::{Event, Invite, Refused};

use crate::shim::{Request, Shim};

/// The longest piece. Long enough that the start of the next one does not count.
const PIECE: usize = 64 << 20;

pub(crate) struct Bulk {
    /// One request per transfer, and the transfers: two lists in the same order, because MPI wants the first alone.
    requests: Vec<Request>,
    transfers: Vec<Transfer>,
    /// Sends that were done at once and are still to be reported.
    finished: Vec<Transfer>,
    tags: Tags,
}

/// The memory of a transfer belongs to MPI from its start to its end, and this is its only owner.
struct Transfer {
    slot: u32,
    span: Span,
    peer: u32,
    tag: i32,
    sending: bool,
    /// Bytes in the pieces that have been started.
    started: usize,
}

impl Transfer {
    /// Starts the next piece; nothing if it is done at once.
    fn start_piece(&mut self, shim: &Shim) -> Option<Request> {
        let at = self.started;
        let length = PIECE.min(self.span.len() - at);
        self.started += length;
        if self.sending {
            let piece = &self.span.as_slice()[at..at + length];
            // SAFETY: the span stays here, and so stays valid and unwritten, until its transfer is done.
            unsafe { shim.isend(piece.as_ptr(), length, self.peer, self.tag) }
        } else {
            let piece = &mut self.span.as_mut_slice()[at..at + length];
            // SAFETY: as above, and nobody reads or writes the span in between.
            Some(unsafe { shim.irecv(NonNull::from(piece).cast(), length, Some(self.peer), self.tag) })
        }
    }

    fn is_all_started(&self) -> bool {
        self.started == self.span.len()
    }
}

impl Bulk {
    pub(crate) fn new(largest_tag: i32) -> Self {
        let tags = Tags { free: Vec::new(), used: crate::record::TAG, largest: largest_tag };
        Self { requests: Vec::new(), transfers: Vec::new(), finished: Vec::new(), tags }
    }

    /// Begins to receive; the span again if there are more transfers than MPI has tags.
    pub(crate) fn receive(&mut self, shim: &Shim, from: u32, slot: u32, span: Span) -> Result<Invite, Refused> {
        if !span.is_writable() {
            return Err(Refused::because(span, format!("a bulk receive from rank {from} has memory to be read only")));
        }
        let Some(tag) = self.tags.take() else { return Err(Refused::not_here(span)) };
        self.drive(shim, Transfer { slot, span, peer: from, tag, sending: false, started: 0 });
        Ok([tag as u64, 0, 0, 0])
    }

    /// Begins to send what the peer has begun to receive.
    pub(crate) fn send(&mut self, shim: &Shim, to: u32, slot: u32, invite: Invite, span: Span) -> Result<(), Refused> {
        let Some(tag) = self.tags.of_transfer(invite[0]) else {
            let why = format!("rank {to} cannot have asked for a bulk transfer with tag {}", invite[0]);
            return Err(Refused::because(span, why));
        };
        self.drive(shim, Transfer { slot, span, peer: to, tag, sending: true, started: 0 });
        Ok(())
    }

    /// Starts pieces until one takes time.
    fn drive(&mut self, shim: &Shim, mut transfer: Transfer) {
        loop {
            if let Some(request) = transfer.start_piece(shim) {
                self.requests.push(request);
                self.transfers.push(transfer);
                return;
            }
            if transfer.is_all_started() {
                self.finished.push(transfer);
                return;
            }
        }
    }

    /// Goes on with all transfers and reports one that is done.
    pub(crate) fn poll(&mut self, shim: &Shim) -> Option<Event<'static>> {
        while let Some(index) = shim.test_any(&self.requests) {
            self.requests.swap_remove(index);
            let transfer = self.transfers.swap_remove(index);
            if transfer.is_all_started() {
                self.finished.push(transfer);
                break;
            }
            self.drive(shim, transfer);
        }
        let Transfer { slot, span, tag, sending, .. } = self.finished.pop()?;
        if sending {
            return Some(Event::BulkSent { slot, span });
        }
        self.tags.give_back(tag);
        Some(Event::BulkReceived { slot, span, tell_sender: false })
    }

    /// Whether nothing is in flight or to be reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.finished.is_empty()
    }
}

/// The tags of this rank's receives.
struct Tags {
    free: Vec<i32>,
    used: i32,
    largest: i32,
}

impl Tags {
    fn take(&mut self) -> Option<i32> {
        self.free.pop().or_else(|| {
            let next = self.used.checked_add(1).filter(|&tag| tag <= self.largest)?;
            self.used = next;
            Some(next)
        })
    }

    fn give_back(&mut self, tag: i32) {
        self.free.push(tag);
    }

    /// A tag that a peer has named, if transfers can have it. All ranks have the same ones.
    fn of_transfer(&self, named: u64) -> Option<i32> {
        i32::try_from(named).ok().filter(|tag| (crate::record::TAG + 1..=self.largest).contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_in_use_are_unique_and_bounded() {
        let mut tags = Tags { free: Vec::new(), used: 0, largest: 3 };
        assert_eq!([tags.take(), tags.take(), tags.take(), tags.take()], [Some(1), Some(2), Some(3), None]);
        tags.give_back(2);
        assert_eq!([tags.take(), tags.take()], [Some(2), None]);
        assert_eq!([0, 1, 3, 4, 1 << 40].map(|named| tags.of_transfer(named)), [None, Some(1), Some(3), None, None]);
        let mut all = Tags { free: Vec::new(), used: i32::MAX, largest: i32::MAX };
        assert_eq!(all.take(), None);
    }
}
