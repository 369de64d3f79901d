//! The guardian: a small process between the launcher and the ranks. It starts the ranks, tells the launcher how they end,
//! and leaves none of their descendants, also when the launcher is killed.
//!
//! ```text
//! launcher --- guardian --- rank 0, rank 1, ...
//!                      \--- orphans: what ranks started, once their parents have ended
//! ```
//! The guardian is the child subreaper of everything below it: whatever a rank starts, in a session of its own or by a
//! double fork too, is a descendant of the guardian and becomes its child at the latest when the processes in between have
//! ended. So it can kill its children until it has none. It does so when its line to the launcher ends: the launcher has
//! closed it, or is dead, however it died. Should the guardian itself be killed, the kernel kills the ranks (parent-death
//! signal).
//!
//! It reaps no rank before the end. So, while the guardian lives, the number of a rank that has ended names nobody else, and
//! the launcher can signal the rank's process group.
//!
//! At its end it also removes the temporary files whose names ranks have listed ([`Temporaries`]): a writer that is killed
//! cannot.
//!
//! It is forked and does not call exec: there is no program to find, and nothing is shared but memory that it may
//! read. The process that forks it may have other threads, one of them may hold any lock, so the guardian only makes
//! system calls and touches memory that was allocated before.
//!
//! | file | what |
//! |---|---|
//! | here | the launcher's end of the line |
//! | `keep` | the guardian's life |
//! | `program` | a rank's life from fork to exec |
//! | `children` | who the guardian's children are |

mod children;
mod keep;
mod program;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, Rlimit, Signal, WaitOptions, kill_process, waitpid};
use treepie_base::atomic_file::Temporaries;

use super::{End, Launch};
use keep::{Kept, Word};
use program::Program;

/// A guardian that takes longer than this to end is stopped, or hangs in the kernel.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Below are the standard streams, which ranks have others of.
const FIRST_FREE: i32 = 3;

/// Ends all that the ranks started, and the guardian, when it is dropped.
pub(super) struct Guardian {
    pid: Pid,
    line: OwnedFd,
    /// Ends that were told while the launcher waited for something else.
    ended: VecDeque<(u32, End)>,
    /// The list that ranks write to, by its path in this process.
    temporaries: Temporaries,
}

/// The standard streams of a rank.
pub(super) struct Streams<'a> {
    pub(super) stdin: BorrowedFd<'a>,
    pub(super) stdout: BorrowedFd<'a>,
    pub(super) stderr: BorrowedFd<'a>,
}

impl Guardian {
    /// Starts a guardian for the ranks of a job, which get `descriptors` as their limit of those if it was raised.
    pub(super) fn start(launch: &Launch, arena: BorrowedFd<'_>, descriptors: Option<Rlimit>) -> io::Result<Self> {
        let arena = fcntl_dupfd_cloexec(arena, FIRST_FREE)?;
        let temporaries = Temporaries::new()?;
        let list = fcntl_dupfd_cloexec(&temporaries, FIRST_FREE)?;
        let mut program = Program::new(launch, arena.as_raw_fd(), &temporaries.path(), descriptors)?;
        let mut ranks = vec![Kept::default(); launch.ranks as usize];
        let (ours, theirs) = line()?;
        let mask = block_signals();
        // SAFETY: the child only calls `keep`, which is made for it.
        let pid = match unsafe { libc::fork() } {
            0 => keep::keep(theirs.as_raw_fd(), list.as_raw_fd(), &mut program, &mut ranks),
            pid @ 1.. => Pid::from_raw(pid).ok_or(io::ErrorKind::Other.into()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the mask is what this thread's mask was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) };
        Ok(Self { pid: pid?, line: ours, ended: VecDeque::new(), temporaries })
    }

    /// Has a rank started, on one core or on any, and returns its process. It leads a process group of the same number.
    pub(super) fn start_rank(&mut self, rank: u32, core: Option<usize>, streams: &Streams<'_>) -> io::Result<Pid> {
        self.ask(rank, core, streams)?;
        loop {
            match self.hear(0)? {
                Some(Word { what: Word::STARTED, value, .. }) => {
                    return Pid::from_raw(value).ok_or(io::ErrorKind::InvalidData.into());
                }
                Some(Word { what: Word::REFUSED, value, .. }) => return Err(io::Error::from_raw_os_error(value)),
                Some(word) => self.ended.extend(word.end()),
                None => {}
            }
        }
    }

    /// Ranks that have ended since the last call. An error says that the guardian is gone, and the ranks with it.
    pub(super) fn ended(&mut self) -> io::Result<Vec<(u32, End)>> {
        while let Some(word) = self.hear(libc::MSG_DONTWAIT)? {
            self.ended.extend(word.end());
        }
        Ok(self.ended.drain(..).collect())
    }

    fn ask(&self, rank: u32, core: Option<usize>, streams: &Streams<'_>) -> io::Result<()> {
        let core = core.and_then(|core| i32::try_from(core).ok()).unwrap_or(Word::ANYWHERE);
        let mut word = Word { what: Word::START, rank, value: core };
        let fds = [streams.stdin.as_raw_fd(), streams.stdout.as_raw_fd(), streams.stderr.as_raw_fd()];
        let mut control = keep::Control::new();
        let mut part = libc::iovec { iov_base: ptr::from_mut(&mut word).cast(), iov_len: mem::size_of::<Word>() };
        let message = control.message(&mut part);
        loop {
            // SAFETY: the message refers to a word and to room for a control message of three descriptors, which is filled
            // here; all of it lives until the call returns.
            let sent = unsafe {
                let head = libc::CMSG_FIRSTHDR(&message);
                (*head).cmsg_level = libc::SOL_SOCKET;
                (*head).cmsg_type = libc::SCM_RIGHTS;
                (*head).cmsg_len = libc::CMSG_LEN(mem::size_of_val(&fds) as u32) as _;
                ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(head).cast(), fds.len());
                libc::sendmsg(self.line.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
            };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// The guardian's next word; with `MSG_DONTWAIT` nothing if there is none.
    fn hear(&self, flags: i32) -> io::Result<Option<Word>> {
        let mut word = Word::default();
        let bytes = mem::size_of::<Word>();
        // SAFETY: receives into a word, which may hold any bytes.
        match unsafe { libc::recv(self.line.as_raw_fd(), ptr::from_mut(&mut word).cast(), bytes, flags) } {
            0 => Err(io::Error::other("the guardian process has ended")),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                // A signal of the launcher's; who waits for an answer asks again, and the signal waits in its pipe.
                error if error.kind() == io::ErrorKind::Interrupted && flags == 0 => Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => self.hear(flags),
                error => Err(error),
            },
            _ => Ok(Some(word)),
        }
    }
}

impl AsFd for Guardian {
    /// Readable when [`ended`](Self::ended) has something to tell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // SAFETY: a system call on a descriptor of ours. The line ends for both, whoever else holds a copy of it.
        unsafe { libc::shutdown(self.line.as_raw_fd(), libc::SHUT_RDWR) };
        let since = Instant::now();
        let mut pause = Duration::from_micros(100);
        // It is a child that nobody else reaps, so the number is its.
        while matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR)) {
            if since.elapsed() > ENDS_WITHIN {
                let _ = kill_process(self.pid, Signal::KILL);
                let _ = waitpid(Some(self.pid), WaitOptions::empty());
                break;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(5));
        }
        // A guardian that was killed has not done it.
        self.temporaries.sweep();
    }
}

/// Two ends of a line of messages.
fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors are written, which get one owner each.
    let (ours, theirs) = unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    Ok((fcntl_dupfd_cloexec(&ours, FIRST_FREE)?, fcntl_dupfd_cloexec(&theirs, FIRST_FREE)?))
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
