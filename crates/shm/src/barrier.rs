//! Ordering paid for by those who sleep, not by those who send.
//!
//! A writer must not look whether the reader sleeps before its record is visible, which costs a full fence for every
//! record, and the fence waits until the record's lines have come from the reader's cache: a tenth of a microsecond
//! when they are two. Where ranks have a core each and so hardly ever sleep, the sleeper asks the kernel instead to
//! run a fence on every core that runs a rank (`membarrier`), and writers only keep the compiler from reordering.

use std::sync::atomic::{Ordering, fence};

const QUERY: i32 = 0;
const GLOBAL_EXPEDITED: i32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

fn membarrier(command: i32) -> i64 {
    // SAFETY: this system call takes plain numbers and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Whether the kernel can do it.
pub(crate) fn is_supported() -> bool {
    let wanted = i64::from(GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED);
    let known = membarrier(QUERY);
    known > 0 && known & wanted == wanted
}

/// Lets the fences of others reach this process; until then, and if it fails, its writers must fence themselves.
pub(crate) fn register() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED) == 0
}

/// Fences every registered process that runs now, and this one. False if that could not be done.
pub(crate) fn everywhere() -> bool {
    fence(Ordering::SeqCst);
    membarrier(GLOBAL_EXPEDITED) == 0
}
