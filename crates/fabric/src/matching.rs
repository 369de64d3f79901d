//! Which message meets which receive.
//!
//! A message goes to the oldest receive that takes it; a receive gets the oldest message that it takes. Posted receives
//! lie each in one queue, the one of their own key; a message looks into at most four queues (with and without wildcard
//! for source and tag) and takes the oldest of their fronts. Unexpected messages lie in the queue of their exact key,
//! and in those of a wildcard class only after a receive of that class has been seen, as most programs never use any.

use crate::bins::{Bins, CLASSES, Key};
use crate::call::Call;
use crate::slab::{Id, Slab};

/// Receives that wait for their message, by the numbers of their operations.
pub(crate) struct Posted {
    bins: Bins,
    /// How many there are of each class.
    of_class: [usize; CLASSES],
    count: usize,
    next: u64,
}

impl Posted {
    pub(crate) fn new() -> Self {
        Self { bins: Bins::new(), of_class: [0; CLASSES], count: 0, next: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Queues a receive and returns its place in the order of receives.
    #[inline]
    pub(crate) fn post(&mut self, key: Key, op: u32) -> u64 {
        self.bins.push(key, op);
        self.of_class[key.class()] += 1;
        self.count += 1;
        self.next += 1;
        self.next
    }

    /// Takes the oldest receive for a message; `order` tells the place of a receive.
    #[inline]
    pub(crate) fn take(&mut self, message: Key, order: impl Fn(u32) -> (Key, u64)) -> Option<u32> {
        // Nearly always all are of the most specific class, and then the front of that queue is the oldest.
        if self.of_class[0] == self.count {
            let op = self.bins.pop(message)?;
            self.of_class[0] -= 1;
            self.count -= 1;
            return Some(op);
        }
        let op = self.oldest(message, |op| order(op).1)?;
        self.remove(order(op).0, op);
        Some(op)
    }

    /// The oldest receive for a message.
    pub(crate) fn oldest(&self, message: Key, order: impl Fn(u32) -> u64) -> Option<u32> {
        let fronts = (0..CLASSES)
            .filter(|class| self.of_class[*class] != 0)
            .filter_map(|class| self.bins.front(message.as_class(class)));
        fronts.min_by_key(|op| order(*op))
    }

    /// Takes a receive out.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key, op: u32) {
        self.bins.remove(key, op);
        self.of_class[key.class()] -= 1;
        self.count -= 1;
    }
}

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) key: Key,
    /// What it belongs to.
    pub(crate) call: Call,
    /// Its place in the order of arrival.
    pub(crate) order: u64,
    pub(crate) what: Arrived,
}

/// What there is of it.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// All of it.
    Eager {
        data: Vec<u8>,
        /// Whom to tell that it was received.
        answer: Answer,
    },
    /// Its announcement.
    Offered(Offer),
}

/// Who waits for a message to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nobody,
    /// The sender, on this slot of its.
    Peer(u32),
    /// A send of this rank to itself.
    Own(Id),
}

/// A message whose data waits at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) bytes: u64,
    /// What the engine said of the memory.
    pub(crate) place: u64,
    /// The sender's name for it.
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// How much the operation is about that it belongs to.
    pub(crate) size: u32,
}

impl Unexpected {
    pub(crate) fn bytes(&self) -> u64 {
        self.what.bytes()
    }
}

impl Arrived {
    /// Bytes of it that are here.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Arrived::Eager { data, .. } => data.len() as u64,
            Arrived::Offered(_) => 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Arrived::Eager { data, .. } => data.len() as u64,
            Arrived::Offered(offer) => offer.bytes,
        }
    }
}

/// Messages that wait for their receive.
pub(crate) struct Waiting {
    entries: Slab<Unexpected>,
    bins: [Option<Bins>; CLASSES],
    next: u64,
    /// Bytes of those that are there whole.
    held: u64,
    /// How many belong to operations of all ranks.
    of_calls: usize,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { entries: Slab::new(), bins: [Some(Bins::new()), None, None, None], next: 0, held: 0, of_calls: 0 }
    }

    /// Whether some belong to operations of all ranks.
    pub(crate) fn has_calls(&self) -> bool {
        self.of_calls > 0
    }

    /// How much [`iter`](Self::iter) looks at.
    pub(crate) fn looks(&self) -> usize {
        self.entries.looks()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Unexpected> {
        self.entries.iter().map(|(_, message)| message)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of messages that are there whole.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// A place in the order of arrival, for a message that has just come.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Queues a message at its place in the order of arrival.
    pub(crate) fn put(&mut self, message: Unexpected) {
        let (key, order) = (message.key, message.order);
        self.held += message.what.held();
        self.of_calls += usize::from(message.call.is_some());
        let index = self.entries.insert(message).index;
        let Self { entries, bins, .. } = self;
        for (class, bins) in bins.iter_mut().enumerate() {
            if let Some(bins) = bins {
                bins.push_before(key.as_class(class), index, |other| entries.at(other).expect("queued").order > order);
            }
        }
    }

    /// The oldest message for a receive.
    #[inline]
    pub(crate) fn find(&mut self, receive: Key) -> Option<Id> {
        if self.entries.is_empty() {
            return None;
        }
        let class = receive.class();
        if self.bins[class].is_none() {
            self.begin_class(class);
        }
        let index = self.bins[class].as_ref().expect("made above").front(receive)?;
        self.entries.id_at(index)
    }

    #[cold]
    fn begin_class(&mut self, class: usize) {
        let mut all: Vec<(u64, Key, u32)> =
            self.entries.iter().map(|(id, message)| (message.order, message.key, id.index)).collect();
        all.sort_unstable_by_key(|&(order, ..)| order);
        let mut bins = Bins::new();
        all.iter().for_each(|&(_, key, index)| bins.push(key.as_class(class), index));
        self.bins[class] = Some(bins);
    }

    pub(crate) fn get(&self, id: Id) -> &Unexpected {
        self.entries.get(id).expect("found before")
    }

    /// Takes a message out.
    pub(crate) fn take(&mut self, id: Id) -> Unexpected {
        let message = self.entries.take(id).expect("found before");
        self.held -= message.what.held();
        self.of_calls -= usize::from(message.call.is_some());
        for (class, bins) in self.bins.iter_mut().enumerate() {
            if let Some(bins) = bins {
                bins.remove(message.key.as_class(class), id.index);
            }
        }
        message
    }

    /// All that `which` picks.
    pub(crate) fn select(&self, which: impl Fn(&Unexpected) -> bool) -> Vec<Id> {
        self.entries.iter().filter(|(_, message)| which(message)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::{ANY, ANY_TAG};

    fn key(source: u32, tag: u64) -> Key {
        Key { context: 0, source, tag }
    }

    #[test]
    fn the_oldest_receive_wins_whatever_its_class() {
        let mut posted = Posted::new();
        let keys = [key(ANY, 5), key(1, 5), key(ANY, ANY_TAG), key(1, ANY_TAG), key(1, 5)];
        let orders: Vec<u64> = keys.iter().enumerate().map(|(op, key)| posted.post(*key, op as u32)).collect();
        let mut take = |message| posted.take(message, |op| (keys[op as usize], orders[op as usize]));
        assert_eq!(take(key(2, 6)), Some(2));
        let order: Vec<_> = std::iter::from_fn(|| take(key(1, 5))).collect();
        assert_eq!(order, [0, 1, 3, 4]);
        assert!(posted.is_empty());
    }

    fn eager(source: u32, tag: u64, order: u64) -> Unexpected {
        Unexpected {
            key: key(source, tag),
            call: Call::NONE,
            order,
            what: Arrived::Eager { data: vec![], answer: Answer::Nobody },
        }
    }

    #[test]
    fn the_oldest_message_wins_for_every_class() {
        let mut waiting = Waiting::new();
        for (source, tag) in [(1, 1), (2, 1), (1, 2), (2, 2), (1, 1)] {
            let order = waiting.next_order();
            waiting.put(eager(source, tag, order));
        }
        let mut take = |receive| {
            let id = waiting.find(receive)?;
            Some(waiting.take(id).order)
        };
        assert_eq!(take(key(ANY, 2)), Some(3));
        assert_eq!(take(key(2, ANY_TAG)), Some(2));
        assert_eq!(take(key(1, 1)), Some(1));
        assert_eq!(take(key(ANY, ANY_TAG)), Some(4));
        assert_eq!(take(key(2, ANY_TAG)), None);
        assert_eq!(take(key(ANY, ANY_TAG)), Some(5));
        assert_eq!(take(key(ANY, ANY_TAG)), None);
    }

    #[test]
    fn a_message_put_back_keeps_its_place() {
        let mut waiting = Waiting::new();
        for _ in 0..3 {
            let order = waiting.next_order();
            waiting.put(eager(1, 1, order));
        }
        let first = waiting.find(key(1, 1)).unwrap();
        let message = waiting.take(first);
        waiting.put(message);
        let first = waiting.find(key(ANY, 1)).unwrap();
        assert_eq!(waiting.get(first).order, 1);
    }
}
