//! The queue of buffers to be sent, by neighbor.
//!
//! A handler cannot wait for a slow neighbor, so its buffers queue up here. That memory belongs to the application and
//! is counted. Only a few buffers per neighbor are passed to the engine at a time; it would queue the others itself.

use std::collections::{HashMap, VecDeque};

use treepie_base::BuildNumberHasher;

/// A queued buffer.
#[derive(Debug)]
pub(crate) struct QueuedBuffer {
    pub(crate) tag: u32,
    pub(crate) data: Vec<u8>,
}

/// Maximum buffers of a neighbor in flight.
const MAX_IN_FLIGHT: u32 = 2;

#[derive(Default)]
struct Peer {
    queue: VecDeque<QueuedBuffer>,
    /// Buffers passed to the engine and not yet sent.
    in_flight: u32,
    is_ready: bool,
}

/// Queued buffers by neighbor.
#[derive(Default)]
pub(crate) struct Outgoing {
    peers: HashMap<u32, Peer, BuildNumberHasher>,
    /// Neighbors with a buffer that may be sent.
    ready: VecDeque<u32>,
    /// Buffers queued or in flight.
    pub(crate) pending_buffers: usize,
    /// Bytes queued.
    pub(crate) bytes: usize,
    /// Bytes of buffers to be handled here, mostly of this rank for itself.
    local: usize,
    /// Maximum of `queued_bytes`.
    pub(crate) peak: usize,
}

impl Outgoing {
    #[inline]
    pub(crate) fn push(&mut self, to: u32, buffer: QueuedBuffer) {
        self.pending_buffers += 1;
        self.bytes += buffer.data.len();
        self.peak = self.peak.max(self.queued_bytes());
        let peer = self.peers.entry(to).or_default();
        peer.queue.push_back(buffer);
        if peer.in_flight < MAX_IN_FLIGHT && !std::mem::replace(&mut peer.is_ready, true) {
            self.ready.push_back(to);
        }
    }

    /// The next buffer for the engine, and its neighbor.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u32, QueuedBuffer)> {
        let to = *self.ready.front()?;
        let peer = self.peers.get_mut(&to).expect("ready peers exist");
        let buffer = peer.queue.pop_front().expect("ready peers have a buffer");
        peer.in_flight += 1;
        self.bytes -= buffer.data.len();
        self.ready.pop_front();
        peer.is_ready = !peer.queue.is_empty() && peer.in_flight < MAX_IN_FLIGHT;
        if peer.is_ready {
            self.ready.push_back(to);
        }
        Some((to, buffer))
    }

    /// Counts a buffer queued to be handled here.
    pub(crate) fn add_local(&mut self, bytes: usize) {
        self.local += bytes;
        self.peak = self.peak.max(self.queued_bytes());
    }

    /// Counts a buffer handled here.
    pub(crate) fn remove_local(&mut self, bytes: usize) {
        self.local -= bytes;
    }

    /// Bytes queued for neighbors or for this rank.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.bytes + self.local
    }

    /// The engine has sent a buffer.
    #[inline]
    pub(crate) fn on_sent(&mut self, to: u32) {
        self.pending_buffers -= 1;
        let peer = self.peers.get_mut(&to).expect("a buffer was in flight");
        peer.in_flight -= 1;
        if !peer.queue.is_empty() && !std::mem::replace(&mut peer.is_ready, true) {
            self.ready.push_back(to);
        }
    }

    /// Discards all buffers after a failed epoch.
    pub(crate) fn clear(&mut self) {
        *self = Self { peak: self.peak, ..Self::default() };
    }
}
