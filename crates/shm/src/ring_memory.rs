//! The memory of a ring: granules of 32 bytes, each of which can begin a record.
//!
//! A record is a valid word (4 bytes), the sender (4), the header (16) and the body, so that a body of 8 bytes fills
//! just one granule and the reader finds everything in one cache line. The valid word is zero until the rest of the
//! record is written, then the body's length + 1. So the reader needs no index from the writer, and the flag travels
//! with the data.

use treepie_fabric::RecordHeader;

use crate::primitive::AtomicU32;

/// Bytes of a granule. With 64, each record has its own cache line, but that costs latency and a fifth of the rate.
pub(crate) const GRANULE: usize = 32;

/// Bytes of a record before its body.
pub(crate) const PREFIX: usize = 24;

/// Valid word of the padding at the end of a lap that the next record did not fit into.
pub(crate) const PAD: u32 = u32::MAX;

/// Bytes of a record with a body of `body` bytes.
#[inline]
pub(crate) const fn record_bytes(body: usize) -> usize {
    (PREFIX + body + GRANULE - 1) & !(GRANULE - 1)
}

/// The fixed-size fields of a record after its valid word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Prefix {
    pub(crate) from: u32,
    pub(crate) head: RecordHeader,
}

#[cfg(not(loom))]
mod memory {
    use std::ptr::NonNull;

    use treepie_base::copy_short;

    use super::*;
    use crate::primitive::prefetch_for_write;

    /// Bytes of a longer body that are written last: with the prefix they cover the first line and the next, which
    /// processors fetch together.
    const WRITTEN_LAST: usize = 128;

    /// Bytes after the last record that are prefetched at most.
    const MAX_PREFETCHED: usize = 2 << 10;

    /// Memory of a ring, shared with other processes.
    #[derive(Clone, Copy)]
    pub(crate) struct RingMemory {
        base: NonNull<u8>,
        bytes: usize,
    }

    /// A body in the ring.
    pub(crate) type Body<'a> = &'a [u8];

    impl RingMemory {
        /// # Safety
        /// `base` must point to `bytes` bytes of shared memory, aligned to 64 and a power of two in number, that stay
        /// mapped as long as the `RingMemory` is used, and that all sides access only through `RingMemory`.
        pub(crate) unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
            debug_assert!(bytes.is_power_of_two());
            Self { base, bytes }
        }

        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        /// The valid word of the granule at `at`.
        #[inline]
        pub(crate) fn valid_word(&self, at: usize) -> &AtomicU32 {
            debug_assert!(at.is_multiple_of(GRANULE) && at < self.bytes);
            // SAFETY: in bounds, aligned, and valid for any bit pattern; the ring's protocol makes all concurrent
            // accesses to these four bytes go through this atomic.
            unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU32>() }
        }

        /// Writes the prefix and body of the record at `at`, which the caller has reserved.
        #[inline]
        pub(crate) fn write(&self, at: usize, prefix: Prefix, body: &[u8]) {
            debug_assert!(at + PREFIX + body.len() <= self.bytes);
            // SAFETY: in bounds; the granules are reserved for this writer until it sets the valid word, so nobody else
            // reads or writes them.
            unsafe {
                let to = self.base.as_ptr().add(at);
                let into = std::slice::from_raw_parts_mut(to.add(PREFIX), body.len());
                // A waiting reader polls the first line, and takes it away from the writer again and again: what is in
                // it comes last. With that, and with more lines prefetched, the rate of 1 KiB is a quarter higher.
                if body.len() > WRITTEN_LAST {
                    into[WRITTEN_LAST..].copy_from_slice(&body[WRITTEN_LAST..]);
                    to.add(4).cast::<Prefix>().write(prefix);
                    into[..WRITTEN_LAST].copy_from_slice(&body[..WRITTEN_LAST]);
                } else {
                    to.add(4).cast::<Prefix>().write(prefix);
                    copy_short(into, body);
                }
            }
        }

        /// The record at `at`, whose valid word said that its body has `len` bytes.
        #[inline]
        pub(crate) fn read(&self, at: usize, len: usize) -> (Prefix, Body<'_>) {
            assert!(at + PREFIX + len <= self.bytes, "a record extends beyond its ring");
            // SAFETY: in bounds; the writer has published the record, so nobody writes it before the reader frees it.
            unsafe {
                let from = self.base.as_ptr().add(at);
                (from.add(4).cast::<Prefix>().read(), std::slice::from_raw_parts(from.add(PREFIX), len))
            }
        }

        /// Prefetches lines after `at`, where coming records will be written. They have been in the reader's cache
        /// since the last lap, and fetching them takes as long as writing several records.
        ///
        /// `record`: bytes of the last record, as the next one is likely to be as long.
        #[inline]
        pub(crate) fn prefetch_for_write(&self, at: usize, record: usize) {
            let prefetch = |ahead| prefetch_for_write(self.base.as_ptr().wrapping_add((at + ahead) & (self.bytes - 1)));
            [128, 256, 384].into_iter().for_each(prefetch);
            if record > 384 {
                (512..=record.min(MAX_PREFETCHED)).step_by(128).for_each(prefetch);
            }
        }
    }
}

#[cfg(loom)]
mod memory {
    //! Every word is a relaxed atomic, so that loom explores each value that a missing ordering would permit.

    use super::*;
    use crate::primitive::Ordering;

    #[derive(Clone, Copy)]
    pub(crate) struct RingMemory {
        words: &'static [AtomicU32],
    }

    pub(crate) type Body<'a> = Vec<u8>;

    impl RingMemory {
        pub(crate) fn leaked(bytes: usize) -> Self {
            Self { words: Box::leak((0..bytes / 4).map(|_| AtomicU32::new(0)).collect()) }
        }

        pub(crate) fn bytes(&self) -> usize {
            self.words.len() * 4
        }

        pub(crate) fn valid_word(&self, at: usize) -> &AtomicU32 {
            &self.words[at / 4]
        }

        pub(crate) fn write(&self, at: usize, prefix: Prefix, body: &[u8]) {
            let head = prefix.head;
            let fixed = [prefix.from, head.kind, head.context, head.tag, head.slot];
            let body = body.chunks(4).map(|c| c.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b)));
            for (i, word) in fixed.into_iter().chain(body).enumerate() {
                self.words[at / 4 + 1 + i].store(word, Ordering::Relaxed);
            }
        }

        pub(crate) fn read(&self, at: usize, len: usize) -> (Prefix, Body<'_>) {
            let word = |i: usize| self.words[at / 4 + 1 + i].load(Ordering::Relaxed);
            let head = RecordHeader { kind: word(1), context: word(2), tag: word(3), slot: word(4) };
            let body = (0..len.div_ceil(4)).flat_map(|i| word(5 + i).to_le_bytes()).take(len).collect();
            (Prefix { from: word(0), head }, body)
        }

        pub(crate) fn prefetch_for_write(&self, _at: usize, _record: usize) {}
    }
}

pub(crate) use memory::{Body, RingMemory};
