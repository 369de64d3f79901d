//! The supervisor process, from fork to exit: only system calls, no allocation, no lock, no panic.

use std::{mem, ptr};

use treepie_base::atomic_file::TemporaryFileList;

use super::super::RankExit;
use super::children;
use super::program::{self, Program};

/// How long to continue killing. A process that has not exited by then hangs in the kernel.
const KILL_TIMEOUT_MS: i64 = 2_000;
/// How long to wait for processes that cannot be killed: another user's, or not to be found without /proc.
const UNKILLABLE_TIMEOUT_MS: i64 = 100;
/// Descriptors above this number are not closed; a launcher has two for each rank.
const MAX_FDS: u64 = 1 << 20;
/// Interval of reaping orphans that have exited.
const REAP_INTERVAL_MS: i64 = 100;

/// A message between launcher and supervisor.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct SupervisorMessage {
    pub(super) kind: u32,
    pub(super) rank: u32,
    /// A core, a pid, an error number, a status or a signal.
    pub(super) value: i32,
}

impl SupervisorMessage {
    pub(super) const START: u32 = 1;
    pub(super) const STARTED: u32 = 2;
    pub(super) const REFUSED: u32 = 3;
    pub(super) const EXITED: u32 = 4;
    pub(super) const KILLED: u32 = 5;
    /// The value that stands for any core.
    pub(super) const ANY_CORE: i32 = -1;

    /// The exit of a rank, if the message reports one.
    pub(super) fn rank_exit(self) -> Option<(u32, RankExit)> {
        match self.kind {
            Self::EXITED => Some((self.rank, RankExit::Exited(self.value))),
            Self::KILLED => Some((self.rank, RankExit::Killed(self.value))),
            _ => None,
        }
    }
}

/// A buffer for a control message with a rank's three descriptors.
#[repr(C, align(8))]
pub(super) struct CmsgBuffer([u8; 64]);

impl CmsgBuffer {
    pub(super) fn new() -> Self {
        Self([0; 64])
    }

    /// A message header with this iovec and the buffer for the descriptors.
    pub(super) fn message(&mut self, iov: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: zeros are a valid message header, without anything.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = iov;
        message.msg_iovlen = 1;
        message.msg_control = self.0.as_mut_ptr().cast();
        // SAFETY: computes a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(3 * mem::size_of::<i32>() as u32) } as _;
        message
    }
}

/// A rank that was started.
#[derive(Clone, Copy, Default)]
pub(super) struct RankProcess {
    /// Its pid, and the number of its group; 0 if it was not started.
    pid: i32,
    has_exited: bool,
}

/// The main loop: starts ranks and reports their exits until the socket is closed, then kills all children.
pub(super) fn supervise(socket: i32, temporaries: i32, program: &mut Program, ranks: &mut [RankProcess]) -> ! {
    // SAFETY: these are system calls on descriptors and memory of this process, which does nothing else. The numbers
    // that are signalled are those of its children.
    unsafe {
        // Out of the terminal's foreground group, but in its session, so that ranks can still use the terminal.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, c"treepie-guard".as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        // The launcher may ignore it, and then exits of children would be lost.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        close_all_but([socket, temporaries, program.arena()]);
        let sigchld = sigchld_fd();
        let mut last_reap = now_ms();
        loop {
            let mut poll_fds = [
                libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: sigchld, events: libc::POLLIN, revents: 0 },
            ];
            // Without a signalfd, exits are polled for.
            libc::poll(poll_fds.as_mut_ptr(), 2, if sigchld < 0 { 100 } else { -1 });
            if sigchld < 0 || poll_fds[1].revents != 0 {
                // The signals do not matter: `waitid` returns the exits.
                let mut signals = [0_u8; 2048];
                libc::read(sigchld, signals.as_mut_ptr().cast(), signals.len());
                if !report_exits(socket, ranks) && now_ms() - last_reap >= REAP_INTERVAL_MS {
                    reap_orphans(ranks);
                    last_reap = now_ms();
                }
            }
            if poll_fds[0].revents != 0 && !start_requested_rank(socket, program, ranks) {
                break;
            }
        }
        kill_all_children(ranks);
        remove_temporaries(temporaries);
        libc::_exit(0)
    }
}

/// Starts the rank that the launcher requests. False if the socket is closed.
fn start_requested_rank(socket: i32, program: &mut Program, ranks: &mut [RankProcess]) -> bool {
    let mut message = SupervisorMessage::default();
    let mut control = CmsgBuffer::new();
    let mut iov =
        libc::iovec { iov_base: ptr::from_mut(&mut message).cast(), iov_len: mem::size_of::<SupervisorMessage>() };
    let mut header = control.message(&mut iov);
    let mut streams = [-1_i32; 3];
    // SAFETY: the header refers to a `SupervisorMessage` and to a buffer for descriptors, which may hold any bytes. The
    // descriptors are read only if they were received.
    unsafe {
        let received = libc::recvmsg(socket, &mut header, libc::MSG_CMSG_CLOEXEC);
        if received < 0 && matches!(*libc::__errno_location(), libc::EINTR | libc::EAGAIN) {
            return true;
        }
        if received != mem::size_of::<SupervisorMessage>() as isize || message.kind != SupervisorMessage::START {
            return false;
        }
        let head = libc::CMSG_FIRSTHDR(&header);
        if head.is_null() || (*head).cmsg_len as usize != libc::CMSG_LEN(mem::size_of_val(&streams) as u32) as usize {
            return false;
        }
        ptr::copy_nonoverlapping(libc::CMSG_DATA(head).cast(), streams.as_mut_ptr(), streams.len());
    }
    let answer = match program::spawn_rank(program, message.rank, message.value, streams) {
        Ok(pid) => {
            if let Some(process) = ranks.get_mut(message.rank as usize) {
                *process = RankProcess { pid, has_exited: false };
            }
            SupervisorMessage { kind: SupervisorMessage::STARTED, rank: message.rank, value: pid }
        }
        Err(error) => SupervisorMessage { kind: SupervisorMessage::REFUSED, rank: message.rank, value: error },
    };
    for stream in streams {
        // SAFETY: they were received just now and belong to nobody else.
        unsafe { libc::close(stream) };
    }
    send_message(socket, &answer)
}

/// Reports the ranks that have exited, which stay zombies. Returns whether there were any.
fn report_exits(socket: i32, ranks: &mut [RankProcess]) -> bool {
    let mut any = false;
    for (rank, process) in ranks.iter_mut().enumerate().filter(|(_, process)| process.pid > 0 && !process.has_exited) {
        // SAFETY: zeros are valid, and mean that nothing is known.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: asks about a child; `info` receives the answer, whose fields are those of an exited child.
        let (pid, status) = unsafe {
            libc::waitid(libc::P_PID, process.pid as libc::id_t, &mut info, options);
            (info.si_pid(), info.si_status())
        };
        if pid == process.pid {
            process.has_exited = true;
            any = true;
            let kind =
                if info.si_code == libc::CLD_EXITED { SupervisorMessage::EXITED } else { SupervisorMessage::KILLED };
            send_message(socket, &SupervisorMessage { kind, rank: rank as u32, value: status });
        }
    }
    any
}

/// Sends a message; false if the socket is closed.
fn send_message(socket: i32, message: &SupervisorMessage) -> bool {
    loop {
        // SAFETY: sends the bytes of a `SupervisorMessage`.
        let sent = unsafe {
            libc::send(socket, ptr::from_ref(message).cast(), mem::size_of::<SupervisorMessage>(), libc::MSG_NOSIGNAL)
        };
        // SAFETY: reads this thread's own.
        if sent >= 0 || unsafe { *libc::__errno_location() } != libc::EINTR {
            return sent >= 0;
        }
    }
}

/// Reaps orphans of ranks that have exited: zombies would fill the process table in a long job.
fn reap_orphans(ranks: &[RankProcess]) {
    children::for_each_child(|pid, state| {
        if state == b'Z' && !ranks.iter().any(|process| process.pid == pid) {
            // SAFETY: a child of this process that is not a rank.
            unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) };
        }
    });
}

/// Kills children, and the orphans that become children, until there are none.
fn kill_all_children(ranks: &[RankProcess]) {
    // Groups first: mostly that is all there is, and takes one pass.
    for process in ranks.iter().filter(|process| process.pid > 1) {
        // SAFETY: no rank was reaped, so these are groups of the job.
        unsafe { libc::kill(-process.pid, libc::SIGKILL) };
    }
    let since = now_ms();
    let mut pause = 100_000;
    while any_child_is_left() {
        let mut killed = false;
        children::for_each_child(|pid, _| {
            // SAFETY: a child of this process, which nobody but this process reaps.
            killed |= unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
        });
        let limit = if killed { KILL_TIMEOUT_MS } else { UNKILLABLE_TIMEOUT_MS };
        if now_ms() - since > limit {
            return;
        }
        let time = libc::timespec { tv_sec: 0, tv_nsec: pause };
        // SAFETY: sleeps.
        unsafe { libc::nanosleep(&time, ptr::null_mut()) };
        pause = (2 * pause).min(2_000_000);
    }
}

/// Reaps all exited children; whether any are left.
fn any_child_is_left() -> bool {
    loop {
        // SAFETY: all children are this function's to reap from now on.
        match unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } {
            0 => return true,
            1.. => {}
            // SAFETY: reads this thread's own.
            _ if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            _ => return false,
        }
    }
}

/// A signalfd for SIGCHLD, which is blocked.
fn sigchld_fd() -> i32 {
    // SAFETY: the set is initialized before it is used.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    }
}

/// Milliseconds of the monotonic clock.
fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Removes the files of a [`TemporaryFileList`], which nobody writes to any more.
fn remove_temporaries(temporaries: i32) {
    const ENTRY: usize = TemporaryFileList::ENTRY_BYTES;
    let mut path = [0_u8; ENTRY + 1];
    let mut at = ENTRY;
    // SAFETY: reads into memory of this process; the path ends with a zero, the last byte at the latest.
    unsafe {
        while libc::pread(temporaries, path.as_mut_ptr().cast(), ENTRY, at as libc::off_t) == ENTRY as isize {
            if path[0] != 0 {
                libc::unlink(path.as_ptr().cast());
            }
            at += ENTRY;
        }
    }
}

/// Closes the standard streams and every close-on-exec descriptor but for `keep`. The streams become /dev/null, so that
/// received descriptors do not take their numbers (readers of the launcher's output would wait for the supervisor too).
/// The other descriptors are the ranks': `treepie run -n 2 program 3<file`.
fn close_all_but(keep: [i32; 3]) {
    // SAFETY: system calls on descriptors that nobody in this process uses any more. The numbers 0 to 2 are the lowest
    // free ones when /dev/null is opened, as those that stay are above.
    unsafe {
        for stream in 0..3 {
            libc::close(stream);
        }
        for _ in 0..3 {
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        }
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        for descriptor in 3..limit.rlim_cur.min(MAX_FDS) as i32 {
            let flags = libc::fcntl(descriptor, libc::F_GETFD);
            if flags != -1 && flags & libc::FD_CLOEXEC != 0 && !keep.contains(&descriptor) {
                libc::close(descriptor);
            }
        }
    }
}
