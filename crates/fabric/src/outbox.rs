//! What could not be sent yet, for want of room. Everything to one rank leaves in the order it came.

use std::collections::{HashMap, VecDeque};

use crate::engine::Head;
use crate::kind::Body;
use crate::slab::Id;

/// Something that waits for room.
#[derive(Debug)]
pub(crate) enum Item {
    /// A short record.
    Short(Head, Body),
    /// A record.
    Long(Head, Vec<u8>),
    /// A message: itself or its announcement, as is decided when it leaves.
    Message(Id),
    /// The data of an accepted message, from a byte on, for the receive of that number.
    Stream { op: Id, receive: u32, from: usize },
}

/// Queues by destination.
#[derive(Default)]
pub(crate) struct Outbox {
    queues: HashMap<u32, VecDeque<Item>>,
}

impl Outbox {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether something waits that must not be overtaken.
    #[inline]
    pub(crate) fn holds_for(&self, to: u32) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&to)
    }

    pub(crate) fn push(&mut self, to: u32, item: Item) {
        self.queues.entry(to).or_default().push_back(item);
    }

    pub(crate) fn destinations(&self) -> Vec<u32> {
        self.queues.keys().copied().collect()
    }

    /// Takes a queue out, to be worked on and put back.
    pub(crate) fn take(&mut self, to: u32) -> VecDeque<Item> {
        self.queues.remove(&to).unwrap_or_default()
    }

    /// Puts back what is left of a queue, before anything that came meanwhile.
    pub(crate) fn put_back(&mut self, to: u32, mut rest: VecDeque<Item>) {
        if let Some(newer) = self.queues.remove(&to) {
            rest.extend(newer);
        }
        if !rest.is_empty() {
            self.queues.insert(to, rest);
        }
    }
}
