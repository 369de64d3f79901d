//! Runs processes as ranks: starts them, forwards their output, and ends them together.
//!
//! ```text
//! launcher --- supervisor --- rank 0, rank 1, ...   each the leader of its own process group
//! ```
//! One thread does everything, in a loop around poll(2): signals and output arrive through pipes, exits of ranks over
//! the socket to the supervisor, and timeouts exist only during shutdown. The loop relies on:
//!
//! - A rank that has exited is not reaped before the whole job has ended. Its zombie reserves the number of its process
//!   group, so signals to the group can only reach what the rank started.
//! - However `run` returns, by an error or a panic too, dropping the `Job` stops the supervisor, which kills and reaps
//!   the ranks and all that they started, in sessions of their own too.
//! - When the launcher itself is killed, the supervisor does the same.
//!
//! | file | what |
//! |---|---|
//! | `job` | the event loop: start, wait, shut down |
//! | `outcome` | how a job ended, and names of signals |
//! | `output` | forwards whole lines, with labels |
//! | `signals` | signals of the launcher as bytes in a pipe |
//! | `supervisor` | the parent of the ranks, which kills all their descendants |
//! | `pinning` | the core that each rank is pinned to |
//! | `fd_limit` | the limit of file descriptors, for the pipes of many ranks |

mod fd_limit;
mod job;
mod outcome;
mod output;
mod pinning;
mod signals;
mod supervisor;

use std::ffi::OsString;
use std::io;

pub use outcome::{JobOutcome, RankExit, signal_name};

/// A program to run as the ranks of one world on this machine.
///
/// Each rank finds its rank in `TREEPIE_RANK`, the number of ranks in `TREEPIE_SIZE`, and the descriptor of the shared
/// memory in `TREEPIE_ARENA`. The program need not use any of them.
///
/// Rank 0 reads the launcher's standard input unless that is a terminal; the others read `/dev/null`.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The number of ranks.
    pub ranks: u32,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables added to the environment that the ranks inherit.
    pub env: Vec<(OsString, OsString)>,
    /// Whether each rank is bound to a core.
    pub pin: CorePinning,
    /// Whether lines of output carry the number of the rank that wrote them.
    pub label: LabelMode,
    /// Whether the ranks write directly to the launcher's standard output and error: at once, without labels (but for
    /// [`LabelMode::Always`]), and with lines of several ranks mixed. Otherwise every line is forwarded whole.
    pub unbuffered: bool,
}

/// Whether each rank is bound to a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorePinning {
    /// Pin if there is a core for each rank, or the same number of ranks for each core.
    #[default]
    Auto,
    /// The ranks may use every core that the launcher may use.
    Never,
}

/// Whether lines of output begin with `[rank]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelMode {
    /// On each of standard output and standard error, if it is a terminal.
    #[default]
    Auto,
    /// On both.
    Always,
    /// On none.
    Never,
}

/// Why a job could not be run. No process is left, except in the case of [`Stuck`](Self::Stuck).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The number of ranks is 0.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// The program does not exist.
    #[error("program `{}` was not found", program.display())]
    NotFound {
        /// The program.
        program: OsString,
    },
    /// A process could not be started.
    #[error("cannot start `{}` as rank {rank}: {source}", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// The rank.
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
        /// The rank.
        rank: u32,
        /// Its process.
        pid: i32,
    },
}

treepie_base::debug_by_display!(LaunchError);

impl LaunchError {
    /// For `map_err`: a failed system call, `what` for short.
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
            pin: CorePinning::default(),
            label: LabelMode::default(),
            unbuffered: false,
        }
    }
}
