//! The guardian: a small process that kills what the ranks started, should the launcher be killed.
//!
//! The kernel kills the ranks themselves when the launcher dies, but not their children. The guardian holds one end of
//! a socket; the other is held by the launcher alone and closes when it dies, however it dies. Each rank sends its
//! process number through it between fork and exec, so that its group is known before the rank can start anything.
//!
//! Numbers are never taken back. While the launcher lives it reaps no rank, so none of the numbers can name another
//! group; and before it starts reaping it ends the guardian. Once the launcher is dead the groups are killed at once,
//! and the kernel hands out numbers in turn, so that one which was freed a moment ago is not in use again.
//!
//! It is forked and does not call exec: there is no program to find, and nothing is shared but memory that it may
//! read. The process that forks it may have other threads, one of them may hold any lock, so the guardian only makes
//! system calls and touches memory that was allocated before.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::{mem, ptr};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Ends the guardian when it is dropped.
pub(super) struct Guardian {
    pid: Pid,
    line: OwnedFd,
}

impl Guardian {
    /// Starts a guardian for at most `ranks` process groups.
    pub(super) fn start(ranks: u32) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut groups = vec![0; ranks as usize];
        let mask = block_signals();
        // SAFETY: the child only calls `watch`, which is made for it.
        let pid = match unsafe { libc::fork() } {
            0 => watch(theirs.as_raw_fd(), &mut groups),
            pid @ 1.. => Pid::from_raw(pid).ok_or(io::ErrorKind::Other.into()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the mask is what this thread's mask was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) };
        Ok(Self { pid: pid?, line: ours.into() })
    }

    /// The launcher's end of the line, for [`announce`].
    pub(super) fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // It is a child that nobody else reaps, so the number is its.
        let _ = kill_process(self.pid, Signal::KILL);
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

/// Tells the guardian of the calling process, which leads its process group. Async-signal-safe. A guardian that was
/// killed is no reason not to go on.
pub(super) fn announce(line: BorrowedFd<'_>) {
    // SAFETY: sends 4 initialised bytes; the descriptor is borrowed.
    unsafe {
        let pid = libc::getpid();
        libc::send(line.as_raw_fd(), ptr::from_ref(&pid).cast(), mem::size_of_val(&pid), libc::MSG_NOSIGNAL);
    }
}

/// Blocks every signal in this thread, and so in what it forks: the guardian is to be ended by SIGKILL or its own
/// decision only. Returns the mask that was.
fn block_signals() -> libc::sigset_t {
    let mut all = mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// The guardian's whole life, from fork to exit: only system calls, no allocation, no lock, no panic.
fn watch(line: i32, groups: &mut [i32]) -> ! {
    const LINE: i32 = 0;
    // SAFETY: these are system calls on descriptors and memory of this process, which does nothing else. The numbers
    // are those of process groups that were started for the job (module documentation).
    unsafe {
        // Out of the terminal's reach, and without a hold on any descriptor: readers of the launcher's output would
        // wait for the guardian too.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"treepie-guard".as_ptr());
        libc::dup2(line, LINE);
        close_from(LINE + 1);
        let mut known = 0;
        loop {
            let mut group = 0_i32;
            match libc::read(LINE, ptr::from_mut(&mut group).cast(), mem::size_of::<i32>()) {
                4 => {
                    if let Some(place) = groups.get_mut(known) {
                        *place = group;
                        known += 1;
                    }
                }
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => break,
            }
        }
        for &group in groups.iter().take(known) {
            // 1 would mean every process.
            if group > 1 {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}

/// Closes every descriptor from `first` on. Async-signal-safe.
fn close_from(first: i32) {
    // Kernels before 5.9 have no close_range; there the numbers are tried one by one.
    const TRIED: i32 = 65536;
    // SAFETY: system calls on descriptors that nobody in this process uses any more.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            for descriptor in first..TRIED {
                libc::close(descriptor);
            }
        }
    }
}
