//! The guardian's whole life, from fork to exit: only system calls, no allocation, no lock, no panic.

use std::{mem, ptr};

use treepie_base::atomic_file::Temporaries;

use super::super::End;
use super::children;
use super::program::{self, Program};

/// How long to go on with killing. Who has not ended by then hangs in the kernel.
const KILLS_WITHIN: i64 = 2_000;
/// How long to wait for those that cannot be killed: another user's, or not to be found without /proc.
const WAITS_FOR_OTHERS: i64 = 100;
/// Descriptors above this number are not looked at; a launcher has two for each rank.
const MOST_DESCRIPTORS: u64 = 1 << 20;
/// Orphans that have ended are looked for at most this often.
const SWEEPS_EVERY: i64 = 100;

/// What goes over the line between launcher and guardian.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Word {
    pub(super) what: u32,
    pub(super) rank: u32,
    /// A core, a process, an error number, a status or a signal.
    pub(super) value: i32,
}

impl Word {
    pub(super) const START: u32 = 1;
    pub(super) const STARTED: u32 = 2;
    pub(super) const REFUSED: u32 = 3;
    pub(super) const EXITED: u32 = 4;
    pub(super) const KILLED: u32 = 5;
    /// Instead of a core.
    pub(super) const ANYWHERE: i32 = -1;

    /// The end of a rank, if it tells of one.
    pub(super) fn end(self) -> Option<(u32, End)> {
        match self.what {
            Self::EXITED => Some((self.rank, End::Exited(self.value))),
            Self::KILLED => Some((self.rank, End::Killed(self.value))),
            _ => None,
        }
    }
}

/// Room for a control message with a rank's three descriptors.
#[repr(C, align(8))]
pub(super) struct Control([u8; 64]);

impl Control {
    pub(super) fn new() -> Self {
        Self([0; 64])
    }

    /// A message with this part and room for the descriptors.
    pub(super) fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: zeros are a valid message header, without anything.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = self.0.as_mut_ptr().cast();
        // SAFETY: computes a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(3 * mem::size_of::<i32>() as u32) } as _;
        message
    }
}

/// A rank that was started.
#[derive(Clone, Copy, Default)]
pub(super) struct Kept {
    /// Its process, and the group of the same number; 0 if it was not started.
    pid: i32,
    ended: bool,
}

/// The guardian: starts ranks and tells of their ends until the line ends, then leaves nobody.
pub(super) fn keep(line: i32, list: i32, program: &mut Program, ranks: &mut [Kept]) -> ! {
    // SAFETY: these are system calls on descriptors and memory of this process, which does nothing else. The numbers
    // that are signalled are those of its children.
    unsafe {
        // Out of the terminal's reach, but in its session, so that ranks can still reach the terminal.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, c"treepie-guard".as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        // The launcher's process may ignore it, and then ends of children would be thrown away.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        close_all_but([line, list, program.arena()]);
        let ends = signal_descriptor();
        let mut swept = now();
        loop {
            let mut list = [
                libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: ends, events: libc::POLLIN, revents: 0 },
            ];
            // Without a descriptor for signals, ends are looked for now and then.
            libc::poll(list.as_mut_ptr(), 2, if ends < 0 { 100 } else { -1 });
            if ends < 0 || list[1].revents != 0 {
                // Which signals does not matter: the children themselves tell.
                let mut signals = [0_u8; 2048];
                libc::read(ends, signals.as_mut_ptr().cast(), signals.len());
                if !tell_ends(line, ranks) && now() - swept >= SWEEPS_EVERY {
                    reap_orphans(ranks);
                    swept = now();
                }
            }
            if list[0].revents != 0 && !start_next(line, program, ranks) {
                break;
            }
        }
        end_all(ranks);
        remove_listed(list);
        libc::_exit(0)
    }
}

/// Starts the rank that the launcher asks for. False if the line has ended.
fn start_next(line: i32, program: &mut Program, ranks: &mut [Kept]) -> bool {
    let mut word = Word::default();
    let mut control = Control::new();
    let mut part = libc::iovec { iov_base: ptr::from_mut(&mut word).cast(), iov_len: mem::size_of::<Word>() };
    let mut message = control.message(&mut part);
    let mut streams = [-1_i32; 3];
    // SAFETY: the message refers to a word and to room for descriptors, which may hold any bytes. The descriptors are read
    // only if they came.
    unsafe {
        let received = libc::recvmsg(line, &mut message, libc::MSG_CMSG_CLOEXEC);
        if received < 0 && matches!(*libc::__errno_location(), libc::EINTR | libc::EAGAIN) {
            return true;
        }
        if received != mem::size_of::<Word>() as isize || word.what != Word::START {
            return false;
        }
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null() || (*head).cmsg_len as usize != libc::CMSG_LEN(mem::size_of_val(&streams) as u32) as usize {
            return false;
        }
        ptr::copy_nonoverlapping(libc::CMSG_DATA(head).cast(), streams.as_mut_ptr(), streams.len());
    }
    let answer = match program::start(program, word.rank, word.value, streams) {
        Ok(pid) => {
            if let Some(kept) = ranks.get_mut(word.rank as usize) {
                *kept = Kept { pid, ended: false };
            }
            Word { what: Word::STARTED, rank: word.rank, value: pid }
        }
        Err(error) => Word { what: Word::REFUSED, rank: word.rank, value: error },
    };
    for stream in streams {
        // SAFETY: they were received just now and belong to nobody else.
        unsafe { libc::close(stream) };
    }
    tell(line, &answer)
}

/// Tells of the ranks that have ended, which stay zombies. Returns whether there were any.
fn tell_ends(line: i32, ranks: &mut [Kept]) -> bool {
    let mut any = false;
    for (rank, kept) in ranks.iter_mut().enumerate().filter(|(_, kept)| kept.pid > 0 && !kept.ended) {
        // SAFETY: zeros are valid, and mean that nothing is known.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: asks about a child; `info` has room for the answer, whose fields are those of an ended child.
        let (pid, status) = unsafe {
            libc::waitid(libc::P_PID, kept.pid as libc::id_t, &mut info, options);
            (info.si_pid(), info.si_status())
        };
        if pid == kept.pid {
            kept.ended = true;
            any = true;
            let what = if info.si_code == libc::CLD_EXITED { Word::EXITED } else { Word::KILLED };
            tell(line, &Word { what, rank: rank as u32, value: status });
        }
    }
    any
}

/// False if nobody hears it.
fn tell(line: i32, word: &Word) -> bool {
    loop {
        // SAFETY: sends the bytes of a word.
        let sent = unsafe { libc::send(line, ptr::from_ref(word).cast(), mem::size_of::<Word>(), libc::MSG_NOSIGNAL) };
        // SAFETY: reads this thread's own.
        if sent >= 0 || unsafe { *libc::__errno_location() } != libc::EINTR {
            return sent >= 0;
        }
    }
}

/// Reaps those that ranks left and that have ended: zombies would fill the table of processes in a long job.
fn reap_orphans(ranks: &[Kept]) {
    children::each(|pid, state| {
        if state == b'Z' && !ranks.iter().any(|kept| kept.pid == pid) {
            // SAFETY: a child of this process that is no rank.
            unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) };
        }
    });
}

/// Kills children, and what thereby become children, until there are none.
fn end_all(ranks: &[Kept]) {
    // Groups first: that is all there is, mostly, and one round.
    for kept in ranks.iter().filter(|kept| kept.pid > 1) {
        // SAFETY: no rank was reaped, so these are groups of the job.
        unsafe { libc::kill(-kept.pid, libc::SIGKILL) };
    }
    let since = now();
    let mut pause = 100_000;
    while any_child_is_left() {
        let mut killed = false;
        children::each(|pid, _| {
            // SAFETY: a child of this process, which nobody but this process reaps.
            killed |= unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
        });
        let limit = if killed { KILLS_WITHIN } else { WAITS_FOR_OTHERS };
        if now() - since > limit {
            return;
        }
        let time = libc::timespec { tv_sec: 0, tv_nsec: pause };
        // SAFETY: sleeps.
        unsafe { libc::nanosleep(&time, ptr::null_mut()) };
        pause = (2 * pause).min(2_000_000);
    }
}

/// Reaps all that have ended.
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

/// Readable when a child has ended. The signal is blocked.
fn signal_descriptor() -> i32 {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    }
}

/// Milliseconds since some moment.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Removes the files that a list of [`Temporaries`] names. Nobody writes to it any more.
fn remove_listed(list: i32) {
    const ENTRY: usize = Temporaries::ENTRY;
    let mut path = [0_u8; ENTRY + 1];
    let mut at = ENTRY;
    // SAFETY: reads into memory of this process; the path ends with a zero, the last byte at the latest.
    unsafe {
        while libc::pread(list, path.as_mut_ptr().cast(), ENTRY, at as libc::off_t) == ENTRY as isize {
            if path[0] != 0 {
                libc::unlink(path.as_ptr().cast());
            }
            at += ENTRY;
        }
    }
}

/// Closes the standard streams, which become /dev/null so that what is received does not take their numbers (readers of the
/// launcher's output would wait for the guardian too), and every descriptor that no program is to inherit, but for these. The
/// others are the ranks': `treepie run -n 2 program 3<file`.
fn close_all_but(kept: [i32; 3]) {
    // SAFETY: system calls on descriptors that nobody in this process uses any more. The numbers 0 to 2 are the lowest free ones
    // when /dev/null is opened, as those that stay are above.
    unsafe {
        for stream in 0..3 {
            libc::close(stream);
        }
        for _ in 0..3 {
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        }
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        for descriptor in 3..limit.rlim_cur.min(MOST_DESCRIPTORS) as i32 {
            let flags = libc::fcntl(descriptor, libc::F_GETFD);
            if flags != -1 && flags & libc::FD_CLOEXEC != 0 && !kept.contains(&descriptor) {
                libc::close(descriptor);
            }
        }
    }
}
