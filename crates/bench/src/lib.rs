//! `treepie bench`: benchmarks of Treepie alone, or against an MPI or another build in the same run.
//!
//! A benchmark is a list of cases, what Treepie's ranks do for a batch of a case, and a C program that makes the same
//! calls with MPI. `harness/` has all that they share.

#![forbid(unsafe_code)]

/// Prints a line to standard output. Defined before the modules so that all of them can use it.
#[doc(hidden)]
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::print_line(format_args!($($text)*))
    };
}

mod am;
mod bfs;
pub mod choices;
mod collectives;
pub mod diagnostics;
mod exchange;
mod graph;
mod harness;
pub mod job;
pub mod machine;
pub mod mpi;
pub mod network;
pub mod p2p;
pub mod parameters;
mod queues;
mod randomaccess;
pub mod record;
pub mod setting;
mod sim;
pub mod single_copy;
mod split;
mod weak_scaling;

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context;
use clap::ValueEnum;
use treepie_base::{STANDARD_STREAM, environment};
use treepie_emulation::Emulation;

pub use harness::case::Case;
pub use harness::figure::Measure;
pub use harness::launch::{on_threads, program_error};
pub use harness::output::parse;
pub use harness::rank::RankArguments;
pub use harness::table::format_number;
pub use treepie_base::units::parse_number;

/// Benchmark Treepie on this machine, alone or against an MPI or another build
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    P2p(p2p::PointToPoint),
    Collectives(collectives::Collectives),
    Exchange(exchange::ExchangeBench),
    Am(am::Am),
    Graph(graph::GraphBench),
    Bfs(bfs::BfsBench),
    Weak(weak_scaling::WeakScaling),
    Sim(sim::SimBench),
    Split(split::SplitBench),
    Queues(queues::QueueBench),
    #[command(name = "randomaccess")]
    RandomAccess(randomaccess::RandomAccessBench),
    Choices(choices::ChoicesBench),
}

impl Bench {
    /// Runs it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Command::P2p(p2p) => p2p.run(),
            Command::Collectives(collectives) => collectives.run(),
            Command::Exchange(exchange) => exchange.run(),
            Command::Am(am) => am.run(),
            Command::Graph(graph) => graph.run(),
            Command::Bfs(bfs) => bfs.run(),
            Command::Weak(weak) => weak.run(),
            Command::Sim(sim) => sim.run(),
            Command::Split(split) => split.run(),
            Command::Queues(queues) => queues.run(),
            Command::RandomAccess(random_access) => random_access.run(),
            Command::Choices(choices) => choices.run(),
        }
    }
}

/// One rank of a benchmark; the benchmarks launch this very program with such a subcommand.
#[derive(clap::Subcommand)]
#[allow(missing_docs)]
pub enum RankProgram {
    #[command(name = "p2p-rank", hide = true)]
    P2p(RankArguments),
    #[command(name = "collectives-rank", hide = true)]
    Collectives(RankArguments),
    #[command(name = "exchange-rank", hide = true)]
    Exchange(RankArguments),
    #[command(name = "am-rank", hide = true)]
    Am(RankArguments),
    #[command(name = "queues-rank", hide = true)]
    Queues(RankArguments),
    #[command(name = "randomaccess-rank", hide = true)]
    RandomAccess(RankArguments),
    #[command(name = "graph-rank", hide = true)]
    Graph(graph::rank::GraphRank),
    #[command(name = "choices-rank", hide = true)]
    Choices(choices::rank::ChoicesRank),
}

impl RankProgram {
    /// Runs the rank.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Self::P2p(rank) => rank.run::<p2p::Transfers>(),
            Self::Collectives(rank) => rank.run::<collectives::Calls>(),
            Self::Exchange(rank) => rank.run::<exchange::Exchanges>(),
            Self::Am(rank) => rank.run::<am::AmPrograms>(),
            Self::Queues(rank) => rank.run::<queues::Queues>(),
            Self::RandomAccess(rank) => rank.run::<randomaccess::Updates>(),
            Self::Graph(rank) => rank.run(),
            Self::Choices(rank) => rank.run(),
        }
    }
}

/// Rejects an environment variable whose value records would take for the default.
pub fn ensure_unset(variable: &str, option: &str) -> anyhow::Result<()> {
    anyhow::ensure!(std::env::var_os(variable).is_none(), "{variable} is set: unset it and use {option}");
    Ok(())
}

/// Where this process prints what people read: the value of a [`Summary`].
static SUMMARY: AtomicU8 = AtomicU8::new(Summary::StandardOutput as u8);

/// Where what people read is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The default.
    StandardOutput,
    /// As standard output has results that programs read.
    StandardError,
    /// Nowhere.
    None,
}

impl Summary {
    /// Prints it there from now on.
    pub fn set(self) {
        SUMMARY.store(self as u8, Ordering::Relaxed);
    }

    /// Leaves standard output to results, if this is the path of an output file that means it.
    pub fn leave_standard_output_to(path: Option<&Path>) {
        if path == Some(Path::new(STANDARD_STREAM)) && SUMMARY.load(Ordering::Relaxed) == Self::StandardOutput as u8 {
            Self::StandardError.set();
        }
    }
}

/// Prints a line for people. Exits if the reader has closed the pipe.
#[doc(hidden)]
pub fn print_line(line: fmt::Arguments<'_>) {
    let summary = SUMMARY.load(Ordering::Relaxed);
    let printed = if summary == Summary::StandardOutput as u8 {
        writeln!(std::io::stdout(), "{line}")
    } else if summary == Summary::StandardError as u8 {
        writeln!(std::io::stderr(), "{line}")
    } else {
        Ok(())
    };
    if let Err(error) = printed {
        if error.kind() != ErrorKind::BrokenPipe {
            diagnostics::print_error(&format!("cannot write to standard output: {error}"));
        }
        std::process::exit(1);
    }
}

/// Options of benchmarks with a fixed number of ranks.
#[derive(clap::Args)]
struct BenchOptions {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    #[command(flatten)]
    comparison: ComparisonOptions,
}

/// Options of every benchmark that starts ranks.
#[derive(clap::Args, Clone)]
struct ComparisonOptions {
    /// Engine of Treepie's ranks
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    #[command(flatten)]
    links: EmulationOption,
    /// Also measure this baseline in the same run, alternating with Treepie: mpi, the same calls in C with the MPI of
    /// this machine; hpcc, for RandomAccess; or the path of another build of treepie
    #[arg(long, value_name = "BASELINE", value_parser = Baseline::from_str)]
    against: Option<Baseline>,
    /// MPI launcher with its options, without `-n` [default: the mpirun of the first mpicc in PATH, with one rank bound
    /// to each core; unbound and yielding if oversubscribed]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Number of runs, or of alternating pairs with --against [default: 5, or 31 pairs; 1 with
    /// --emulate, where the spread is that of its batches]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Emulated links, for everything that starts ranks on this machine.
#[derive(clap::Args, Clone, Default)]
pub struct EmulationOption {
    /// Emulate wide-area links between the ranks: clusters:8x1,wan=10ms/1MBps,lan=20us/50MBps
    #[arg(long, value_name = "LINKS")]
    emulate: Option<String>,
}

impl EmulationOption {
    /// The description, if there is one. Refuses one that is invalid, or is for another number of ranks, or beside a
    /// network of the environment.
    pub fn checked(&self, ranks: u32) -> anyhow::Result<Option<&str>> {
        if let Some(emulation) = self.parsed()? {
            emulation.check_ranks(ranks).context("--emulate")?;
            let network = environment::text(environment::NETWORK)?;
            anyhow::ensure!(
                network.is_none(),
                "--emulate gives the network, and so does TREEPIE_NETWORK: set only one"
            );
        }
        Ok(self.emulate.as_deref())
    }

    /// The clusters and links, if they are given.
    pub fn parsed(&self) -> anyhow::Result<Option<Emulation>> {
        self.emulate.as_deref().map(|text| text.parse().context("--emulate")).transpose()
    }

    /// The environment variable by which ranks learn of the links, and its value.
    pub fn variable(&self) -> Option<(&'static str, &str)> {
        Some((environment::EMULATE.name, self.emulate.as_deref()?))
    }

    /// The job with these links between its ranks.
    pub fn apply(&self, job: job::Job) -> job::Job {
        self.variable().into_iter().fold(job, |job, (name, value)| job.env(name, value))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Processes with shared memory
    Shm,
    /// Threads of one process
    Threads,
    /// MPI processes
    Mpi,
}

impl ComparisonOptions {
    /// Whether all ranks are Treepie's, started by its launcher.
    fn is_on_this_machine(&self) -> bool {
        self.fabric != Engine::Mpi && !self.is_against_mpi()
    }

    fn is_against_mpi(&self) -> bool {
        matches!(self.against, Some(Baseline::Mpi))
    }
}

/// What Treepie is compared with.
#[derive(Clone)]
enum Baseline {
    /// The same calls in C with the MPI of this machine.
    Mpi,
    /// The program hpcc, for RandomAccess.
    Hpcc,
    /// Another build of this program.
    Build(PathBuf),
}

impl FromStr for Baseline {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "mpi" => Ok(Self::Mpi),
            "hpcc" => Ok(Self::Hpcc),
            path if path.contains('/') => Ok(Self::Build(path.into())),
            _ => Err("expected mpi, hpcc, or the path of another build of treepie, such as ./treepie"),
        }
    }
}
