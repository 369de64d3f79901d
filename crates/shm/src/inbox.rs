//! A multi-producer, single-consumer ring: a rank's channel from the peers that have no ring to it.
//!
//! Writers reserve by compare-and-swap on the tail and publish in any order; the reader takes records in the order of
//! reservation, so each writer's records stay in order. A writer cannot zero the word after its record, as the next one
//! may be published already; so the reader zeroes the valid words of what it has read before it frees the space.

use treepie_fabric::RecordHeader;

use crate::doorbell::Doorbell;
use crate::primitive::{AtomicU32, AtomicU64, FenceMode, Ordering, fence, publish};
use crate::ring_memory::{Body, GRANULE, PAD, Prefix, RingMemory, record_bytes};

/// State that writers and reader share beside the ring memory.
#[repr(C, align(64))]
pub(crate) struct InboxHeader {
    /// Bytes reserved in total.
    tail: AtomicU64,
    padding: [u64; 7],
    /// Bytes read in total, as the reader last published.
    freed: AtomicU64,
    /// Set by a writer that parks for want of space.
    has_blocked_writers: AtomicU32,
}

/// The writers' side, which is stateless.
#[derive(Clone, Copy)]
pub(crate) struct InboxWriter {
    header: &'static InboxHeader,
    memory: RingMemory,
}

impl InboxWriter {
    pub(crate) fn new(header: &'static InboxHeader, memory: RingMemory) -> Self {
        Self { header, memory }
    }

    fn record_and_pad(&self, tail: u64, body: usize) -> (usize, usize) {
        let record = record_bytes(body);
        let rest = self.memory.bytes() - (tail as usize & (self.memory.bytes() - 1));
        (record, if record <= rest { 0 } else { rest })
    }

    /// Whether a record fits now. If not, the reader will notify all ranks once it has freed space.
    pub(crate) fn has_room_or_block(&self, body: usize) -> bool {
        self.header.has_blocked_writers.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.fits(self.header.tail.load(Ordering::Relaxed), body)
    }

    fn fits(&self, tail: u64, body: usize) -> bool {
        let (record, pad) = self.record_and_pad(tail, body);
        let freed = self.header.freed.load(Ordering::Acquire);
        // `tail` was loaded before `freed` and may be smaller.
        (tail + (record + pad) as u64).saturating_sub(freed) <= self.memory.bytes() as u64
    }

    /// Writes a record and unparks the reader if it is parked; false if there is no space.
    pub(crate) fn push(&self, from: u32, head: RecordHeader, body: &[u8], reader: &Doorbell) -> bool {
        let mut tail = self.header.tail.load(Ordering::Relaxed);
        let (record, pad) = loop {
            let (record, pad) = self.record_and_pad(tail, body.len());
            if !self.fits(tail, body.len()) {
                return false;
            }
            let end = tail + (record + pad) as u64;
            match self.header.tail.compare_exchange_weak(tail, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break (record, pad),
                Err(seen) => tail = seen,
            }
        };
        let mut at = tail as usize & (self.memory.bytes() - 1);
        if pad != 0 {
            self.memory.valid_word(at).store(PAD, Ordering::Release);
            at = 0;
        }
        debug_assert!(at + record <= self.memory.bytes());
        self.memory.write(at, Prefix { from, head }, body);
        publish(self.memory.valid_word(at), body.len() as u32 + 1, FenceMode::Symmetric);
        reader.notify_after_publish();
        true
    }
}

/// The reader's side.
pub(crate) struct Inbox {
    header: &'static InboxHeader,
    memory: RingMemory,
    head: u64,
    published_head: u64,
    held_bytes: u32,
}

impl Inbox {
    pub(crate) fn new(header: &'static InboxHeader, memory: RingMemory) -> Self {
        Self { header, memory, head: 0, published_head: 0, held_bytes: 0 }
    }

    /// The tail that writers have reserved. They may publish below it later than above it.
    #[cfg(not(loom))]
    pub(crate) fn reserved_tail(&self) -> u64 {
        self.header.tail.load(Ordering::Acquire)
    }

    /// Whether the reader has read everything below a tail.
    #[cfg(not(loom))]
    pub(crate) fn has_read(&self, reserved: u64) -> bool {
        self.head >= reserved
    }

    fn offset(&self) -> usize {
        self.head as usize & (self.memory.bytes() - 1)
    }

    /// Whether a record is available.
    #[inline]
    pub(crate) fn is_ready(&mut self) -> bool {
        match self.memory.valid_word(self.offset()).load(Ordering::Acquire) {
            0 => false,
            PAD => {
                let rest = self.memory.bytes() - self.offset();
                self.clear(self.offset(), rest);
                self.head += rest as u64;
                self.memory.valid_word(0).load(Ordering::Acquire) != 0
            }
            _ => true,
        }
    }

    /// Puts back the record that `next` returned.
    #[cfg(not(loom))]
    pub(crate) fn put_back(&mut self) {
        self.held_bytes = 0;
    }

    /// The next record, if there is one. It stays until [`free`](Self::free).
    pub(crate) fn next(&mut self) -> Option<(Prefix, Body<'_>)> {
        debug_assert_eq!(self.held_bytes, 0);
        if !self.is_ready() {
            return None;
        }
        let at = self.offset();
        let valid = self.memory.valid_word(at).load(Ordering::Acquire);
        let len = valid as usize - 1;
        self.held_bytes = record_bytes(len) as u32;
        Some(self.memory.read(at, len))
    }

    /// Frees the record that `next` returned. Returns whether writers that wait for space must be notified.
    pub(crate) fn free(&mut self) -> bool {
        let held = std::mem::take(&mut self.held_bytes) as usize;
        self.clear(self.offset(), held);
        self.head += held as u64;
        if self.head - self.published_head < self.memory.bytes() as u64 / 4 {
            return false;
        }
        self.published_head = self.head;
        self.header.freed.store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        self.header.has_blocked_writers.load(Ordering::Relaxed) != 0
            && self.header.has_blocked_writers.swap(0, Ordering::AcqRel) != 0
    }

    fn clear(&self, at: usize, bytes: usize) {
        for granule in (at..at + bytes).step_by(GRANULE) {
            self.memory.valid_word(granule).store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(loom)]
impl InboxHeader {
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::new(Self {
            tail: AtomicU64::new(0),
            padding: [0; 7],
            freed: AtomicU64::new(0),
            has_blocked_writers: AtomicU32::new(0),
        }))
    }
}
