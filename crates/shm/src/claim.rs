//! One transfer, two copiers: sender and receiver claim chunks of it until none is left.
//!
//! The cell belongs to the receiver. `next` carries a generation above the chunk number, so that a sender that comes
//! late, when the cell serves another transfer, claims nothing there. The receiver ends the transfer only when as many
//! chunks are done as there are, so a claimed chunk is never taken back while its copier still writes.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The state that both sides of a transfer share.
#[repr(C)]
pub(crate) struct Claim {
    next: AtomicU64,
    done: AtomicU32,
    unused: u32,
}

impl Claim {
    /// Begins a new transfer and returns its generation. Only the receiver does this, when the last one has ended.
    pub(crate) fn open(&self) -> u32 {
        let generation = ((self.next.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        self.done.store(0, Ordering::Relaxed);
        self.next.store(u64::from(generation) << 32, Ordering::Release);
        generation
    }

    /// Takes a chunk that nobody has taken, while the transfer is of this generation.
    pub(crate) fn take(&self, generation: u32, chunks: u32) -> Option<u32> {
        let mut seen = self.next.load(Ordering::Acquire);
        loop {
            let chunk = seen as u32;
            if (seen >> 32) as u32 != generation || chunk >= chunks {
                return None;
            }
            match self.next.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether a chunk is left to take.
    #[cfg(not(loom))]
    pub(crate) fn claimable(&self, generation: u32, chunks: u32) -> bool {
        let seen = self.next.load(Ordering::Acquire);
        (seen >> 32) as u32 == generation && (seen as u32) < chunks
    }

    /// Says that a chunk that was taken has been copied.
    pub(crate) fn finish_one(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Chunks that have been copied.
    pub(crate) fn finished(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(0), done: AtomicU32::new(0), unused: 0 }
    }
}
