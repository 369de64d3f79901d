//! Search depth: counts the queue entries examined, in builds with debug assertions. Tests use it to show, without a
//! clock, that the cost of a message does not depend on queue lengths.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the examination of a queue entry, or of a bin that may hold one.
#[inline(always)]
pub fn count_step() {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + 1);
    }
}

/// The number of steps of this thread so far.
pub fn steps() -> u64 {
    STEPS.get()
}
