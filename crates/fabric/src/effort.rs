//! How many things were looked at in queues, counted where assertions are: tests show by it that a message costs the same however
//! much waits, without a clock.

use std::cell::Cell;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// A queued thing, or a place where one might be, is looked at.
#[inline(always)]
pub fn look() {
    if cfg!(debug_assertions) {
        LOOKS.set(LOOKS.get() + 1);
    }
}

/// How often this thread has looked at one so far.
pub fn looks() -> u64 {
    LOOKS.get()
}
