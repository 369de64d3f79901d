//! A ring with one writer and one reader: the channel of a pair of ranks that talk often.
//!
//! The writer zeroes the valid word that follows its record before it publishes the record. So stale bytes of an
//! earlier lap are never taken for a record, and the reader, which looks only at the word after the last record it
//! read, needs no index. Room comes back lazily: the reader stores how far it has read when a quarter of the ring has
//! gathered, which is seldom enough that the writer's look at that line costs nothing.
//!
//! A record takes at most an eighth of the ring. Then even with a quarter of the room withheld, a pad at the end of the
//! lap and a record still being read, an emptied ring has room for any record: a writer that waits for room is always
//! answered.

use treepie_fabric::Head;

use crate::area::{Area, Body, GRANULE, PAD, Prefix, record_bytes};
use crate::bell::Bell;
use crate::primitive::{AtomicU64, Fencing, Ordering, publish};

/// What the two sides share beside the area, on a line of its own.
#[repr(C, align(64))]
pub(crate) struct RingHeader {
    /// Bytes read, ever, rounded down to when the reader last told.
    freed: AtomicU64,
}

/// The writer's side.
pub(crate) struct Writer {
    header: &'static RingHeader,
    area: Area,
    /// Bytes written, ever.
    tail: u64,
    /// What `tail` may come to, as far as the reader was heard of.
    limit: u64,
}

impl Writer {
    pub(crate) fn new(header: &'static RingHeader, area: Area) -> Self {
        Self { header, area, tail: 0, limit: area.bytes() as u64 }
    }

    fn at(&self) -> usize {
        self.tail as usize & (self.area.bytes() - 1)
    }

    /// Bytes from the tail to the end of the lap, if a record of so many does not fit there: they are to be padded.
    fn pad(&self, record: usize) -> usize {
        let rest = self.area.bytes() - self.at();
        if record <= rest { 0 } else { rest }
    }

    /// Whether a record fits now.
    pub(crate) fn has_room(&mut self, body: usize) -> bool {
        let record = record_bytes(body);
        // One granule more: the valid word that is zeroed behind the record must be free as well.
        let end = self.tail + (self.pad(record) + record + GRANULE) as u64;
        if end > self.limit {
            self.limit = self.header.freed.load(Ordering::Acquire) + self.area.bytes() as u64;
        }
        end <= self.limit
    }

    /// Makes the next record begin where it fits: at the tail, or at the beginning of the next lap. False if there is
    /// no room.
    #[cold]
    fn make_room(&mut self, body: usize) -> bool {
        if !self.has_room(body) {
            return false;
        }
        let pad = self.pad(record_bytes(body));
        if pad != 0 {
            self.area.valid(0).store(0, Ordering::Relaxed);
            self.area.valid(self.at()).store(PAD, Ordering::Release);
            self.tail += pad as u64;
        }
        true
    }

    /// Writes a record and wakes the reader if it sleeps; false if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, from: u32, head: Head, body: &[u8], reader: &Bell, fencing: Fencing) -> bool {
        let record = record_bytes(body.len());
        let mut at = self.at();
        if at + record > self.area.bytes() || self.tail + (record + GRANULE) as u64 > self.limit {
            if !self.make_room(body.len()) {
                return false;
            }
            at = self.at();
        }
        let next = (at + record) & (self.area.bytes() - 1);
        self.area.valid(next).store(0, Ordering::Relaxed);
        self.area.write(at, Prefix { from, head }, body);
        publish(self.area.valid(at), body.len() as u32 + 1, fencing);
        self.tail += record as u64;
        reader.ring_after_publish();
        self.area.prefetch_for_write(next);
        true
    }
}

/// The reader's side.
pub(crate) struct Reader {
    header: &'static RingHeader,
    area: Area,
    head: u64,
    told: u64,
    /// Bytes of the record that was handed out and not yet freed.
    held: u32,
}

impl Reader {
    pub(crate) fn new(header: &'static RingHeader, area: Area) -> Self {
        Self { header, area, head: 0, told: 0, held: 0 }
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
                self.head += (self.area.bytes() - self.at()) as u64;
                self.area.valid(0).load(Ordering::Acquire) != 0
            }
            _ => true,
        }
    }

    /// The next record, if there is one. It stays until [`free`](Self::free).
    #[inline]
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

    /// Shows the next record, if there is one, and frees it if it was taken.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn next_if(&mut self, writer: &Bell, take: impl FnOnce(Prefix, Body<'_>) -> bool) -> bool {
        let Some((prefix, body)) = self.next() else { return false };
        let taken = take(prefix, body);
        if !taken {
            self.held = 0;
        }
        self.free(writer);
        taken
    }

    /// Gives up the record that was handed out, and tells the writer of the room once a quarter of the ring has come
    /// together.
    #[inline]
    pub(crate) fn free(&mut self, writer: &Bell) {
        self.head += u64::from(std::mem::take(&mut self.held));
        if self.head - self.told >= self.area.bytes() as u64 / 4 {
            self.tell(writer);
        }
    }

    #[cold]
    fn tell(&mut self, writer: &Bell) {
        self.told = self.head;
        self.header.freed.store(self.head, Ordering::Release);
        writer.ring();
    }
}

#[cfg(loom)]
impl RingHeader {
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::new(Self { freed: AtomicU64::new(0) }))
    }
}
