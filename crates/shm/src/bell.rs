//! Sleeping until somebody has done something, without a system call for those who find nobody asleep.
//!
//! A rank that has nothing to do sets its `asleep` word, looks once more whether anything has come, and only then
//! sleeps on that word. Whoever does something for a rank (publishes a record, frees room, acknowledges) does it first
//! and then looks at the word. Both sides order "write mine, then read the other's", so at least one of them sees the
//! other: either the sleeper finds the work, or the worker finds the sleeper and wakes it.

use std::time::Duration;

use crate::primitive::{AtomicU32, Ordering, fence};

/// One per rank.
#[repr(C)]
pub(crate) struct Bell {
    asleep: AtomicU32,
}

impl Bell {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicU32::new(0) }
    }

    /// A sleep that does not say so: for the model that shows that saying so is needed.
    #[cfg(loom)]
    pub(crate) fn sleep_unflagged(&self, fence: impl FnOnce(), mut anything: impl FnMut() -> bool) {
        fence();
        if !anything() {
            // Only a ring would end it.
            let rung = self.asleep.load(Ordering::Acquire);
            futex::wait(&self.asleep, rung, Duration::MAX);
        }
    }

    /// Wakes the rank if it sleeps. The caller has ordered its own writes before this by [`publish`] or a fence.
    ///
    /// [`publish`]: crate::primitive::publish
    #[inline]
    pub(crate) fn ring_after_publish(&self) {
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// Wakes the rank if it sleeps.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        self.ring_after_publish();
    }

    #[cold]
    fn wake(&self) {
        // Only one of several that see the sleeper needs to make the system call.
        if self.asleep.swap(0, Ordering::AcqRel) != 0 {
            futex::wake(&self.asleep);
        }
    }

    /// Sleeps until rung, at most `limit`, unless `anything` says that there is something to do already. `fence` is to
    /// order all that others did before all that they do after, as far as they do not do it themselves.
    pub(crate) fn sleep(&self, limit: Duration, fence: impl FnOnce(), mut anything: impl FnMut() -> bool) {
        self.asleep.store(1, Ordering::Relaxed);
        fence();
        if !anything() {
            futex::wait(&self.asleep, 1, limit);
        }
        self.asleep.store(0, Ordering::Relaxed);
    }
}

/// How many ranks sleep or are about to: whoever does something that all may wait for looks here before it looks at the
/// bell of each. A rank that was killed in its sleep stays counted, which only costs those looks.
#[repr(C)]
pub(crate) struct Sleepers(AtomicU32);

impl Sleepers {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether any rank may sleep. The caller has ordered its own writes before this, as for
    /// [`ring_after_publish`](Bell::ring_after_publish).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Counts the caller during `sleep`, which orders this before it looks for the last time: the fence of
    /// [`Bell::sleep`] does.
    pub(crate) fn during(&self, sleep: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::Relaxed);
        sleep();
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
mod futex {
    use rustix::thread::futex::{self, Flags, Timespec};

    use super::*;

    pub(super) fn wait(word: &AtomicU32, while_it_is: u32, limit: Duration) {
        let limit =
            Timespec { tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: limit.subsec_nanos().into() };
        // Woken, timed out, interrupted or too late: the caller looks again in every case.
        let _ = futex::wait(word, Flags::empty(), while_it_is, Some(&limit));
    }

    pub(super) fn wake(word: &AtomicU32) {
        let _ = futex::wake(word, Flags::empty(), 1);
    }
}

#[cfg(loom)]
mod futex {
    //! A futex as loom sees it: it returns when the word has changed. One that never changes is a deadlock, which loom
    //! reports.
    use super::*;

    pub(super) fn wait(word: &AtomicU32, while_it_is: u32, _limit: Duration) {
        while word.load(Ordering::Acquire) == while_it_is {
            loom::thread::yield_now();
        }
    }

    pub(super) fn wake(_word: &AtomicU32) {}
}
