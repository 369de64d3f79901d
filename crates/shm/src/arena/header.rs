//! The beginning of an arena.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Parameters of the world, written once by its creator, and the few words that all ranks share.
#[repr(C, align(64))]
pub(crate) struct ArenaHeader {
    pub(super) magic: u64,
    /// A random number that tells the memory of a segment from others; 0 in that of a world.
    pub(super) nonce: u64,
    pub(crate) ranks: u32,
    /// The most ranks that share a segment.
    pub(super) segment_members: u32,
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
}
