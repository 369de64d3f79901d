//! How a job ended.

use std::fmt;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Every rank exited with status 0.
    Success,
    /// A rank failed. Of several, it is the one that was seen first; others may have failed because of it.
    Failed {
        /// The rank.
        rank: u32,
        /// How it ended.
        end: End,
        /// Whether other ranks had not ended by then, so that they were ended.
        others_ended: bool,
    },
    /// The launcher was asked to end by a signal.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

/// The exit status of a Rust program that panics.
const PANICKED: i32 = 101;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(i32),
    /// A signal of this number killed it.
    Killed(i32),
}

impl Outcome {
    /// What the launcher should exit with: 0, the failed rank's status, or 128 + the signal's number.
    pub fn status(&self) -> i32 {
        match *self {
            Self::Success => 0,
            Self::Failed { end: End::Exited(status), .. } => status,
            Self::Failed { end: End::Killed(signal), .. } | Self::Interrupted { signal } => 128 + signal,
        }
    }

    /// Whether every rank exited with status 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Success
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Success => write!(f, "all ranks exited with status 0"),
            Self::Failed { rank, end, others_ended } => {
                write!(f, "rank {rank} {end}")?;
                if others_ended { write!(f, "; the other ranks were ended") } else { Ok(()) }
            }
            Self::Interrupted { signal } => write!(f, "interrupted by {}; all ranks were ended", Named(signal)),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(PANICKED) => write!(f, "exited with status {PANICKED} (a panic)"),
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Killed(signal) => write!(f, "was killed by {}", Named(signal)),
        }
    }
}

/// A signal as people know it: number and name.
struct Named(i32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match signal_name(self.0) {
            Some(name) => write!(f, "signal {} ({name})", self.0),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// The name of a signal, such as `SIGKILL`; real-time signals have none.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGCHLD => "SIGCHLD",
        libc::SIGCONT => "SIGCONT",
        libc::SIGSTOP => "SIGSTOP",
        libc::SIGTSTP => "SIGTSTP",
        libc::SIGTTIN => "SIGTTIN",
        libc::SIGTTOU => "SIGTTOU",
        libc::SIGURG => "SIGURG",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGWINCH => "SIGWINCH",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_follow_the_shell() {
        assert_eq!(Outcome::Success.status(), 0);
        assert_eq!(Outcome::Failed { rank: 2, end: End::Exited(3), others_ended: true }.status(), 3);
        assert_eq!(Outcome::Failed { rank: 2, end: End::Killed(9), others_ended: true }.status(), 137);
        assert_eq!(Outcome::Interrupted { signal: 2 }.status(), 130);
    }

    #[test]
    fn one_line_names_rank_and_signal() {
        let killed = Outcome::Failed { rank: 3, end: End::Killed(9), others_ended: true };
        assert_eq!(killed.to_string(), "rank 3 was killed by signal 9 (SIGKILL); the other ranks were ended");
        let alone = Outcome::Failed { rank: 0, end: End::Exited(3), others_ended: false };
        assert_eq!(alone.to_string(), "rank 0 exited with status 3");
        assert_eq!(End::Killed(40).to_string(), "was killed by signal 40");
        assert_eq!(End::Exited(101).to_string(), "exited with status 101 (a panic)");
        let interrupted = Outcome::Interrupted { signal: 2 };
        assert_eq!(interrupted.to_string(), "interrupted by signal 2 (SIGINT); all ranks were ended");
    }
}
