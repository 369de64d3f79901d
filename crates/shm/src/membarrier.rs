//! Asymmetric fences: the rank that parks pays for the ordering, not the ranks that send.
//!
//! A writer must not load the reader's doorbell before its record is visible, which costs a full fence for every
//! record, and the fence waits until the record's lines have come from the reader's cache: a tenth of a microsecond for
//! two lines. Where ranks have a core each and so hardly ever park, the parking rank instead asks the kernel to run a
//! fence on every core that runs a rank (`membarrier`), and writers only need a compiler fence.

use std::sync::atomic::{Ordering, fence};

const QUERY: i32 = 0;
const GLOBAL_EXPEDITED: i32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

fn membarrier(command: i32) -> i64 {
    // SAFETY: this system call takes plain numbers and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Whether the kernel supports expedited global fences.
pub(crate) fn is_supported() -> bool {
    let wanted = i64::from(GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED);
    let known = membarrier(QUERY);
    known > 0 && known & wanted == wanted
}

/// Registers this process for the fences of others; until then, and if it fails, its writers must fence themselves.
pub(crate) fn register() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED) == 0
}

/// Fences every registered process that runs now, and this one. False on failure.
pub(crate) fn fence_all() -> bool {
    fence(Ordering::SeqCst);
    membarrier(GLOBAL_EXPEDITED) == 0
}
