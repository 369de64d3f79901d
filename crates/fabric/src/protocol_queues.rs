//! Message queues of protocols. No receive matches their messages: each goes to the queue of the protocol instance that
//! its tag identifies, whether this rank has opened the instance or not.
//!
//! An open instance accepts a message: it acknowledges a synchronous send, and starts the transfer of a rendezvous
//! message. A message that arrives earlier is queued as unexpected.
//!
//! Messages of one source are delivered in order. So one whose transfer is in progress blocks later ones of its source,
//! and no others. Blocked messages are in a queue by source, and move to the ready queue when the transfer has
//! completed. No operation searches a queue, at any length.

mod endpoint;

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use treepie_base::{BuildNumberHasher, Bytes};

use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::matching::Arrival;
use crate::op::{Envelope, Op};
use crate::search_depth;
use crate::slab::{OpId, Slab};

/// The tag bit of protocol messages. Contexts of library messages are odd.
pub const PROTOCOL_TAG_BIT: u64 = 1 << 50;

/// The number of low tag bits that are free for the protocol; those above identify its instance.
pub const SUBTAG_BITS: u32 = 18;

/// The tag bit of messages that create a communicator from a group; they belong to no collective operation.
pub const GROUP_TAG_BIT: u64 = 1 << 51;

/// The tag bits of a collective operation with this number in its communicator.
pub const fn operation_tag(number: u32) -> u64 {
    (number as u64) << SUBTAG_BITS
}

/// The number of the collective operation in a tag.
pub(crate) const fn operation_number(tag: u64) -> u32 {
    (tag >> SUBTAG_BITS) as u32
}

const _: () =
    assert!(SUBTAG_BITS + u32::BITS == PROTOCOL_TAG_BIT.ilog2() && GROUP_TAG_BIT.ilog2() + 1 == crate::wire::TAG_BITS);

#[inline]
pub(crate) fn is_protocol_message(key: MatchKey) -> bool {
    key.tag & PROTOCOL_TAG_BIT != 0 && key.context & 1 == 1
}

/// An instance of a protocol: one execution on all ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolInstance {
    /// The context of the communicator.
    pub context: u32,
    /// The tag of its messages without the low [`SUBTAG_BITS`].
    pub tag: u64,
}

impl Hash for ProtocolInstance {
    /// Skips the low bits of the tag, which are the same in all instances.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.context);
        state.write_u64(self.tag >> SUBTAG_BITS);
    }
}

impl ProtocolInstance {
    pub(crate) fn from_key(key: MatchKey) -> Self {
        Self { context: key.context, tag: key.tag >> SUBTAG_BITS << SUBTAG_BITS }
    }
}

/// The queues of all instances that are open or have unexpected messages.
#[derive(Default)]
pub(crate) struct ProtocolQueues {
    queues: Vec<ProtocolQueue>,
    /// The index of each instance in `queues`.
    indices: HashMap<ProtocolInstance, usize, BuildNumberHasher>,
    /// The instance used last: mostly the next one, too.
    last: usize,
    /// Bytes of buffered messages.
    buffered_bytes: u64,
}

struct ProtocolQueue {
    instance: ProtocolInstance,
    /// The alignment of message memory; none while the instance is not open.
    align: Option<usize>,
    /// The task that has opened the instance.
    task: Option<u32>,
    /// Messages that arrived before the instance was opened.
    unexpected: VecDeque<(Envelope, Arrival)>,
    /// Messages ready for delivery.
    ready: VecDeque<ProtocolMessage>,
    /// By source, a message in transfer and those behind it. Empty queues stay.
    blocked: HashMap<u32, VecDeque<ProtocolMessage>, BuildNumberHasher>,
    /// Number of messages in `blocked`.
    num_blocked: usize,
}

struct ProtocolMessage {
    envelope: Envelope,
    payload: ProtocolPayload,
}

enum ProtocolPayload {
    Whole(Bytes),
    /// A rendezvous transfer into a receive.
    Transferring(OpId),
}

impl ProtocolMessage {
    /// The number of buffered bytes, without those of operations.
    fn buffered_bytes(&self) -> u64 {
        match &self.payload {
            ProtocolPayload::Whole(bytes) => bytes.as_slice().len() as u64,
            ProtocolPayload::Transferring(_) => 0,
        }
    }

    /// Whether the message has arrived completely, or failed.
    fn is_ready(&self, ops: &Slab<Op>) -> bool {
        match &self.payload {
            ProtocolPayload::Whole(_) => true,
            ProtocolPayload::Transferring(id) => ops.get(*id).is_none_or(Op::is_complete),
        }
    }
}

impl ProtocolQueue {
    fn new(instance: ProtocolInstance) -> Self {
        let (unexpected, ready, blocked) = (VecDeque::new(), VecDeque::new(), HashMap::default());
        Self { instance, align: None, task: None, unexpected, ready, blocked, num_blocked: 0 }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.num_blocked == 0 && self.unexpected.is_empty()
    }

    /// Queues a message behind those of its source. Returns whether it is ready.
    #[inline]
    fn push(&mut self, message: ProtocolMessage) -> bool {
        let is_whole = matches!(message.payload, ProtocolPayload::Whole(_));
        if is_whole && self.num_blocked == 0 {
            self.ready.push_back(message);
            return true;
        }
        self.push_blocked(message, is_whole)
    }

    #[cold]
    fn push_blocked(&mut self, message: ProtocolMessage, is_whole: bool) -> bool {
        let blocked = self.blocked.entry(message.envelope.source).or_default();
        if is_whole && blocked.is_empty() {
            self.ready.push_back(message);
            return true;
        }
        blocked.push_back(message);
        self.num_blocked += 1;
        false
    }

    /// Moves messages of a source whose transfers have completed to the ready queue. Returns whether there are any.
    fn unblock(&mut self, source: u32, ops: &Slab<Op>) -> bool {
        let Some(blocked) = self.blocked.get_mut(&source) else { return false };
        let mut any = false;
        while blocked.front().is_some_and(|message| message.is_ready(ops)) {
            search_depth::count_step();
            self.ready.extend(blocked.pop_front());
            self.num_blocked -= 1;
            any = true;
        }
        any
    }
}

impl ProtocolQueues {
    #[inline]
    fn find(&self, instance: ProtocolInstance) -> Option<usize> {
        search_depth::count_step();
        match self.queues.get(self.last) {
            Some(queue) if queue.instance == instance => Some(self.last),
            _ => self.indices.get(&instance).copied(),
        }
    }

    #[inline]
    fn find_mut(&mut self, instance: ProtocolInstance) -> Option<&mut ProtocolQueue> {
        self.last = self.find(instance)?;
        Some(&mut self.queues[self.last])
    }

    fn find_or_insert(&mut self, instance: ProtocolInstance) -> &mut ProtocolQueue {
        self.last = self.find(instance).unwrap_or_else(|| {
            self.indices.insert(instance, self.queues.len());
            self.queues.push(ProtocolQueue::new(instance));
            self.queues.len() - 1
        });
        &mut self.queues[self.last]
    }

    fn remove(&mut self, instance: ProtocolInstance) -> Option<ProtocolQueue> {
        let index = self.find(instance)?;
        let queue = self.queues.swap_remove(index);
        self.indices.remove(&instance);
        if let Some(swapped) = self.queues.get(index) {
            self.indices.insert(swapped.instance, index);
        }
        Some(queue)
    }

    /// Bytes of buffered messages.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }

    /// Whether an instance is open or has unexpected messages.
    pub(crate) fn has(&self, instance: ProtocolInstance) -> bool {
        self.indices.contains_key(&instance)
    }

    /// The task that has opened an instance.
    pub(crate) fn task_of(&self, instance: ProtocolInstance) -> Option<u32> {
        self.find(instance).and_then(|index| self.queues[index].task)
    }

    /// Whether an instance has messages, but is not open.
    pub(crate) fn is_unopened(&self, instance: ProtocolInstance) -> bool {
        self.find(instance).is_some_and(|index| self.queues[index].align.is_none())
    }

    /// The open instances.
    pub(crate) fn open_instances(&self) -> impl Iterator<Item = ProtocolInstance> {
        self.queues.iter().filter(|queue| queue.align.is_some()).map(|queue| queue.instance)
    }

    /// The first message of each instance that is not open: the instance, the source and the call.
    pub(crate) fn unopened(&self) -> impl Iterator<Item = (ProtocolInstance, u32, CallSignature)> {
        let unopened = self.queues.iter().inspect(|_| search_depth::count_step()).filter(|queue| queue.align.is_none());
        unopened.filter_map(|queue| {
            let (envelope, _) = queue.unexpected.front()?;
            Some((queue.instance, envelope.source, envelope.call))
        })
    }

    /// The number of instances.
    pub(crate) fn num_instances(&self) -> usize {
        self.queues.len()
    }

    /// Whether any instance is open.
    pub(crate) fn has_open(&self) -> bool {
        self.queues.iter().any(|queue| queue.align.is_some())
    }

    /// Closes all instances.
    pub(crate) fn close(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.align = None);
    }

    /// Removes the unexpected messages that satisfy `which`, with their sources.
    pub(crate) fn take_unexpected(&mut self, which: impl Fn(u32, &Arrival) -> bool) -> Vec<(u32, Arrival)> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            for (envelope, arrival) in std::mem::take(&mut queue.unexpected) {
                if which(envelope.source, &arrival) {
                    self.buffered_bytes -= arrival.buffered_bytes();
                    taken.push((envelope.source, arrival));
                } else {
                    queue.unexpected.push_back((envelope, arrival));
                }
            }
        }
        taken
    }
}
