//! One transfer, two copiers: sender and receiver claim chunks of it until none is left.
//!
//! The cell belongs to the receiver, and holds the address of its memory and the rank that may write there. `next`
//! carries a generation above the chunk number, so that a late sender, when the cell serves another transfer, claims
//! nothing there. The receiver ends the transfer only when all claimed chunks are completed, so its memory is never
//! freed while a copier writes.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use crate::registry::{AtomicMemoryRegion, MemoryRegion, next_generation};

/// The state that both sides of a transfer share.
#[repr(C)]
pub(crate) struct Claim {
    next: AtomicU64,
    done: AtomicU32,
    unused: u32,
    /// The receiver's memory and the sender.
    entry: AtomicMemoryRegion,
}

/// `next` of a finished transfer.
const FINISHED: u32 = u32::MAX;

/// What a sender finds under the generation of a CTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CtsState {
    /// No CTS with this generation was ever sent.
    Unknown,
    /// The transfer is finished.
    Finished,
    /// The receiver's memory, and who may write there.
    Open(MemoryRegion),
}

impl Claim {
    /// Begins a new transfer and returns its generation. Only the receiver calls this, after the last transfer is
    /// finished.
    pub(crate) fn open(&self, entry: MemoryRegion) -> u32 {
        let generation = next_generation((self.next.load(Ordering::Relaxed) >> 32) as u32);
        self.entry.set(entry);
        self.done.store(0, Ordering::Relaxed);
        self.next.store(u64::from(generation) << 32, Ordering::Release);
        generation
    }

    /// Ends the transfer: no further chunk can be claimed. Returns how many of `chunks` have been claimed.
    pub(crate) fn close(&self, chunks: u32) -> u32 {
        chunks.min(self.next.fetch_or(FINISHED.into(), Ordering::AcqRel) as u32)
    }

    /// The state of the transfer of a generation.
    pub(crate) fn cts_state(&self, generation: u32) -> CtsState {
        let goes_on = |next: u64| (next >> 32) as u32 == generation && next as u32 != FINISHED;
        let now = || self.next.load(Ordering::Acquire);
        let seen = now();
        let ahead = generation.wrapping_sub((seen >> 32) as u32).cast_signed();
        if generation == 0 || ahead > 0 {
            return CtsState::Unknown;
        }
        let entry = if goes_on(seen) { self.entry.get_if(|| goes_on(now())) } else { None };
        entry.map_or(CtsState::Finished, CtsState::Open)
    }

    /// Claims the next chunk, if the transfer is of this generation.
    pub(crate) fn claim_next(&self, generation: u32, chunks: u32) -> Option<u32> {
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

    /// Whether a chunk is left to claim.
    #[cfg(not(loom))]
    pub(crate) fn has_unclaimed(&self, generation: u32, chunks: u32) -> bool {
        let seen = self.next.load(Ordering::Acquire);
        (seen >> 32) as u32 == generation && (seen as u32) < chunks
    }

    /// Counts a claimed chunk as copied.
    pub(crate) fn complete_chunk(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Chunks that have been copied.
    pub(crate) fn completed_chunks(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(0), done: AtomicU32::new(0), unused: 0, entry: AtomicMemoryRegion::new() }
    }
}
