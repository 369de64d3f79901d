//! Bulk transfers: the data of rendezvous messages, one transfer each, from the sender's memory into the receiver's.
//!
//! Data is copied when the sender starts, and either side gets its memory back when its part completes in virtual time.
//! Both buffers are held here as spans meanwhile, so neither owner can free or change them.

use std::collections::{BTreeSet, HashMap};

use treepie_base::Span;

struct BulkTransfer {
    from: u32,
    to: u32,
    /// The receiver's slot and memory.
    receiver: (u32, Option<Span>),
    /// The sender's, once it has started.
    sender: Option<(u32, Option<Span>)>,
}

/// Posted transfers that have not completed.
#[derive(Default)]
pub(super) struct BulkTransfers {
    transfers: HashMap<u64, BulkTransfer>,
    /// Transfers of each rank; only of ranks with any.
    by_rank: HashMap<u32, BTreeSet<u64>>,
    last_id: u64,
}

impl BulkTransfers {
    /// Posts a receive. Returns the id of the transfer.
    pub(super) fn post_recv(&mut self, from: u32, to: u32, slot: u32, span: Span) -> u64 {
        self.last_id += 1;
        self.transfers.insert(self.last_id, BulkTransfer { from, to, receiver: (slot, Some(span)), sender: None });
        for rank in [from, to] {
            self.by_rank.entry(rank).or_default().insert(self.last_id);
        }
        self.last_id
    }

    /// Whether a transfer of this id from one rank to the other was posted, or may have been: of a completed one only
    /// the id is known.
    pub(super) fn is_plausible(&self, id: u64, from: u32, to: u32) -> bool {
        let matches = |transfer: &BulkTransfer| (transfer.from, transfer.to) == (from, to);
        (1..=self.last_id).contains(&id) && self.transfers.get(&id).is_none_or(matches)
    }

    /// Starts the send. Returns the sender's memory if the receive was cancelled.
    pub(super) fn start_send(&mut self, id: u64, slot: u32, span: Span) -> Result<(), Span> {
        let Some(BulkTransfer { receiver: (_, Some(into)), sender: sender @ None, .. }) = self.transfers.get_mut(&id)
        else {
            return Err(span);
        };
        let len = into.len().min(span.len());
        into.as_mut_slice()[..len].copy_from_slice(&span.as_slice()[..len]);
        *sender = Some((slot, Some(span)));
        Ok(())
    }

    /// Completes the send: the last byte has left the sender.
    pub(super) fn complete_send(&mut self, id: u64) -> Option<(u32, Span)> {
        let (slot, span) = self.transfers.get_mut(&id)?.sender.as_mut()?;
        let sent = (*slot, span.take()?);
        self.remove_if_complete(id);
        Some(sent)
    }

    /// Completes the receive: all data has arrived.
    pub(super) fn complete_recv(&mut self, id: u64) -> Option<(u32, Span)> {
        let (slot, span) = &mut self.transfers.get_mut(&id)?.receiver;
        let received = (*slot, span.take()?);
        self.remove_if_complete(id);
        Some(received)
    }

    fn remove_if_complete(&mut self, id: u64) {
        let is_complete = |transfer: &BulkTransfer| {
            transfer.receiver.1.is_none() && transfer.sender.as_ref().is_none_or(|(_, span)| span.is_none())
        };
        if self.transfers.get(&id).is_some_and(is_complete) {
            let Some(BulkTransfer { from, to, .. }) = self.transfers.remove(&id) else { return };
            for rank in [from, to] {
                let Some(ids) = self.by_rank.get_mut(&rank) else { continue };
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_rank.remove(&rank);
                }
            }
        }
    }

    /// Fails a transfer that will not arrive. Returns the receiver, its slot and its memory.
    pub(super) fn fail(&mut self, id: u64) -> Option<(u32, u32, Span)> {
        let to = self.transfers.get(&id)?.to;
        self.complete_recv(id).map(|(slot, span)| (to, slot, span))
    }

    /// Cancels the transfers of a rank. Returns its memory, and that of receivers whose data it will not send, as
    /// (rank, slot, memory, whether it is a sender's). Data in flight still arrives.
    pub(super) fn cancel_rank(&mut self, rank: u32) -> Vec<(u32, u32, Span, bool)> {
        let mut returned = Vec::new();
        let ids = self.by_rank.get(&rank).cloned().unwrap_or_default();
        for id in ids {
            let Some(transfer) = self.transfers.get_mut(&id) else { continue };
            if transfer.to == rank || transfer.from == rank && transfer.sender.is_none() {
                let (slot, span) = &mut transfer.receiver;
                returned.extend(span.take().map(|span| (transfer.to, *slot, span, false)));
            }
            if transfer.from == rank
                && let Some((slot, span)) = &mut transfer.sender
            {
                returned.extend(span.take().map(|span| (rank, *slot, span, true)));
            }
            self.remove_if_complete(id);
        }
        returned
    }
}

#[cfg(test)]
mod tests {
    use treepie_base::Bytes;

    use super::*;

    fn span(bytes: &[u8]) -> Span {
        Span::from(Bytes::from(bytes.to_vec()))
    }

    fn is_empty(transfers: &BulkTransfers) -> bool {
        transfers.transfers.is_empty() && transfers.by_rank.is_empty()
    }

    #[test]
    fn both_sides_get_their_memory_back() {
        let mut transfers = BulkTransfers::default();
        let id = transfers.post_recv(0, 1, 7, span(&[0; 3]));
        assert!(transfers.start_send(id, 8, span(&[1, 2, 3])).is_ok());
        assert_eq!(transfers.complete_send(id).map(|(slot, span)| (slot, span.len())), Some((8, 3)));
        assert!(transfers.complete_send(id).is_none());
        let (slot, got) = transfers.complete_recv(id).expect("it is there");
        assert_eq!((slot, got.as_slice()), (7, &[1, 2, 3][..]));
        assert!(is_empty(&transfers));
    }

    #[test]
    fn only_the_matching_sender_may_send() {
        let mut transfers = BulkTransfers::default();
        let id = transfers.post_recv(0, 1, 7, span(&[0; 3]));
        assert!(transfers.is_plausible(id, 0, 1));
        assert!(
            !transfers.is_plausible(id, 1, 0) && !transfers.is_plausible(id, 0, 2) && !transfers.is_plausible(id, 2, 1)
        );
        assert!(!transfers.is_plausible(0, 0, 1) && !transfers.is_plausible(id + 1, 0, 1));
        assert_eq!(transfers.cancel_rank(1).len(), 1);
        assert!(transfers.is_plausible(id, 0, 1));
    }

    #[test]
    fn cancelling_a_rank_returns_its_memory() {
        let mut transfers = BulkTransfers::default();
        let asked = transfers.post_recv(0, 1, 7, span(&[0]));
        let sending = transfers.post_recv(0, 1, 8, span(&[0]));
        assert!(transfers.start_send(sending, 9, span(&[1])).is_ok());
        let back = |given: Vec<(u32, u32, Span, bool)>| -> Vec<(u32, u32, bool)> {
            given.iter().map(|(rank, slot, _, sending)| (*rank, *slot, *sending)).collect()
        };
        // What the failed sender never started fails at the receiver; what is in flight arrives.
        assert_eq!(back(transfers.cancel_rank(0)), [(1, 7, false), (0, 9, true)]);
        assert!(transfers.start_send(asked, 1, span(&[1])).is_err());
        assert!(transfers.complete_recv(sending).is_some() && is_empty(&transfers));
        // A cancelled receiver leaves its sender sending.
        let id = transfers.post_recv(0, 1, 7, span(&[0]));
        assert!(transfers.start_send(id, 9, span(&[1])).is_ok());
        assert_eq!(back(transfers.cancel_rank(1)), [(1, 7, false)]);
        assert!(transfers.complete_recv(id).is_none() && transfers.complete_send(id).is_some() && is_empty(&transfers));
    }
}
