//! A single-producer, single-consumer ring: the channel of a pair of ranks that communicate often.
//!
//! The writer zeroes the valid word that follows its record before it publishes the record. So stale bytes of an
//! earlier lap are never taken for a record, and the reader, which polls only the word after the last record it read,
//! needs no index. Space is returned lazily: the reader publishes its head after each quarter of the ring, which is
//! seldom enough that the writer's load of that line costs nothing.
//!
//! A record takes at most an eighth of the ring. Then even with a quarter of the space withheld, a pad at the end of
//! the lap and a record still being read, an emptied ring has space for any record: a writer that waits for space
//! always gets it.

use treepie_fabric::RecordHeader;

use crate::doorbell::Doorbell;
use crate::primitive::{AtomicU64, FenceMode, Ordering, publish};
use crate::ring_memory::{Body, GRANULE, PAD, Prefix, RingMemory, record_bytes};

/// State that writer and reader share beside the ring memory, on a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct RingHeader {
    /// Bytes read in total, as the reader last published.
    freed: AtomicU64,
}

/// The writer's side.
pub(crate) struct RingWriter {
    header: &'static RingHeader,
    memory: RingMemory,
    /// Bytes written in total.
    tail: u64,
    /// Upper bound of `tail` by the reader's last published head.
    limit: u64,
}

impl RingWriter {
    pub(crate) fn new(header: &'static RingHeader, memory: RingMemory) -> Self {
        Self { header, memory, tail: 0, limit: memory.bytes() as u64 }
    }

    fn offset(&self) -> usize {
        self.tail as usize & (self.memory.bytes() - 1)
    }

    /// Bytes from the tail to the end of the lap if a record of `record` bytes does not fit there: they are padded.
    fn pad(&self, record: usize) -> usize {
        let rest = self.memory.bytes() - self.offset();
        if record <= rest { 0 } else { rest }
    }

    /// Whether a record fits now.
    pub(crate) fn has_room(&mut self, body: usize) -> bool {
        let record = record_bytes(body);
        // One more granule: the valid word that is zeroed after the record must be free as well.
        let end = self.tail + (self.pad(record) + record + GRANULE) as u64;
        if end > self.limit {
            self.limit = self.header.freed.load(Ordering::Acquire) + self.memory.bytes() as u64;
        }
        end <= self.limit
    }

    /// Moves the tail to where the next record fits: here, or at the beginning of the next lap. False if there is no
    /// space.
    #[cold]
    fn make_room(&mut self, body: usize) -> bool {
        if !self.has_room(body) {
            return false;
        }
        let pad = self.pad(record_bytes(body));
        if pad != 0 {
            self.memory.valid_word(0).store(0, Ordering::Relaxed);
            self.memory.valid_word(self.offset()).store(PAD, Ordering::Release);
            self.tail += pad as u64;
        }
        true
    }

    /// Writes a record and unparks the reader if it is parked; false if there is no space.
    #[inline]
    pub(crate) fn push(
        &mut self,
        from: u32,
        head: RecordHeader,
        body: &[u8],
        reader: &Doorbell,
        fence_mode: FenceMode,
    ) -> bool {
        let record = record_bytes(body.len());
        let mut at = self.offset();
        if at + record > self.memory.bytes() || self.tail + (record + GRANULE) as u64 > self.limit {
            if !self.make_room(body.len()) {
                return false;
            }
            at = self.offset();
        }
        let next = (at + record) & (self.memory.bytes() - 1);
        self.memory.valid_word(next).store(0, Ordering::Relaxed);
        self.memory.write(at, Prefix { from, head }, body);
        publish(self.memory.valid_word(at), body.len() as u32 + 1, fence_mode);
        self.tail += record as u64;
        reader.notify_after_publish();
        self.memory.prefetch_for_write(next, record);
        true
    }
}

/// The reader's side.
pub(crate) struct RingReader {
    header: &'static RingHeader,
    memory: RingMemory,
    head: u64,
    published_head: u64,
    /// Bytes of the record that `next` returned and that is not yet freed.
    held_bytes: u32,
}

impl RingReader {
    pub(crate) fn new(header: &'static RingHeader, memory: RingMemory) -> Self {
        Self { header, memory, head: 0, published_head: 0, held_bytes: 0 }
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
                self.head += (self.memory.bytes() - self.offset()) as u64;
                self.memory.valid_word(0).load(Ordering::Acquire) != 0
            }
            _ => true,
        }
    }

    /// The next record, if there is one. It stays until [`free`](Self::free).
    #[inline]
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

    /// Passes the next record, if there is one, to `take` and frees it if that returns true.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn next_if(&mut self, writer: &Doorbell, take: impl FnOnce(Prefix, Body<'_>) -> bool) -> bool {
        let Some((prefix, body)) = self.next() else { return false };
        let taken = take(prefix, body);
        if !taken {
            self.held_bytes = 0;
        }
        self.free(writer);
        taken
    }

    /// Frees the record that `next` returned, and publishes the head after each quarter of the ring.
    #[inline]
    pub(crate) fn free(&mut self, writer: &Doorbell) {
        self.head += u64::from(std::mem::take(&mut self.held_bytes));
        if self.head - self.published_head >= self.memory.bytes() as u64 / 4 {
            self.publish_head(writer);
        }
    }

    #[cold]
    fn publish_head(&mut self, writer: &Doorbell) {
        self.published_head = self.head;
        self.header.freed.store(self.head, Ordering::Release);
        writer.notify();
    }
}

#[cfg(loom)]
impl RingHeader {
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::new(Self { freed: AtomicU64::new(0) }))
    }
}
