//! A ring with many writers and one reader: where a rank gets its mail from peers that have no ring of their own.
//!
//! Writers reserve by compare-and-swap on the tail and publish in any order; the reader takes records in the order of
//! reservation, so each writer's records stay in order. A writer cannot zero the word behind its record, as the next
//! one may be published already; here the reader zeroes the valid words of what it has read before it gives room back.

use treepie_fabric::Head;

use crate::area::{Area, Body, GRANULE, PAD, Prefix, record_bytes};
use crate::bell::Bell;
use crate::primitive::{AtomicU32, AtomicU64, Fencing, Ordering, fence, publish};

/// What all sides share beside the area.
#[repr(C, align(64))]
pub(crate) struct InboxHeader {
    /// Bytes reserved, ever.
    tail: AtomicU64,
    far: [u64; 7],
    /// Bytes read, ever, rounded down to when the reader last told.
    freed: AtomicU64,
    /// Set by a writer that goes to sleep for want of room.
    blocked: AtomicU32,
}

/// The side of those who write. It has no state of its own.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    header: &'static InboxHeader,
    area: Area,
}

impl Slot {
    pub(crate) fn new(header: &'static InboxHeader, area: Area) -> Self {
        Self { header, area }
    }

    fn needed(&self, tail: u64, body: usize) -> (usize, usize) {
        let record = record_bytes(body);
        let rest = self.area.bytes() - (tail as usize & (self.area.bytes() - 1));
        (record, if record <= rest { 0 } else { rest })
    }

    /// Whether a record fits now. If not, the reader will wake all who wait once it has made room.
    pub(crate) fn has_room_or_block(&self, body: usize) -> bool {
        self.header.blocked.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.fits(self.header.tail.load(Ordering::Relaxed), body)
    }

    fn fits(&self, tail: u64, body: usize) -> bool {
        let (record, pad) = self.needed(tail, body);
        let freed = self.header.freed.load(Ordering::Acquire);
        // The tail is older than `freed` here and may lie behind it.
        (tail + (record + pad) as u64).saturating_sub(freed) <= self.area.bytes() as u64
    }

    /// Writes a record and wakes the reader if it sleeps; false if there is no room.
    pub(crate) fn push(&self, from: u32, head: Head, body: &[u8], reader: &Bell) -> bool {
        let mut tail = self.header.tail.load(Ordering::Relaxed);
        let (record, pad) = loop {
            let (record, pad) = self.needed(tail, body.len());
            if !self.fits(tail, body.len()) {
                return false;
            }
            let end = tail + (record + pad) as u64;
            match self.header.tail.compare_exchange_weak(tail, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break (record, pad),
                Err(seen) => tail = seen,
            }
        };
        let mut at = tail as usize & (self.area.bytes() - 1);
        if pad != 0 {
            self.area.valid(at).store(PAD, Ordering::Release);
            at = 0;
        }
        debug_assert!(at + record <= self.area.bytes());
        self.area.write(at, Prefix { from, head }, body);
        publish(self.area.valid(at), body.len() as u32 + 1, Fencing::Writer);
        reader.ring_after_publish();
        true
    }
}

/// The reader's side.
pub(crate) struct Inbox {
    header: &'static InboxHeader,
    area: Area,
    head: u64,
    told: u64,
    held: u32,
}

impl Inbox {
    pub(crate) fn new(header: &'static InboxHeader, area: Area) -> Self {
        Self { header, area, head: 0, told: 0, held: 0 }
    }

    /// How far writers have reserved. What they publish there may come later than what lies behind it.
    #[cfg(not(loom))]
    pub(crate) fn reserved(&self) -> u64 {
        self.header.tail.load(Ordering::Acquire)
    }

    /// Whether everything up to there has been read.
    #[cfg(not(loom))]
    pub(crate) fn has_read(&self, reserved: u64) -> bool {
        self.head >= reserved
    }

    fn at(&self) -> usize {
        self.head as usize & (self.area.bytes() - 1)
    }

    /// Whether a record is there.
    #[inline]
    pub(crate) fn ready(&mut self) -> bool {
        match self.area.valid(self.at()).load(Ordering::Acquire) {
            0 => false,
            PAD => {
                let rest = self.area.bytes() - self.at();
                self.clear(self.at(), rest);
                self.head += rest as u64;
                self.area.valid(0).load(Ordering::Acquire) != 0
            }
            _ => true,
        }
    }

    /// Leaves the record that was handed out where it is, to be handed out again.
    #[cfg(not(loom))]
    pub(crate) fn keep(&mut self) {
        self.held = 0;
    }

    /// The next record, if there is one. It stays until [`free`](Self::free).
    pub(crate) fn next(&mut self) -> Option<(Prefix, Body<'_>)> {
        debug_assert_eq!(self.held, 0);
        if !self.ready() {
            return None;
        }
        let at = self.at();
        let valid = self.area.valid(at).load(Ordering::Acquire);
        let len = valid as usize - 1;
        self.held = record_bytes(len) as u32;
        Some(self.area.read(at, len))
    }

    /// Gives up the record that was handed out. Returns whether writers that wait for room are to be woken.
    pub(crate) fn free(&mut self) -> bool {
        let held = std::mem::take(&mut self.held) as usize;
        self.clear(self.at(), held);
        self.head += held as u64;
        if self.head - self.told < self.area.bytes() as u64 / 4 {
            return false;
        }
        self.told = self.head;
        self.header.freed.store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        self.header.blocked.load(Ordering::Relaxed) != 0 && self.header.blocked.swap(0, Ordering::AcqRel) != 0
    }

    fn clear(&self, at: usize, bytes: usize) {
        for granule in (at..at + bytes).step_by(GRANULE) {
            self.area.valid(granule).store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(loom)]
impl InboxHeader {
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::new(Self {
            tail: AtomicU64::new(0),
            far: [0; 7],
            freed: AtomicU64::new(0),
            blocked: AtomicU32::new(0),
        }))
    }
}
