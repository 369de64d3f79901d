//! Signals to the launcher as bytes in a pipe, during a job.
//!
//! Handlers and a pipe rather than signalfd: a signalfd gets a signal only if every thread of the process blocks it,
//! and a host program with threads of its own (a test runner, say) does not. A handler works in any thread.
//!
//! Jobs may run at the same time in several threads; each has a pipe and all get every signal. The handlers are
//! installed by the first and removed by the last.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, pipe_with};

/// The signals that the launcher handles.
const HANDLED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP];

/// Whether a signal asks the launcher to end its job.
pub(super) fn is_termination_request(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP)
}

/// The pipes that the handler writes to: a descriptor per running job, or `NO_PIPE`.
static PIPES: [AtomicI32; 64] = [const { AtomicI32::new(NO_PIPE) }; 64];
const NO_PIPE: i32 = -1;

/// Handlers that are running now and may hold a descriptor read from `PIPES`.
static HANDLING: AtomicUsize = AtomicUsize::new(0);

/// The process that the handlers work for. In a forked child that has not called exec yet they do nothing.
static OWNER_PID: AtomicI32 = AtomicI32::new(0);

static INSTALLED: Mutex<InstalledHandlers> = Mutex::new(InstalledHandlers { jobs: 0, previous: Vec::new() });

struct InstalledHandlers {
    jobs: usize,
    /// The previous actions of the signals.
    previous: Vec<(i32, libc::sigaction)>,
}

/// Redirects signals to its pipe while it exists.
pub(super) struct Signals {
    reader: OwnedFd,
    slot: &'static AtomicI32,
    /// The previous signal mask of the thread.
    mask: libc::sigset_t,
    /// Must be dropped by the thread whose mask it restores.
    thread: PhantomData<*const ()>,
    /// Only the handler writes to it, by its number in `slot`. Declared last, so that it is closed last.
    _writer: OwnedFd,
}

impl Signals {
    pub(super) fn install() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut installed = lock();
        let slot = PIPES
            .iter()
            .find(|slot| slot.load(Ordering::Relaxed) == NO_PIPE)
            .ok_or_else(|| io::Error::other(format!("{} jobs run in this process already", PIPES.len())))?;
        OWNER_PID.store(std::process::id() as i32, Ordering::SeqCst);
        slot.store(writer.as_raw_fd(), Ordering::SeqCst);
        if installed.jobs == 0 {
            installed.previous = HANDLED.into_iter().filter_map(install_handler).collect();
        }
        installed.jobs += 1;
        drop(installed);
        Ok(Self { reader, slot, mask: unblock(), thread: PhantomData, _writer: writer })
    }

    /// The signals that have arrived since the last call.
    pub(super) fn take(&self) -> Vec<i32> {
        let mut signals = Vec::new();
        let mut bytes = [0; 256];
        while let Ok(count @ 1..) = rustix::io::read(&self.reader, &mut bytes) {
            signals.extend(bytes[..count].iter().map(|&signal| i32::from(signal)));
        }
        signals
    }
}

/// Performs the default action of SIGTSTP: stops this process until it is continued, or does nothing if it has no shell
/// that could continue it.
pub(super) fn stop_self() {
    let _installed = lock();
    // SAFETY: zeros are a valid sigaction: default action, no flags, empty mask.
    let default = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    let mut handler = default;
    // SAFETY: both are valid; `handler` is as the kernel returned it.
    unsafe {
        libc::sigaction(libc::SIGTSTP, &default, &mut handler);
        libc::raise(libc::SIGTSTP);
        libc::sigaction(libc::SIGTSTP, &handler, ptr::null_mut());
    }
}

impl AsFd for Signals {
    /// Readable when [`take`](Signals::take) has something to return.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut installed = lock();
        installed.jobs -= 1;
        if installed.jobs == 0 {
            for (signal, action) in installed.previous.drain(..) {
                // SAFETY: `action` is what the kernel returned for this signal.
                unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
            }
        }
        // SAFETY: `mask` is this thread's previous mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut()) };
        self.slot.store(NO_PIPE, Ordering::SeqCst);
        // The descriptor may be reused as soon as it is closed, so no handler may still be about to write.
        while HANDLING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

fn lock() -> MutexGuard<'static, InstalledHandlers> {
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler for `signal` and returns the previous action, or none if the process ignores the signal, as
/// under nohup: then it stays ignored, here and in the ranks.
fn install_handler(signal: i32) -> Option<(i32, libc::sigaction)> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action only queries; `before` receives the answer, and zeros are a valid sigaction.
    let before = unsafe {
        libc::sigaction(signal, ptr::null(), before.as_mut_ptr());
        before.assume_init()
    };
    if before.sa_sigaction == libc::SIG_IGN {
        return None;
    }
    // SAFETY: zeros are a valid sigaction: default action, no flags, empty mask.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = on_signal as extern "C" fn(i32) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe; see there.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    Some((signal, before))
}

/// Unblocks the handled signals in this thread, and returns its previous mask.
fn unblock() -> libc::sigset_t {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut handled = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are written before they are read, the signals exist.
    unsafe {
        libc::sigemptyset(handled.as_mut_ptr());
        for signal in HANDLED {
            libc::sigaddset(handled.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, handled.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// The signal handler. Async-signal-safe: atomics, getpid and write; errno is preserved.
extern "C" fn on_signal(signal: i32) {
    // SAFETY: the calls are async-signal-safe. A descriptor read from `PIPES` while `HANDLING` is not zero is an open
    // pipe, because its owner removes it from `PIPES` and waits for `HANDLING` to be zero before it closes it.
    unsafe {
        let errno = *libc::__errno_location();
        if libc::getpid() == OWNER_PID.load(Ordering::SeqCst) {
            HANDLING.fetch_add(1, Ordering::SeqCst);
            for pipe in &PIPES {
                let pipe = pipe.load(Ordering::SeqCst);
                if pipe != NO_PIPE {
                    let byte = signal as u8;
                    // A full pipe means that the launcher has thousands of unread signals already.
                    libc::write(pipe, ptr::from_ref(&byte).cast(), 1);
                }
            }
            HANDLING.fetch_sub(1, Ordering::SeqCst);
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_signal_arrives_at_every_job_and_the_action_is_restored() {
        // Under nohup it is ignored, and stays so.
        // SAFETY: the default action of a signal calls no function.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        let first = Signals::install().unwrap();
        let second = Signals::install().unwrap();
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGHUP) };
        for signals in [&first, &second] {
            let mut ready = [PollFd::new(signals, PollFlags::IN)];
            poll(&mut ready, None).unwrap();
            assert!(signals.take().contains(&libc::SIGHUP));
        }
        drop(first);
        drop(second);
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: as in `install_handler`.
        let now = unsafe {
            libc::sigaction(libc::SIGHUP, ptr::null(), now.as_mut_ptr());
            now.assume_init()
        };
        assert_eq!(now.sa_sigaction, libc::SIG_DFL);
    }
}
