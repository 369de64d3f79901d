//! Handles a process that exits without finalizing: main has returned, or exit was called, while handles of the world
//! are still alive or were forgotten.
//!
//! MPI would let the others wait for ever, or would end them without a reason. So this aborts the job, and names the
//! rank.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::shim::AbortHandle;

/// The exit status of a job in which a rank exited without finalizing.
pub(crate) const EXIT_WITHOUT_FINALIZE: i32 = 1;

/// The rank, its pid and the handle to abort the job.
static RANK_INFO: OnceLock<(i32, u32, AbortHandle)> = OnceLock::new();

/// Whether this process has joined its world and has not finalized.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// GNU C library: as atexit, and passes the status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// From now on an exit of this process aborts the job.
pub(crate) fn arm(rank: i32, abort_handle: AbortHandle) {
    if RANK_INFO.set((rank, std::process::id(), abort_handle)).is_ok() {
        // If it fails, or in another C library, MPI handles the exit.
        #[cfg(target_env = "gnu")]
        // SAFETY: registers a function that may be called at any exit.
        unsafe {
            on_exit(exit_handler, ptr::null_mut())
        };
    }
    INITIALIZED.store(true, Ordering::SeqCst);
}

/// From now on an exit is regular.
pub(crate) fn disarm() {
    INITIALIZED.store(false, Ordering::SeqCst);
}

extern "C" fn exit_handler(status: c_int, _: *mut c_void) {
    let Some((rank, process, abort_handle)) = RANK_INFO.get() else { return };
    // A child that a rank forked has the handler too, and is not a rank.
    if *process != std::process::id() || !INITIALIZED.swap(false, Ordering::SeqCst) {
        return;
    }
    let line = match status {
        0 => format!(
            "treepie: rank {rank} exited without finalizing: drop all handles of its world before main returns\n"
        ),
        status => format!("treepie: rank {rank} exited with status {status}\n"),
    };
    // Standard output was flushed when the exit began. Another thread may hold its lock, so this does not flush again.
    abort_job(*abort_handle, &line, if status == 0 { EXIT_WITHOUT_FINALIZE } else { status })
}

/// Aborts the job, and prints which rank does so and why: MPI's own message may not name it, and may be lost.
pub(crate) fn abort(abort_handle: AbortHandle, line: &str, code: i32) -> ! {
    disarm();
    // MPI ends the process at once. What cannot be written now is lost and cannot be reported.
    let _ = std::io::stdout().flush();
    abort_job(abort_handle, line, code)
}

fn abort_job(abort_handle: AbortHandle, line: &str, code: i32) -> ! {
    let _ = std::io::stderr().write_all(line.as_bytes());
    wait_until_drained();
    abort_handle.abort(code)
}

/// Waits until the launcher has read everything: MPICH's discards unread output when a job is aborted.
fn wait_until_drained() {
    const MOST: u32 = 1000;
    for _ in 0..MOST {
        // The unread bytes of a pipe; a regular file or a terminal may return anything, which at most delays this.
        let unread = [rustix::io::ioctl_fionread(std::io::stdout()), rustix::io::ioctl_fionread(std::io::stderr())];
        if !unread.iter().any(|bytes| matches!(bytes, Ok(1..))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
