//! Data of announced messages: one transfer each, from the sender's memory into the receiver's.
//!
//! It is copied when the sender begins to send it, and either side gets its memory back when its part is over in simulated
//! time. Both memories are here as spans meanwhile, so neither can be freed or changed by its owner.

use std::collections::{BTreeSet, HashMap};

use treepie_base::Span;

struct Bulk {
    from: u32,
    to: u32,
    /// The receiver's name for it, and its memory.
    receiver: (u32, Option<Span>),
    /// The sender's, once it sends.
    sender: Option<(u32, Option<Span>)>,
}

/// Transfers that have been asked for and are not over.
#[derive(Default)]
pub(super) struct Bulks {
    all: HashMap<u64, Bulk>,
    /// Those that each rank takes part in; only of ranks that do.
    of: HashMap<u32, BTreeSet<u64>>,
    next: u64,
}

impl Bulks {
    /// A receiver waits for data of a sender. The number of the transfer.
    pub(super) fn expect(&mut self, from: u32, to: u32, slot: u32, span: Span) -> u64 {
        self.next += 1;
        self.all.insert(self.next, Bulk { from, to, receiver: (slot, Some(span)), sender: None });
        for rank in [from, to] {
            self.of.entry(rank).or_default().insert(self.next);
        }
        self.next
    }

    /// Whether a transfer of this number from one rank to the other was asked for, or may have been: of one that is over
    /// only the number is known.
    pub(super) fn may_be(&self, number: u64, from: u32, to: u32) -> bool {
        let known = |bulk: &Bulk| (bulk.from, bulk.to) == (from, to);
        (1..=self.next).contains(&number) && self.all.get(&number).is_none_or(known)
    }

    /// The sender begins. Gives its memory back if nobody waits for it any more.
    pub(super) fn begin(&mut self, number: u64, slot: u32, span: Span) -> Result<(), Span> {
        let Some(Bulk { receiver: (_, Some(into)), sender: sender @ None, .. }) = self.all.get_mut(&number) else {
            return Err(span);
        };
        let len = into.len().min(span.len());
        into.as_mut_slice()[..len].copy_from_slice(&span.as_slice()[..len]);
        *sender = Some((slot, Some(span)));
        Ok(())
    }

    /// The last byte has left the sender.
    pub(super) fn sent(&mut self, number: u64) -> Option<(u32, Span)> {
        let (slot, span) = self.all.get_mut(&number)?.sender.as_mut()?;
        let sent = (*slot, span.take()?);
        self.forget_if_over(number);
        Some(sent)
    }

    /// All has arrived.
    pub(super) fn received(&mut self, number: u64) -> Option<(u32, Span)> {
        let (slot, span) = &mut self.all.get_mut(&number)?.receiver;
        let received = (*slot, span.take()?);
        self.forget_if_over(number);
        Some(received)
    }

    fn forget_if_over(&mut self, number: u64) {
        let is_over =
            |bulk: &Bulk| bulk.receiver.1.is_none() && bulk.sender.as_ref().is_none_or(|(_, span)| span.is_none());
        if self.all.get(&number).is_some_and(is_over) {
            let Some(Bulk { from, to, .. }) = self.all.remove(&number) else { return };
            for rank in [from, to] {
                let Some(numbers) = self.of.get_mut(&rank) else { continue };
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.of.remove(&rank);
                }
            }
        }
    }

    /// What was sent will not arrive: the receiver, its name for it, and its memory.
    pub(super) fn lost(&mut self, number: u64) -> Option<(u32, u32, Span)> {
        let to = self.all.get(&number)?.to;
        self.received(number).map(|(slot, span)| (to, slot, span))
    }

    /// A rank takes no part any more: the memory of its own, and of those who wait for data that it will not send, as
    /// (rank, slot, memory, whether it is a sender's). Data that is on the way goes on.
    pub(super) fn withdraw(&mut self, rank: u32) -> Vec<(u32, u32, Span, bool)> {
        let mut given_back = Vec::new();
        let numbers = self.of.get(&rank).cloned().unwrap_or_default();
        for number in numbers {
            let Some(bulk) = self.all.get_mut(&number) else { continue };
            if bulk.to == rank || bulk.from == rank && bulk.sender.is_none() {
                let (slot, span) = &mut bulk.receiver;
                given_back.extend(span.take().map(|span| (bulk.to, *slot, span, false)));
            }
            if bulk.from == rank
                && let Some((slot, span)) = &mut bulk.sender
            {
                given_back.extend(span.take().map(|span| (rank, *slot, span, true)));
            }
            self.forget_if_over(number);
        }
        given_back
    }
}

#[cfg(test)]
mod tests {
    use treepie_base::Bytes;

    use super::*;

    fn span(bytes: &[u8]) -> Span {
        Span::from(Bytes::from(bytes.to_vec()))
    }

    fn is_empty(bulks: &Bulks) -> bool {
        bulks.all.is_empty() && bulks.of.is_empty()
    }

    #[test]
    fn both_sides_get_their_memory_back() {
        let mut bulks = Bulks::default();
        let number = bulks.expect(0, 1, 7, span(&[0; 3]));
        assert!(bulks.begin(number, 8, span(&[1, 2, 3])).is_ok());
        assert_eq!(bulks.sent(number).map(|(slot, span)| (slot, span.len())), Some((8, 3)));
        assert!(bulks.sent(number).is_none());
        let (slot, got) = bulks.received(number).expect("it is there");
        assert_eq!((slot, got.as_slice()), (7, &[1, 2, 3][..]));
        assert!(is_empty(&bulks));
    }

    #[test]
    fn only_the_sender_that_was_asked_may_send() {
        let mut bulks = Bulks::default();
        let number = bulks.expect(0, 1, 7, span(&[0; 3]));
        assert!(bulks.may_be(number, 0, 1));
        assert!(!bulks.may_be(number, 1, 0) && !bulks.may_be(number, 0, 2) && !bulks.may_be(number, 2, 1));
        assert!(!bulks.may_be(0, 0, 1) && !bulks.may_be(number + 1, 0, 1));
        assert_eq!(bulks.withdraw(1).len(), 1);
        assert!(bulks.may_be(number, 0, 1));
    }

    #[test]
    fn who_ends_takes_its_memory_along() {
        let mut bulks = Bulks::default();
        let asked = bulks.expect(0, 1, 7, span(&[0]));
        let sending = bulks.expect(0, 1, 8, span(&[0]));
        assert!(bulks.begin(sending, 9, span(&[1])).is_ok());
        let back = |given: Vec<(u32, u32, Span, bool)>| -> Vec<(u32, u32, bool)> {
            given.iter().map(|(rank, slot, _, sending)| (*rank, *slot, *sending)).collect()
        };
        // What the dead sender never began fails at the receiver; what is on the way arrives.
        assert_eq!(back(bulks.withdraw(0)), [(1, 7, false), (0, 9, true)]);
        assert!(bulks.begin(asked, 1, span(&[1])).is_err());
        assert!(bulks.received(sending).is_some() && is_empty(&bulks));
        // A receiver that ends leaves its sender sending.
        let number = bulks.expect(0, 1, 7, span(&[0]));
        assert!(bulks.begin(number, 9, span(&[1])).is_ok());
        assert_eq!(back(bulks.withdraw(1)), [(1, 7, false)]);
        assert!(bulks.received(number).is_none() && bulks.sent(number).is_some() && is_empty(&bulks));
    }
}
