//! Memory of windows: ranges of the arena's file beyond its fixed parts.

use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use treepie_base::{Error, Result};
use treepie_fabric::{SharedHeap, SharedMemory};

use crate::arena::Arena;

/// A bump allocator that never reuses an offset: the file is sparse, so released memory costs only addresses, a
/// terabyte of them over the life of a world.
pub(crate) struct Heap {
    arena: Arc<Arena>,
}

impl Heap {
    pub(crate) fn new(arena: Arc<Arena>) -> Self {
        Self { arena }
    }
}

const PAGE: u64 = 4096;

impl Heap {
    /// The length of a window in whole pages, if it was reserved: below the heap lie records and barriers, above it
    /// nothing.
    fn reserved_len(&self, at: u64, bytes: u64) -> Result<u64> {
        let header = self.arena.header();
        let begin = self.arena.layout().bytes() as u64;
        let len = bytes.max(1).checked_next_multiple_of(PAGE);
        let end = len.and_then(|len| at.checked_add(len));
        let is_reserved = at >= begin && end.is_some_and(|end| end <= header.heap_top.load(Ordering::Acquire));
        len.filter(|_| is_reserved && at.is_multiple_of(PAGE))
            .ok_or_else(|| Error::Engine(format!("no window of {bytes} bytes of shared memory is reserved at {at}")))
    }
}

impl SharedHeap for Heap {
    fn reserve(&mut self, bytes: u64) -> Result<u64> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let room = rustix::fs::fstat(self.arena.fd()).map_or(0, |stat| stat.st_size as u64);
        let take = |at: u64| at.checked_add(bytes).filter(|end| *end <= room);
        let reserved = self.arena.header().heap_top.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        reserved.map_err(|_| Error::Engine(format!("no shared memory for a window of {bytes} bytes")))
    }

    fn map_common(&mut self, bytes: u64) -> Result<Rc<dyn SharedMemory>> {
        let common = &self.arena.header().common_piece;
        let at = match common.load(Ordering::Acquire) {
            0 => {
                let reserved = self.reserve(bytes)?;
                // If another rank was first, its piece counts; this one costs only addresses.
                let first =
                    self.arena.header().common_piece.compare_exchange(0, reserved, Ordering::AcqRel, Ordering::Acquire);
                first.map_or_else(|at| at, |_| reserved)
            }
            at => at,
        };
        self.map(at, bytes)
    }

    fn map(&mut self, at: u64, bytes: u64) -> Result<Rc<dyn SharedMemory>> {
        let len = self.reserved_len(at, bytes)? as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, self.arena.fd(), at) }
            .map_err(|e| Error::Engine(format!("a window of {bytes} bytes cannot be mapped: {e}")))?;
        Ok(Rc::new(WindowMapping { base: NonNull::new(base.cast()).expect("mmap returned null"), len }))
    }

    fn release(&mut self, at: u64, bytes: u64) -> Result<()> {
        let len = self.reserved_len(at, bytes)?;
        // If the memory cannot be released now, it goes with the world.
        let _ = fallocate(self.arena.fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len);
        Ok(())
    }
}

struct WindowMapping {
    base: NonNull<u8>,
    len: usize,
}

impl WindowMapping {
    fn check_bounds(&self, at: u64, len: usize) {
        let inside = usize::try_from(at).is_ok_and(|at| at <= self.len && len <= self.len - at);
        assert!(inside, "access of {len} bytes at {at} in a window of {}", self.len);
    }

    /// The word at a multiple of 8 inside the window.
    fn word(&self, at: u64) -> &AtomicU64 {
        self.check_bounds(at, 8);
        assert!(at.is_multiple_of(8));
        // SAFETY: in bounds and aligned (a mapping begins at a page); all ranks access it by atomics only.
        unsafe { self.base.add(at as usize).cast::<AtomicU64>().as_ref() }
    }

    fn byte(&self, at: u64) -> &AtomicU8 {
        self.check_bounds(at, 1);
        // SAFETY: in bounds; all ranks access it by atomics only.
        unsafe { self.base.add(at as usize).cast::<AtomicU8>().as_ref() }
    }

    /// Splits `at..at + len` into leading bytes, whole words, and trailing bytes; returns both ends of the words.
    fn split_at_words(at: u64, len: usize) -> (usize, usize) {
        let head = (at.next_multiple_of(8) - at).min(len as u64) as usize;
        (head, head + (len - head) / 8 * 8)
    }
}

impl SharedMemory for WindowMapping {
    fn load(&self, at: u64, into: &mut [u8]) {
        self.check_bounds(at, into.len());
        let (head, back) = Self::split_at_words(at, into.len());
        for i in (0..head).chain(back..into.len()) {
            into[i] = self.byte(at + i as u64).load(Ordering::Acquire);
        }
        for (i, bytes) in into[head..back].chunks_exact_mut(8).enumerate() {
            let word = self.word(at + (head + i * 8) as u64).load(Ordering::Acquire);
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }

    fn store(&self, at: u64, from: &[u8]) {
        self.check_bounds(at, from.len());
        let (head, back) = Self::split_at_words(at, from.len());
        for i in (0..head).chain(back..from.len()) {
            self.byte(at + i as u64).store(from[i], Ordering::Release);
        }
        for (i, bytes) in from[head..back].chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
            self.word(at + (head + i * 8) as u64).store(word, Ordering::Release);
        }
    }

    fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_add(value, Ordering::AcqRel)
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> u64 {
        let exchanged = self.word(at).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        exchanged.unwrap_or_else(|previous| previous)
    }
}

impl Drop for WindowMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `Heap::map` and is unmapped once, here.
        unsafe { munmap(self.base.as_ptr().cast(), self.len).expect("the mapping exists") }
    }
}
