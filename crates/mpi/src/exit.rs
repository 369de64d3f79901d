//! A process that exits without leaving its world: main has returned, or somebody called exit, while handles of the world are
//! kept or were forgotten.
//!
//! MPI would have the others wait for it for ever, or would say nothing of why it ends them. So it ends the job, and says which
//! rank it was.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::shim::Aborter;

/// The exit status of a job in which a rank went away without a word.
pub(crate) const VANISHED: i32 = 1;

/// The rank, its process and how to end the job.
static OWN: OnceLock<(i32, u32, Aborter)> = OnceLock::new();

/// Whether this process is in its world.
static INSIDE: AtomicBool = AtomicBool::new(false);

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// Of the GNU C library: as atexit, and tells the status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// From now on an exit of this process is one without leaving.
pub(crate) fn enter(rank: i32, aborter: Aborter) {
    if OWN.set((rank, std::process::id(), aborter)).is_ok() {
        // Should it be refused, or in another C library, an exit is what it was to MPI.
        #[cfg(target_env = "gnu")]
        // SAFETY: registers a function that may be called at any exit.
        unsafe {
            on_exit(exits, ptr::null_mut())
        };
    }
    INSIDE.store(true, Ordering::SeqCst);
}

/// From now on an exit is in order.
pub(crate) fn leave() {
    INSIDE.store(false, Ordering::SeqCst);
}

extern "C" fn exits(status: c_int, _: *mut c_void) {
    let Some((rank, process, aborter)) = OWN.get() else { return };
    // A child that a rank forked has the handler too, and is no rank.
    if *process != std::process::id() || !INSIDE.swap(false, Ordering::SeqCst) {
        return;
    }
    let line = match status {
        0 => format!(
            "treepie: rank {rank} exited without leaving its world: drop all handles of it before main returns\n"
        ),
        status => format!("treepie: rank {rank} exited with status {status}\n"),
    };
    // Standard output was flushed when the exit began. Its lock may be held by another thread, and is not waited for here.
    end_all(*aborter, &line, if status == 0 { VANISHED } else { status })
}

/// Ends all ranks, and says in a line which rank does that and why: the MPI's own words may not name it, and may be lost.
pub(crate) fn abort(aborter: Aborter, line: &str, code: i32) -> ! {
    leave();
    // MPI ends the process at once. What cannot be written now is lost, and there is nobody to tell.
    let _ = std::io::stdout().flush();
    end_all(aborter, line, code)
}

fn end_all(aborter: Aborter, line: &str, code: i32) -> ! {
    let _ = std::io::stderr().write_all(line.as_bytes());
    wait_for_reader();
    aborter.abort(code)
}

/// Waits until the launcher has read everything: MPICH's throws away what it has not read when a job is aborted.
fn wait_for_reader() {
    const MOST: u32 = 1000;
    for _ in 0..MOST {
        // Of a pipe, what is unread; a regular file or a terminal may say anything, and is waited for in vain at most.
        let unread = [rustix::io::ioctl_fionread(std::io::stdout()), rustix::io::ioctl_fionread(std::io::stderr())];
        if !unread.iter().any(|bytes| matches!(bytes, Ok(1..))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
