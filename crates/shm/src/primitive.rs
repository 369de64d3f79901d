//! The atomics that rings, bells and claims are made of; tests replace them by loom's.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Who orders a record's publication before the look whether its reader sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fencing {
    /// The writer, each time.
    Writer,
    /// The reader, when it goes to sleep; see `barrier`.
    Sleeper,
}

/// Publishes `value` and orders the store before every later load, so that "publish, then look whether somebody
/// sleeps" and "say that I sleep, then look whether something was published" cannot both miss.
///
/// On x86 one `xchg` is cheaper than a store and an `mfence`. Elsewhere, and for loom, which knows the order of fences
/// but not of sequentially consistent accesses, it is spelled out.
#[inline]
pub(crate) fn publish(word: &AtomicU32, value: u32, fencing: Fencing) {
    let swap = |order| {
        word.swap(value, order);
    };
    publish_by(fencing, |order| word.store(value, order), swap);
}

/// The same for a longer word.
#[inline]
pub(crate) fn publish_word(word: &AtomicU64, value: u64, fencing: Fencing) {
    let swap = |order| {
        word.swap(value, order);
    };
    publish_by(fencing, |order| word.store(value, order), swap);
}

#[inline]
fn publish_by(fencing: Fencing, store: impl FnOnce(Ordering), swap: impl FnOnce(Ordering)) {
    if fencing == Fencing::Sleeper {
        store(Ordering::Release);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    } else if cfg!(all(target_arch = "x86_64", not(loom))) {
        swap(Ordering::SeqCst);
    } else {
        store(Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// Asks for the line of an address, to be written soon.
///
/// Spelled out: for the intrinsic the compiler takes the prefetch for reading unless it is told that the processor has
/// this one, and a line fetched for reading has to be fetched again for writing.
#[cfg(not(loom))]
#[inline]
pub(crate) fn fetch_for_write(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect on memory; processors that do not know this instruction skip it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
