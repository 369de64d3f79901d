//! Buffers that are full, or were sent before they were: on their way to the engine.
//!
//! A handler cannot wait for a neighbour that is slow, so what it sends then stays here. That is memory of the application's,
//! and counted. Only a few buffers a neighbour are given to the engine at a time: it would keep the others in its own queues.

use std::collections::{HashMap, VecDeque};

use treepie_base::BuildNumberHasher;

/// A buffer that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) tag: u32,
    pub(crate) data: Vec<u8>,
}

/// So many buffers of a neighbour are given out before the engine has taken the first.
const AHEAD: u32 = 2;

#[derive(Default)]
struct Peer {
    queue: VecDeque<Waiting>,
    /// Given out and not yet taken.
    given: u32,
    listed: bool,
}

/// What waits for room, by neighbour.
#[derive(Default)]
pub(crate) struct Outgoing {
    peers: HashMap<u32, Peer, BuildNumberHasher>,
    /// Neighbours for which something can be given out.
    open: VecDeque<u32>,
    /// Buffers that wait or were given out.
    pub(crate) buffers: usize,
    /// Bytes that wait.
    pub(crate) bytes: usize,
    /// Bytes of buffers that wait to be handled here, mostly of this rank for itself.
    local: usize,
    /// The most bytes that have ever waited.
    pub(crate) peak: usize,
}

impl Outgoing {
    pub(crate) fn push(&mut self, to: u32, waiting: Waiting) {
        self.buffers += 1;
        self.bytes += waiting.data.len();
        self.peak = self.peak.max(self.waiting());
        let peer = self.peers.entry(to).or_default();
        peer.queue.push_back(waiting);
        if peer.given < AHEAD && !std::mem::replace(&mut peer.listed, true) {
            self.open.push_back(to);
        }
    }

    /// The next buffer that may be given to the engine, and for whom.
    pub(crate) fn pop(&mut self) -> Option<(u32, Waiting)> {
        let to = *self.open.front()?;
        let peer = self.peers.get_mut(&to).expect("those that are listed exist");
        let waiting = peer.queue.pop_front().expect("those that are listed have something");
        peer.given += 1;
        self.bytes -= waiting.data.len();
        self.open.pop_front();
        peer.listed = !peer.queue.is_empty() && peer.given < AHEAD;
        if peer.listed {
            self.open.push_back(to);
        }
        Some((to, waiting))
    }

    /// A buffer waits to be handled here.
    pub(crate) fn note_local(&mut self, bytes: usize) {
        self.local += bytes;
        self.peak = self.peak.max(self.waiting());
    }

    /// It does no longer.
    pub(crate) fn forget_local(&mut self, bytes: usize) {
        self.local -= bytes;
    }

    /// Bytes that wait for neighbours, or here.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes + self.local
    }

    /// The engine has taken a buffer.
    pub(crate) fn taken(&mut self, to: u32) {
        self.buffers -= 1;
        let peer = self.peers.get_mut(&to).expect("something was given out for it");
        peer.given -= 1;
        if !peer.queue.is_empty() && !std::mem::replace(&mut peer.listed, true) {
            self.open.push_back(to);
        }
    }

    /// Forgets everything, after an epoch that failed.
    pub(crate) fn clear(&mut self) {
        *self = Self { peak: self.peak, ..Self::default() };
    }
}
