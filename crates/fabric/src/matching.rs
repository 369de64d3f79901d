//! Message matching: the posted receive queue and the unexpected message queue.
//!
//! A message matches the oldest posted receive whose key it fits; a receive matches the oldest such unexpected message.
//! Each posted receive is in one queue, that of its key. A message checks at most four queues (with and without
//! wildcard for source and tag) and takes the oldest of their first entries. An unexpected message is in the queue of
//! its exact key. It is in the queues of a wildcard class only after a receive of that class was posted, as most
//! programs never use any.

use crate::bins::{Bins, MatchKey, WILDCARD_CLASSES};
use crate::call_signature::CallSignature;
use crate::slab::{OpId, Slab};

/// The posted receive queue: indices of operations.
pub(crate) struct PostedQueue {
    bins: Bins,
    /// Number of receives of each wildcard class.
    class_counts: [usize; WILDCARD_CLASSES],
    count: usize,
    next: u64,
}

impl PostedQueue {
    pub(crate) fn new() -> Self {
        Self { bins: Bins::new(), class_counts: [0; WILDCARD_CLASSES], count: 0, next: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Posts a receive and returns its position in posting order.
    #[inline]
    pub(crate) fn post(&mut self, key: MatchKey, op: u32) -> u64 {
        self.bins.push(key, op);
        self.class_counts[key.wildcard_class()] += 1;
        self.count += 1;
        self.next += 1;
        self.next
    }

    /// Removes the oldest matching receive; `order` returns the key and position of a receive.
    #[inline]
    pub(crate) fn take(&mut self, message: MatchKey, order: impl Fn(u32) -> (MatchKey, u64)) -> Option<u32> {
        // Nearly always no receive has wildcards, and the first entry of the queue is the oldest.
        if self.class_counts[0] == self.count {
            let op = self.bins.pop(message)?;
            self.class_counts[0] -= 1;
            self.count -= 1;
            return Some(op);
        }
        let op = self.oldest(message, |op| order(op).1)?;
        self.remove(order(op).0, op);
        Some(op)
    }

    /// The oldest receive that matches a message.
    pub(crate) fn oldest(&self, message: MatchKey, order: impl Fn(u32) -> u64) -> Option<u32> {
        let first_entries = (0..WILDCARD_CLASSES)
            .filter(|class| self.class_counts[*class] != 0)
            .filter_map(|class| self.bins.front(message.with_wildcard_class(class)));
        first_entries.min_by_key(|op| order(*op))
    }

    /// Removes a receive.
    #[inline]
    pub(crate) fn remove(&mut self, key: MatchKey, op: u32) {
        self.bins.remove(key, op);
        self.class_counts[key.wildcard_class()] -= 1;
        self.count -= 1;
    }
}

/// An unexpected message: it arrived before its receive was posted.
#[derive(Debug)]
pub(crate) struct UnexpectedMessage {
    pub(crate) key: MatchKey,
    /// The call that it belongs to.
    pub(crate) call: CallSignature,
    /// Its position in arrival order.
    pub(crate) order: u64,
    pub(crate) arrival: Arrival,
}

/// The part of a message that has arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// An eager message: all of it.
    Eager {
        data: Vec<u8>,
        /// Whom to acknowledge its receipt.
        ack_to: AckTo,
    },
    /// A request to send.
    Rts(Rts),
}

/// Who waits for the acknowledgement of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckTo {
    Nobody,
    /// The sender, in this slot.
    Peer(u32),
    /// A send of this rank to itself.
    SelfSend(OpId),
}

/// A request to send (RTS): the data is still at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rts {
    pub(crate) bytes: u64,
    /// The engine's key of the send buffer.
    pub(crate) rkey: u64,
    /// The sender's slot.
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// The size in the signature of its call.
    pub(crate) call_size: u32,
}

impl UnexpectedMessage {
    pub(crate) fn bytes(&self) -> u64 {
        self.arrival.bytes()
    }
}

impl Arrival {
    /// The number of bytes buffered here.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        match self {
            Arrival::Eager { data, .. } => data.len() as u64,
            Arrival::Rts(_) => 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Arrival::Eager { data, .. } => data.len() as u64,
            Arrival::Rts(rts) => rts.bytes,
        }
    }
}

/// The unexpected message queue.
pub(crate) struct UnexpectedQueue {
    entries: Slab<UnexpectedMessage>,
    bins: [Option<Bins>; WILDCARD_CLASSES],
    next: u64,
    /// Bytes of eager messages.
    buffered_bytes: u64,
    /// Number of messages of collective operations.
    collective_count: usize,
}

impl UnexpectedQueue {
    pub(crate) fn new() -> Self {
        Self {
            entries: Slab::new(),
            bins: [Some(Bins::new()), None, None, None],
            next: 0,
            buffered_bytes: 0,
            collective_count: 0,
        }
    }

    /// Whether there are messages of collective operations.
    pub(crate) fn has_collective(&self) -> bool {
        self.collective_count > 0
    }

    /// The number of steps of [`iter`](Self::iter).
    pub(crate) fn scan_cost(&self) -> usize {
        self.entries.scan_cost()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &UnexpectedMessage> {
        self.entries.iter().map(|(_, message)| message)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of eager messages.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }

    /// The next position in arrival order.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Inserts a message at its position in arrival order.
    pub(crate) fn insert(&mut self, message: UnexpectedMessage) {
        let (key, order) = (message.key, message.order);
        self.buffered_bytes += message.arrival.buffered_bytes();
        self.collective_count += usize::from(message.call.is_collective());
        let index = self.entries.insert(message).index;
        let Self { entries, bins, .. } = self;
        for (class, bins) in bins.iter_mut().enumerate() {
            if let Some(bins) = bins {
                bins.push_before(key.with_wildcard_class(class), index, |other| {
                    entries.at(other).expect("queued").order > order
                });
            }
        }
    }

    /// The oldest message that matches a receive.
    #[inline]
    pub(crate) fn find(&mut self, receive: MatchKey) -> Option<OpId> {
        if self.entries.is_empty() {
            return None;
        }
        let class = receive.wildcard_class();
        if self.bins[class].is_none() {
            self.build_class_bins(class);
        }
        let index = self.bins[class].as_ref().expect("made above").front(receive)?;
        self.entries.id_at(index)
    }

    #[cold]
    fn build_class_bins(&mut self, class: usize) {
        let mut all: Vec<(u64, MatchKey, u32)> =
            self.entries.iter().map(|(id, message)| (message.order, message.key, id.index)).collect();
        all.sort_unstable_by_key(|&(order, ..)| order);
        let mut bins = Bins::new();
        all.iter().for_each(|&(_, key, index)| bins.push(key.with_wildcard_class(class), index));
        self.bins[class] = Some(bins);
    }

    pub(crate) fn get(&self, id: OpId) -> &UnexpectedMessage {
        self.entries.get(id).expect("found before")
    }

    /// Removes a message.
    pub(crate) fn take(&mut self, id: OpId) -> UnexpectedMessage {
        let message = self.entries.take(id).expect("found before");
        self.buffered_bytes -= message.arrival.buffered_bytes();
        self.collective_count -= usize::from(message.call.is_collective());
        for (class, bins) in self.bins.iter_mut().enumerate() {
            if let Some(bins) = bins {
                bins.remove(message.key.with_wildcard_class(class), id.index);
            }
        }
        message
    }

    /// The messages that satisfy `which`.
    pub(crate) fn select(&self, which: impl Fn(&UnexpectedMessage) -> bool) -> Vec<OpId> {
        self.entries.iter().filter(|(_, message)| which(message)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::{ANY_SOURCE, ANY_TAG};

    fn key(source: u32, tag: u64) -> MatchKey {
        MatchKey { context: 0, source, tag }
    }

    #[test]
    fn the_oldest_receive_matches_in_any_class() {
        let mut posted = PostedQueue::new();
        let keys = [key(ANY_SOURCE, 5), key(1, 5), key(ANY_SOURCE, ANY_TAG), key(1, ANY_TAG), key(1, 5)];
        let orders: Vec<u64> = keys.iter().enumerate().map(|(op, key)| posted.post(*key, op as u32)).collect();
        let mut take = |message| posted.take(message, |op| (keys[op as usize], orders[op as usize]));
        assert_eq!(take(key(2, 6)), Some(2));
        let order: Vec<_> = std::iter::from_fn(|| take(key(1, 5))).collect();
        assert_eq!(order, [0, 1, 3, 4]);
        assert!(posted.is_empty());
    }

    fn eager(source: u32, tag: u64, order: u64) -> UnexpectedMessage {
        UnexpectedMessage {
            key: key(source, tag),
            call: CallSignature::NONE,
            order,
            arrival: Arrival::Eager { data: vec![], ack_to: AckTo::Nobody },
        }
    }

    #[test]
    fn the_oldest_message_matches_in_every_class() {
        let mut unexpected = UnexpectedQueue::new();
        for (source, tag) in [(1, 1), (2, 1), (1, 2), (2, 2), (1, 1)] {
            let order = unexpected.next_order();
            unexpected.insert(eager(source, tag, order));
        }
        let mut take = |receive| {
            let id = unexpected.find(receive)?;
            Some(unexpected.take(id).order)
        };
        assert_eq!(take(key(ANY_SOURCE, 2)), Some(3));
        assert_eq!(take(key(2, ANY_TAG)), Some(2));
        assert_eq!(take(key(1, 1)), Some(1));
        assert_eq!(take(key(ANY_SOURCE, ANY_TAG)), Some(4));
        assert_eq!(take(key(2, ANY_TAG)), None);
        assert_eq!(take(key(ANY_SOURCE, ANY_TAG)), Some(5));
        assert_eq!(take(key(ANY_SOURCE, ANY_TAG)), None);
    }

    #[test]
    fn a_requeued_message_keeps_its_position() {
        let mut unexpected = UnexpectedQueue::new();
        for _ in 0..3 {
            let order = unexpected.next_order();
            unexpected.insert(eager(1, 1, order));
        }
        let first = unexpected.find(key(1, 1)).unwrap();
        let message = unexpected.take(first);
        unexpected.insert(message);
        let first = unexpected.find(key(ANY_SOURCE, 1)).unwrap();
        assert_eq!(unexpected.get(first).order, 1);
    }
}
