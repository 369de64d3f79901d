//! Parking a rank until it is notified, without a system call for notifiers that find nobody parked.
//!
//! A rank that has nothing to do sets its `parked` word, checks once more for work, and only then waits on that word.
//! Whoever makes work for a rank (publishes a record, frees space, acknowledges) does so first and then reads the word.
//! Both sides order "store, then load the other's word", so at least one of them sees the other: either the parking
//! rank finds the work, or the notifier finds the rank parked and unparks it.

use std::time::Duration;

use crate::primitive::{AtomicU32, Ordering, fence};

/// The futex word on which a rank parks.
#[repr(C)]
pub(crate) struct Doorbell {
    parked: AtomicU32,
}

impl Doorbell {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0) }
    }

    /// Parks without setting the word: for the model that shows that the word is needed.
    #[cfg(loom)]
    pub(crate) fn park_unflagged(&self, fence: impl FnOnce(), mut has_work: impl FnMut() -> bool) {
        fence();
        if !has_work() {
            // Only a notification ends the wait.
            let seen = self.parked.load(Ordering::Acquire);
            futex::wait(&self.parked, seen, Duration::MAX);
        }
    }

    /// Unparks the rank if it is parked. The caller has ordered its writes before this by [`publish`] or a fence.
    ///
    /// [`publish`]: crate::primitive::publish
    #[inline]
    pub(crate) fn notify_after_publish(&self) {
        if self.parked.load(Ordering::Relaxed) != 0 {
            self.unpark();
        }
    }

    /// Unparks the rank if it is parked.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        self.notify_after_publish();
    }

    #[cold]
    fn unpark(&self) {
        // Only one of several notifiers needs to make the system call.
        if self.parked.swap(0, Ordering::AcqRel) != 0 {
            futex::wake(&self.parked);
        }
    }

    /// Parks until notified, at most `limit`, unless `has_work` returns true. `fence` must order the stores of other
    /// ranks before their loads, as far as they do not do so themselves.
    pub(crate) fn park(&self, limit: Duration, fence: impl FnOnce(), mut has_work: impl FnMut() -> bool) {
        self.parked.store(1, Ordering::Relaxed);
        fence();
        if !has_work() {
            futex::wait(&self.parked, 1, limit);
        }
        self.parked.store(0, Ordering::Relaxed);
    }
}

/// The number of ranks that are parked or about to park. A rank that publishes for all ranks reads this before it reads
/// the doorbell of each. A rank that was killed while parked stays counted, which only costs those reads.
#[repr(C)]
pub(crate) struct ParkedCount(AtomicU32);

impl ParkedCount {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether any rank may be parked. The caller has ordered its writes before this, as for
    /// [`notify_after_publish`](Doorbell::notify_after_publish).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Counts the caller during `park`. The fence of [`Doorbell::park`] orders the count before the last check for
    /// work.
    pub(crate) fn while_parked(&self, park: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::Relaxed);
        park();
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
        // Woken, timed out, interrupted or too late: the caller checks again in every case.
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
