//! Coalescing: messages to one neighbor are collected in a buffer and sent together.
//!
//! A buffer is closed until the first message opens it: then it has memory, and is on the list of buffers to flush when
//! the rank is idle. Closed buffers cost nothing: a rank with a thousand neighbors that sends to ten has ten buffers.

use std::ops::{Index, IndexMut};

use treepie_base::copy_short;

use crate::config::Coalescing;

/// The messages for one neighbor. It is all that a send accesses, so it is small: a shift computes its address.
#[derive(Debug, Default)]
pub(crate) struct CoalescingBuffer {
    /// Allocated bytes; empty if the buffer is closed.
    pub(crate) storage: Vec<u8>,
    /// Bytes in use. Always below 2^32, so adding to them needs no check.
    used: u32,
}

/// The maximum size of a buffer and of a message; one message may exceed the former.
pub(crate) const MAX_BUFFER_BYTES: usize = 1 << 31;

/// The buffers of all neighbors.
///
/// They are in `fast_path` if sends may append directly to the buffer of their destination, else in `slow_path`: one
/// bounds check decides both.
#[derive(Debug, Default)]
pub(crate) struct CoalescingBuffers {
    fast_path: Vec<CoalescingBuffer>,
    slow_path: Vec<CoalescingBuffer>,
}

impl CoalescingBuffers {
    pub(crate) fn new(neighbors: usize) -> Self {
        Self { fast_path: Vec::new(), slow_path: (0..neighbors).map(|_| CoalescingBuffer::default()).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.fast_path.len() + self.slow_path.len()
    }

    /// Enables or disables the fast path.
    pub(crate) fn set_fast_path(&mut self, enabled: bool) {
        if enabled == self.fast_path.is_empty() {
            std::mem::swap(&mut self.fast_path, &mut self.slow_path);
        }
    }

    /// The buffer of a destination, if the fast path is enabled.
    #[inline(always)]
    pub(crate) fn fast_path(&mut self, to: usize) -> Option<&mut CoalescingBuffer> {
        self.fast_path.get_mut(to)
    }

    pub(crate) fn clear(&mut self) {
        self.fast_path.fill_with(CoalescingBuffer::default);
        self.slow_path.fill_with(CoalescingBuffer::default);
    }
}

impl Index<usize> for CoalescingBuffers {
    type Output = CoalescingBuffer;

    fn index(&self, index: usize) -> &CoalescingBuffer {
        if self.fast_path.is_empty() { &self.slow_path[index] } else { &self.fast_path[index] }
    }
}

impl IndexMut<usize> for CoalescingBuffers {
    fn index_mut(&mut self, index: usize) -> &mut CoalescingBuffer {
        if self.fast_path.is_empty() { &mut self.slow_path[index] } else { &mut self.fast_path[index] }
    }
}

/// The parameters of a buffer that sends do not access.
#[derive(Debug)]
pub(crate) struct BufferInfo {
    /// Bytes to which it may grow.
    pub(crate) target_size: usize,
    /// The neighbor.
    pub(crate) to: u32,
    /// Each message has its destination in its header, as the neighbor may forward it.
    pub(crate) has_destination: bool,
    /// Messages in it, if they have variable length.
    pub(crate) parcels: u32,
}

impl CoalescingBuffer {
    /// Bytes in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> usize {
        self.used as usize
    }

    /// Appends bytes if there is room.
    #[inline(always)]
    pub(crate) fn try_push(&mut self, bytes: &[u8]) -> bool {
        self.try_push_with(bytes.len(), |space| space.copy_from_slice(bytes))
    }

    /// Appends `len` bytes written by `write` if there is room.
    #[inline(always)]
    pub(crate) fn try_push_with(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let end = self.used() + len;
        let Some(space) = self.storage.get_mut(self.used as usize..end) else { return false };
        write(space);
        self.used = end as u32;
        true
    }

    /// Appends bytes of a length only known at run time: a call of `memcpy` for a few bytes costs more than the rest.
    #[inline]
    pub(crate) fn try_push_short(&mut self, bytes: &[u8]) -> bool {
        self.try_push_with(bytes.len(), |space| copy_short(space, bytes))
    }

    /// Takes the messages and closes the buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.storage);
        data.truncate(std::mem::take(&mut self.used) as usize);
        data
    }
}

/// The sizing policy of buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSizes {
    min: usize,
    max: usize,
    adaptive: bool,
}

/// Bytes of all adaptive buffers of one type together, as far as their minimum size allows.
const MAX_BYTES_PER_TYPE: usize = 16 << 20;

/// Minimum size of an adaptive buffer: below, the cost per buffer exceeds that of its messages.
const MIN_ADAPTIVE_BYTES: usize = 256;

/// Maximum size of an adaptive buffer: it fits into the cache of the handler, and larger ones only add latency.
const MAX_ADAPTIVE_BYTES: usize = 16 << 10;

impl BufferSizes {
    /// Sizes for messages of `frame` bytes to this number of neighbors.
    pub(crate) fn new(coalescing: Coalescing, frame: usize, neighbors: usize, eager_limit: usize) -> Self {
        let frame = frame.max(1);
        let round_down = |bytes: usize| (bytes / frame).max(1) * frame;
        let fixed = |bytes: usize| Self { min: bytes, max: bytes, adaptive: false };
        match coalescing {
            Coalescing::Messages(count) => fixed(count.saturating_mul(frame)),
            Coalescing::Bytes(bytes) => fixed(round_down(bytes)),
            Coalescing::Adaptive => {
                let per_neighbor = MAX_BYTES_PER_TYPE / neighbors.max(1);
                let max = round_down(MAX_ADAPTIVE_BYTES.min(eager_limit).min(per_neighbor.max(MIN_ADAPTIVE_BYTES)));
                Self { min: round_down(MIN_ADAPTIVE_BYTES).min(max), max, adaptive: true }
            }
        }
    }

    /// The initial size.
    pub(crate) fn initial(&self) -> usize {
        // Streams are more common than single messages, and shrinking is quick.
        self.max
    }

    /// The next size of a buffer that was full.
    #[inline]
    pub(crate) fn after_full(&self, target: usize) -> usize {
        if self.adaptive { (target * 2).min(self.max) } else { target }
    }

    /// The next size of a buffer that was flushed by an idle rank with `used` bytes.
    #[inline]
    pub(crate) fn after_idle(&self, target: usize, used: usize) -> usize {
        if self.adaptive && used < target / 2 { (target / 2).max(self.min) } else { target }
    }
}
