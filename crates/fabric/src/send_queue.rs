//! The send queue: records that wait for room in the engine's channels, in order for each destination.

use std::collections::{HashMap, VecDeque};

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

/// Queued records by destination.
#[derive(Default)]
pub(crate) struct SendQueue {
    queues: HashMap<u32, VecDeque<Item>>,
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
        self.queues.entry(to).or_default().push_back(item);
    }

    pub(crate) fn destinations(&self) -> Vec<u32> {
        self.queues.keys().copied().collect()
    }

    /// Takes the queue of a destination, to be processed and put back.
    pub(crate) fn take(&mut self, to: u32) -> VecDeque<Item> {
        self.queues.remove(&to).unwrap_or_default()
    }

    /// Puts back the rest of a queue, before entries queued meanwhile.
    pub(crate) fn put_back(&mut self, to: u32, mut rest: VecDeque<Item>) {
        if let Some(newer) = self.queues.remove(&to) {
            rest.extend(newer);
        }
        if !rest.is_empty() {
            self.queues.insert(to, rest);
        }
    }
}
