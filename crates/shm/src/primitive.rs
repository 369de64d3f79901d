//! The atomics of rings, doorbells and claims; tests replace them by loom's.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Who orders the publication of a record before the load of its reader's doorbell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceMode {
    /// The writer, each time.
    Symmetric,
    /// The reader, when it parks; see `membarrier`.
    Asymmetric,
}

/// Publishes `value` and orders the store before every later load, so that "publish, then test whether the reader is
/// parked" and "set parked, then test whether something was published" cannot both miss.
///
/// On x86 one `xchg` is cheaper than a store and an `mfence`. Elsewhere, and for loom, which models fences but not the
/// order of sequentially consistent accesses, both are written out.
#[inline]
pub(crate) fn publish(word: &AtomicU32, value: u32, fence_mode: FenceMode) {
    let swap = |order| {
        word.swap(value, order);
    };
    publish_with(fence_mode, |order| word.store(value, order), swap);
}

/// Like [`publish`], for 64 bits.
#[inline]
pub(crate) fn publish_u64(word: &AtomicU64, value: u64, fence_mode: FenceMode) {
    let swap = |order| {
        word.swap(value, order);
    };
    publish_with(fence_mode, |order| word.store(value, order), swap);
}

#[inline]
fn publish_with(fence_mode: FenceMode, store: impl FnOnce(Ordering), swap: impl FnOnce(Ordering)) {
    if fence_mode == FenceMode::Asymmetric {
        store(Ordering::Release);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    } else if cfg!(all(target_arch = "x86_64", not(loom))) {
        swap(Ordering::SeqCst);
    } else {
        store(Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// Prefetches the cache line of an address for writing.
///
/// Written in assembly: for the intrinsic the compiler emits a prefetch for reading unless it is told that the
/// processor has this one, and a line fetched for reading has to be fetched again for writing.
#[cfg(not(loom))]
#[inline]
pub(crate) fn prefetch_for_write(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect on memory; processors that do not know this instruction skip it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
