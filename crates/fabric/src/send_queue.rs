//! The send queue: records that wait for room in the engine's channels, in order for each destination.

use std::collections::{HashMap, VecDeque};

use treepie_base::BuildNumberHasher;

use crate::engine::RecordHeader;
use crate::slab::OpId;
use crate::wire::Body;

/// An entry of the send queue.
#[derive(Debug)]
pub(crate) enum Item {
    /// A control record.
    Short(RecordHeader, Body),
    /// A control record with a long body.
    Long(RecordHeader, Vec<u8>),
    /// A message; whether it is sent eagerly or as an RTS is decided when it leaves the queue.
    Message(OpId),
    /// The data of a rendezvous message from byte `from` on, for operation `receive` of the receiver.
    Stream { op: OpId, receive: u32, from: usize },
}

/// Queued records by destination, numbered in the order in which they were queued.
#[derive(Default)]
pub(crate) struct SendQueue {
    queues: HashMap<u32, VecDeque<(u64, Item)>, BuildNumberHasher>,
    next: u64,
}

impl SendQueue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether records to a rank are queued, which must not be overtaken.
    #[inline]
    pub(crate) fn has_queued(&self, to: u32) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&to)
    }

    pub(crate) fn push(&mut self, to: u32, item: Item) {
        self.queues.entry(to).or_default().push_back((self.next, item));
        self.next += 1;
    }

    /// The numbers of the first records to each destination, and the destinations.
    pub(crate) fn first_records(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.queues.iter().filter_map(|(to, queue)| Some((queue.front()?.0, *to)))
    }

    /// Takes the first record to a destination. Later ones stay queued behind it until
    /// [`first_or_remove`](Self::first_or_remove).
    pub(crate) fn pop(&mut self, to: u32) -> Option<(u64, Item)> {
        self.queues.get_mut(&to)?.pop_front()
    }

    /// Puts back a record that has no room.
    pub(crate) fn put_back(&mut self, to: u32, (number, item): (u64, Item)) {
        self.queues.entry(to).or_default().push_front((number, item));
    }

    /// The number of the first record to a destination; if there is none, no records are queued.
    pub(crate) fn first_or_remove(&mut self, to: u32) -> Option<u64> {
        let first = self.queues.get(&to)?.front().map(|(number, _)| *number);
        if first.is_none() {
            self.queues.remove(&to);
        }
        first
    }

    /// Drops all records to destinations that are gone.
    pub(crate) fn drop_records_to(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.queues.retain(|to, _| !is_gone(*to));
    }
}
