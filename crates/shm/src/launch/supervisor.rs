//! The supervisor: a small process between the launcher and the ranks. It starts the ranks, reports their exits to the
//! launcher, and kills all their descendants, also when the launcher is killed.
//!
//! ```text
//! launcher --- supervisor --- rank 0, rank 1, ...
//!                        \--- orphans: what ranks started, once their parents have exited
//! ```
//! The supervisor is the child subreaper of everything below it: whatever a rank starts, in a session of its own or by
//! a double fork too, is a descendant of the supervisor and becomes its child at the latest when the processes in
//! between have exited. So it can kill its children until it has none. It does so when its socket is closed: by the
//! launcher, or by the launcher's death. If the supervisor itself is killed, the kernel kills the ranks (parent-death
//! signal).
//!
//! It reaps no rank before the end. So, while the supervisor lives, the pid of an exited rank is not reused, and the
//! launcher can signal the rank's process group.
//!
//! At its end it also removes the temporary files that ranks have listed ([`TemporaryFileList`]): a writer that is
//! killed cannot.
//!
//! It is forked and does not call exec: there is no program to find, and it shares only memory that it may read. The
//! process that forks it may have other threads, any of which may hold a lock, so the supervisor only makes system
//! calls and accesses memory that was allocated before.
//!
//! | file | what |
//! |---|---|
//! | here | the launcher's end of the socket |
//! | `process` | the supervisor process |
//! | `program` | a rank from fork to exec |
//! | `children` | lists the supervisor's children |

mod children;
mod process;
mod program;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, Rlimit, Signal, WaitOptions, kill_process, waitpid};
use treepie_base::atomic_file::TemporaryFileList;

use super::{Launch, RankExit};
use process::{RankProcess, SupervisorMessage};
use program::Program;

/// A supervisor that takes longer than this to exit is stopped, or hangs in the kernel.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The first descriptor after the standard streams, which ranks replace.
const FIRST_NON_STDIO_FD: i32 = 3;

/// The supervisor process; dropping it ends the process and all that the ranks started.
pub(super) struct Supervisor {
    pid: Pid,
    socket: OwnedFd,
    /// Exits that were reported while the launcher waited for another message.
    pending_exits: VecDeque<(u32, RankExit)>,
    /// The list of temporary files that ranks write to, by its path in this process.
    temporaries: TemporaryFileList,
}

/// The standard streams of a rank.
pub(super) struct StdioFds<'a> {
    pub(super) stdin: BorrowedFd<'a>,
    pub(super) stdout: BorrowedFd<'a>,
    pub(super) stderr: BorrowedFd<'a>,
}

impl Supervisor {
    /// Starts a supervisor for the ranks of a job, which get `fd_limit` as their limit of descriptors if it was raised.
    pub(super) fn start(launch: &Launch, arena: BorrowedFd<'_>, fd_limit: Option<Rlimit>) -> io::Result<Self> {
        let arena = fcntl_dupfd_cloexec(arena, FIRST_NON_STDIO_FD)?;
        let temporaries = TemporaryFileList::new()?;
        let list = fcntl_dupfd_cloexec(&temporaries, FIRST_NON_STDIO_FD)?;
        let mut program = Program::new(launch, arena.as_raw_fd(), &temporaries.path(), fd_limit)?;
        let mut ranks = vec![RankProcess::default(); launch.ranks as usize];
        let (ours, theirs) = socket_pair()?;
        let mask = block_signals();
        // SAFETY: the child only calls `supervise`, which is made for it.
        let pid = match unsafe { libc::fork() } {
            0 => process::supervise(theirs.as_raw_fd(), list.as_raw_fd(), &mut program, &mut ranks),
            pid @ 1.. => Pid::from_raw(pid).ok_or(io::ErrorKind::Other.into()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the mask is this thread's previous mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) };
        Ok(Self { pid: pid?, socket: ours, pending_exits: VecDeque::new(), temporaries })
    }

    /// Requests the start of a rank, on one core or on any, and returns its process, which leads a process group of the
    /// same number.
    pub(super) fn start_rank(&mut self, rank: u32, core: Option<usize>, streams: &StdioFds<'_>) -> io::Result<Pid> {
        self.request_start(rank, core, streams)?;
        loop {
            match self.recv(0)? {
                Some(SupervisorMessage { kind: SupervisorMessage::STARTED, value, .. }) => {
                    return Pid::from_raw(value).ok_or(io::ErrorKind::InvalidData.into());
                }
                Some(SupervisorMessage { kind: SupervisorMessage::REFUSED, value, .. }) => {
                    return Err(io::Error::from_raw_os_error(value));
                }
                Some(message) => self.pending_exits.extend(message.rank_exit()),
                None => {}
            }
        }
    }

    /// Ranks that have exited since the last call. An error means that the supervisor is gone, and the ranks with it.
    pub(super) fn take_exits(&mut self) -> io::Result<Vec<(u32, RankExit)>> {
        while let Some(message) = self.recv(libc::MSG_DONTWAIT)? {
            self.pending_exits.extend(message.rank_exit());
        }
        Ok(self.pending_exits.drain(..).collect())
    }

    fn request_start(&self, rank: u32, core: Option<usize>, streams: &StdioFds<'_>) -> io::Result<()> {
        let core = core.and_then(|core| i32::try_from(core).ok()).unwrap_or(SupervisorMessage::ANY_CORE);
        let mut message = SupervisorMessage { kind: SupervisorMessage::START, rank, value: core };
        let fds = [streams.stdin.as_raw_fd(), streams.stdout.as_raw_fd(), streams.stderr.as_raw_fd()];
        let mut control = process::CmsgBuffer::new();
        let mut iov =
            libc::iovec { iov_base: ptr::from_mut(&mut message).cast(), iov_len: mem::size_of::<SupervisorMessage>() };
        let header = control.message(&mut iov);
        loop {
            // SAFETY: the message refers to a `SupervisorMessage` and to a buffer for a control message of three
            // descriptors, which is filled here; all of it lives until the call returns.
            let sent = unsafe {
                let head = libc::CMSG_FIRSTHDR(&header);
                (*head).cmsg_level = libc::SOL_SOCKET;
                (*head).cmsg_type = libc::SCM_RIGHTS;
                (*head).cmsg_len = libc::CMSG_LEN(mem::size_of_val(&fds) as u32) as _;
                ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(head).cast(), fds.len());
                libc::sendmsg(self.socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL)
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

    /// The supervisor's next message; with `MSG_DONTWAIT` none if there is none.
    fn recv(&self, flags: i32) -> io::Result<Option<SupervisorMessage>> {
        let mut message = SupervisorMessage::default();
        let bytes = mem::size_of::<SupervisorMessage>();
        // SAFETY: receives into a `SupervisorMessage`, which may hold any bytes.
        match unsafe { libc::recv(self.socket.as_raw_fd(), ptr::from_mut(&mut message).cast(), bytes, flags) } {
            0 => Err(io::Error::other("the supervisor process has ended")),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                // A signal to the launcher; the caller retries, and the signal waits in its pipe.
                error if error.kind() == io::ErrorKind::Interrupted && flags == 0 => Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => self.recv(flags),
                error => Err(error),
            },
            _ => Ok(Some(message)),
        }
    }
}

impl AsFd for Supervisor {
    /// Readable when [`take_exits`](Self::take_exits) has something to return.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // SAFETY: a system call on a descriptor of ours. It closes the connection for both ends, whoever else holds a
        // copy.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        let since = Instant::now();
        let mut pause = Duration::from_micros(100);
        // It is a child that nobody else reaps, so the pid is its.
        while matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR)) {
            if since.elapsed() > EXIT_TIMEOUT {
                let _ = kill_process(self.pid, Signal::KILL);
                let _ = waitpid(Some(self.pid), WaitOptions::empty());
                break;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(5));
        }
        // A supervisor that was killed has not done it.
        self.temporaries.remove_files();
    }
}

/// A pair of connected sockets for messages.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors are written, which get one owner each.
    let (ours, theirs) = unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    Ok((fcntl_dupfd_cloexec(&ours, FIRST_NON_STDIO_FD)?, fcntl_dupfd_cloexec(&theirs, FIRST_NON_STDIO_FD)?))
}

/// Blocks every signal in this thread, and so in what it forks: only SIGKILL or the supervisor itself ends the
/// supervisor. Returns the previous mask.
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
