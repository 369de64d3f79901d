//! The beginning of an arena.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::doorbell::ParkedCount;

/// Parameters of the world, written once by its creator, and the few words that all ranks share.
#[repr(C, align(64))]
pub(crate) struct ArenaHeader {
    pub(super) magic: u64,
    pub(crate) ranks: u32,
    /// Cores that the creator could use; its ranks may be pinned to one each.
    pub(crate) cores: u32,
    /// Whether ranks that park fence the others; see `membarrier`.
    pub(crate) asymmetric_fences: u32,
    /// Whether the ranks are threads of the creator; else they are processes that opened the arena.
    pub(super) has_threads: u32,
    /// Changes when the liveness of any rank changes.
    pub(crate) liveness_epoch: AtomicU32,
    /// The number of ranks that are finalizing, finalized or failed.
    pub(super) departures: AtomicU32,
    /// Offset of the next window in the heap.
    pub(crate) heap_top: AtomicU64,
    /// Offset of the piece of the heap that all ranks have in common; 0 if none has asked for it.
    pub(crate) common_piece: AtomicU64,
    pub(crate) segment: SegmentState,
}

/// State of the shared segment that is read in each round, on a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct SegmentState {
    pub(crate) parked: ParkedCount,
    /// Why the segment was closed: the encoded reason of the first rank that closed it; 0 while it is open.
    pub(crate) abort_reason: AtomicU64,
}
