//! One transfer, two copiers: sender and receiver claim chunks of it until none is left.
//!
//! The cell belongs to the receiver, and says where its memory lies and who may write there. `next` carries a generation
//! above the chunk number, so that a sender that comes late, when the cell serves another transfer, claims nothing there.
//! The receiver ends the transfer only when as many chunks are done as have been taken, so a claimed chunk is never taken
//! back while its copier still writes.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use crate::registry::{Entry, SharedEntry, next_generation};

/// The state that both sides of a transfer share.
#[repr(C)]
pub(crate) struct Claim {
    next: AtomicU64,
    done: AtomicU32,
    unused: u32,
    /// The receiver's memory, and the sender.
    entry: SharedEntry,
}

/// Number of the next chunk of a transfer that is over.
const OVER: u32 = u32::MAX;

/// What a sender finds that was invited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invitation {
    /// Nobody was ever invited like this.
    Unknown,
    /// The transfer is over.
    Over,
    /// The receiver's memory, and who may write there.
    Open(Entry),
}

impl Claim {
    /// Begins a new transfer and returns its generation. Only the receiver does this, when the last one is over.
    pub(crate) fn open(&self, entry: Entry) -> u32 {
        let generation = next_generation((self.next.load(Ordering::Relaxed) >> 32) as u32);
        self.entry.set(entry);
        self.done.store(0, Ordering::Relaxed);
        self.next.store(u64::from(generation) << 32, Ordering::Release);
        generation
    }

    /// Ends the transfer: nobody takes a chunk any more. Returns how many of so many have been taken.
    pub(crate) fn close(&self, chunks: u32) -> u32 {
        chunks.min(self.next.fetch_or(OVER.into(), Ordering::AcqRel) as u32)
    }

    /// What a sender is invited to by a generation.
    pub(crate) fn invited(&self, generation: u32) -> Invitation {
        let goes_on = |next: u64| (next >> 32) as u32 == generation && next as u32 != OVER;
        let now = || self.next.load(Ordering::Acquire);
        let seen = now();
        let ahead = generation.wrapping_sub((seen >> 32) as u32).cast_signed();
        if generation == 0 || ahead > 0 {
            return Invitation::Unknown;
        }
        let entry = if goes_on(seen) { self.entry.get_if(|| goes_on(now())) } else { None };
        entry.map_or(Invitation::Over, Invitation::Open)
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
        Self { next: AtomicU64::new(0), done: AtomicU32::new(0), unused: 0, entry: SharedEntry::new() }
    }
}
