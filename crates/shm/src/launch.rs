//! Processes as ranks: starts them, passes their output on, and sees to it that they end together.
//!
//! ```text
//! launcher --- guardian --- rank 0, rank 1, ...   each the leader of its own process group
//! ```
//! One thread does everything, in a loop around poll(2): signals and output arrive through pipes, ends of ranks over the line
//! to the guardian, and time passes only while ranks are being ended. What the loop may rely on:
//!
//! - A rank that ended is not reaped before the whole job has ended. Its zombie keeps the number of its process group
//!   from being given to anybody else, so signals to the group can only reach what the rank started.
//! - Whatever way `run` is left, by an error or a panic too, dropping the `Job` ends the guardian, and that kills and reaps
//!   the ranks and all that they started, in sessions of their own too.
//! - When the launcher itself is killed, the guardian does the same.
//!
//! | file | what |
//! |---|---|
//! | `job` | the loop: start, reap, end |
//! | `outcome` | how a job ended, and names of signals |
//! | `output` | whole lines, with labels |
//! | `signals` | signals of the launcher as bytes in a pipe |
//! | `guardian` | the parent of the ranks, which leaves nothing of them |
//! | `place` | which core each rank is pinned to |
//! | `descriptors` | enough descriptors for the pipes of many ranks |

mod descriptors;
mod guardian;
mod job;
mod outcome;
mod output;
mod place;
mod signals;

use std::ffi::OsString;
use std::io::{self, Write};

pub use outcome::{End, Outcome, signal_name};

use crate::Arena;
use job::Job;

/// A program to be run as ranks of one world on this machine.
///
/// Each rank finds its number in `TREEPIE_RANK`, how many there are in `TREEPIE_SIZE`, and the descriptor of the
/// shared memory in `TREEPIE_ARENA`. The program need not use any of them.
///
/// Rank 0 reads the launcher's standard input unless that is a terminal; the others read nothing.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How many processes.
    pub ranks: u32,
    /// What to start: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Added to the environment that the ranks inherit.
    pub env: Vec<(OsString, OsString)>,
    /// Whether each rank is bound to a core.
    pub pin: Pin,
    /// Whether lines of output carry the number of the rank that wrote them.
    pub label: Label,
    /// Whether the ranks write straight to the launcher's standard output and error: at once, without labels (but for
    /// [`Label::Always`]), and with lines of several ranks mixed. Otherwise every line comes out whole.
    pub unbuffered: bool,
}

/// Whether each rank is bound to a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// If there is a core for each rank, or the same number of ranks for each core.
    #[default]
    Auto,
    /// The ranks may use every core that the launcher may use.
    Never,
}

/// Whether lines of output begin with `[rank]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// On each of standard output and standard error, if it is a terminal.
    #[default]
    Auto,
    /// On both.
    Always,
    /// On none.
    Never,
}

/// Why a job could not be run. Nothing that was started is left, except in the case of [`Stuck`](Self::Stuck).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No ranks were asked for.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// The program does not exist.
    #[error("program `{}` was not found", program.display())]
    NotFound {
        /// What was looked for.
        program: OsString,
    },
    /// A process could not be started.
    #[error("cannot start `{}` as rank {rank}: {source}", program.display())]
    Start {
        /// What was to be started.
        program: OsString,
        /// Which of the ranks.
        rank: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something that a job needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A rank was killed and does not end; it hangs in the kernel, for example on a file server that does not answer.
    #[error("rank {rank} (process {pid}) does not end although it was killed")]
    Stuck {
        /// Which rank.
        rank: u32,
        /// Its process.
        pid: i32,
    },
}

treepie_base::debug_by_display!(LaunchError);

impl LaunchError {
    /// For `map_err`: the system refused to `what`.
    fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

impl Launch {
    /// `ranks` processes of `program`, without arguments, everything else by default.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        Self {
            ranks,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            pin: Pin::default(),
            label: Label::default(),
            unbuffered: false,
        }
    }

    /// Starts the ranks and returns when all have ended.
    ///
    /// The job goes on while ranks exit with status 0. The first that fails, or SIGINT, SIGTERM or SIGHUP to this
    /// process, ends it: the others have a moment to end by themselves, then they are asked to by SIGTERM, then they
    /// are killed, all within two seconds. Processes that a rank started end with the job, whatever session they are in.
    ///
    /// For the time of the call this process handles these signals (those that it does not ignore) and SIGTSTP; then
    /// everything is as before.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        if self.ranks == 0 {
            return Err(LaunchError::NoRanks);
        }
        // What this process has printed so far belongs before what the ranks print. If it cannot be written, the
        // ranks' output can still.
        let _ = io::stdout().flush();
        let arena = Arena::create_for_processes(self.ranks)
            .map_err(LaunchError::system("make the shared memory of the ranks"))?;
        let mut job = Job::new(self, &arena)?;
        job.start()?;
        job.watch()?;
        job.finish()
    }
}
