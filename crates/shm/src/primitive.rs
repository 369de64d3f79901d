//! The atomics that rings, bells and claims are made of; tests replace them by loom's.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Publishes `value` and orders the store before every later load, so that "publish, then look whether somebody
/// sleeps" and "say that I sleep, then look whether something was published" cannot both miss.
///
/// On x86 one `xchg` is cheaper than a store and an `mfence`. Loom knows the order of fences but not of sequentially
/// consistent accesses, so there it is spelled out.
#[inline]
pub(crate) fn publish(word: &AtomicU32, value: u32) {
    #[cfg(not(loom))]
    word.swap(value, Ordering::SeqCst);
    #[cfg(loom)]
    {
        word.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}
