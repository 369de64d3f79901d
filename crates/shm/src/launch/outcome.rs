//! How a job ended.

use std::fmt;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobOutcome {
    /// Every rank exited with status 0.
    Success,
    /// A rank failed. Of several, the one seen first; others may have failed in consequence.
    Failed {
        /// The rank.
        rank: u32,
        /// How it ended.
        end: RankExit,
        /// Whether other ranks were still running and were terminated.
        others_terminated: bool,
    },
    /// A signal to the launcher ended the job.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

/// The exit status of a Rust program that panics.
const PANICKED: i32 = 101;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankExit {
    /// It exited with this status.
    Exited(i32),
    /// A signal of this number killed it.
    Killed(i32),
}

impl JobOutcome {
    /// The exit status of the launcher: 0, the failed rank's status, or 128 + the signal's number.
    pub fn status(&self) -> i32 {
        match *self {
            Self::Success => 0,
            Self::Failed { end: RankExit::Exited(status), .. } => status,
            Self::Failed { end: RankExit::Killed(signal), .. } | Self::Interrupted { signal } => 128 + signal,
        }
    }

    /// Whether every rank exited with status 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Success
    }
}

impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Success => write!(f, "all ranks exited with status 0"),
            Self::Failed { rank, end, others_terminated } => {
                write!(f, "rank {rank} {end}")?;
                if others_terminated { write!(f, "; the other ranks were ended") } else { Ok(()) }
            }
            Self::Interrupted { signal } => write!(f, "interrupted by {}; all ranks were ended", SignalDisplay(signal)),
        }
    }
}

impl fmt::Display for RankExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(PANICKED) => write!(f, "exited with status {PANICKED} (a panic)"),
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Killed(signal) => write!(f, "was killed by {}", SignalDisplay(signal)),
        }
    }
}

/// Displays a signal by number and name.
struct SignalDisplay(i32);

impl fmt::Display for SignalDisplay {
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
        assert_eq!(JobOutcome::Success.status(), 0);
        assert_eq!(JobOutcome::Failed { rank: 2, end: RankExit::Exited(3), others_terminated: true }.status(), 3);
        assert_eq!(JobOutcome::Failed { rank: 2, end: RankExit::Killed(9), others_terminated: true }.status(), 137);
        assert_eq!(JobOutcome::Interrupted { signal: 2 }.status(), 130);
    }

    #[test]
    fn one_line_names_rank_and_signal() {
        let killed = JobOutcome::Failed { rank: 3, end: RankExit::Killed(9), others_terminated: true };
        assert_eq!(killed.to_string(), "rank 3 was killed by signal 9 (SIGKILL); the other ranks were ended");
        let alone = JobOutcome::Failed { rank: 0, end: RankExit::Exited(3), others_terminated: false };
        assert_eq!(alone.to_string(), "rank 0 exited with status 3");
        assert_eq!(RankExit::Killed(40).to_string(), "was killed by signal 40");
        assert_eq!(RankExit::Exited(101).to_string(), "exited with status 101 (a panic)");
        let interrupted = JobOutcome::Interrupted { signal: 2 };
        assert_eq!(interrupted.to_string(), "interrupted by signal 2 (SIGINT); all ranks were ended");
    }
}
