//! `treepie bench`: benchmarks of Treepie alone, or against an MPI in the same run.
//!
//! Each benchmark is a table of cases, a program of Treepie's ranks that measures them, and a C program that makes the
//! same calls with MPI. They share the repetition of a case (`batches.rs`, `peer.h`), the output format (`output.rs`),
//! and the alternating runs and comparison of both sides (`comparison.rs`).

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
mod batches;
mod bfs;
pub mod bytes;
mod collectives;
mod comparison;
pub mod diagnostics;
mod exchange;
mod figure;
mod graph;
pub mod job;
pub mod machine;
pub mod mpi;
pub mod network;
mod output;
pub mod p2p;
pub mod parameters;
mod peer;
mod progress;
mod queues;
pub mod record;
pub mod setting;
mod sim;
pub mod single_copy;
mod split;
mod statistics;
mod table;
mod weak_scaling;

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

pub use batches::{on_threads, program_error};
pub use figure::Measure;
pub use output::parse;
pub use table::format_number;

/// Benchmark Treepie on this machine, alone or against an MPI
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    P2p(p2p::PointToPoint),
    Collectives(collectives::Collectives),
    Exchange(exchange::ExchangeBench),
    Am(am::Am),
    Graph(graph::GraphBench),
    Bfs(bfs::BfsBench),
    Weak(weak_scaling::WeakScaling),
    Sim(sim::SimBench),
    Split(split::SplitBench),
    Queues(queues::Queues),
}

impl Bench {
    /// Runs it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.benchmark {
            Benchmark::P2p(p2p) => p2p.run(),
            Benchmark::Collectives(collectives) => collectives.run(),
            Benchmark::Exchange(exchange) => exchange.run(),
            Benchmark::Am(am) => am.run(),
            Benchmark::Graph(graph) => graph.run(),
            Benchmark::Bfs(bfs) => bfs.run(),
            Benchmark::Weak(weak) => weak.run(),
            Benchmark::Sim(sim) => sim.run(),
            Benchmark::Split(split) => split.run(),
            Benchmark::Queues(queues) => queues.run(),
        }
    }
}

/// One rank of a benchmark; the benchmarks launch this very program with such a subcommand.
#[derive(clap::Subcommand)]
pub enum RankProgram {
    #[command(name = "p2p-rank", hide = true)]
    #[doc(hidden)]
    P2p(p2p::P2pRank),
    #[command(name = "collectives-rank", hide = true)]
    #[doc(hidden)]
    Collectives(collectives::CollectivesRank),
    #[command(name = "exchange-rank", hide = true)]
    #[doc(hidden)]
    Exchange(exchange::ExchangeRank),
    #[command(name = "am-rank", hide = true)]
    #[doc(hidden)]
    Am(am::AmRank),
    #[command(name = "queues-rank", hide = true)]
    #[doc(hidden)]
    Queues(queues::QueuesRank),
    #[command(name = "graph-rank", hide = true)]
    #[doc(hidden)]
    Graph(graph::rank::GraphRank),
}

impl RankProgram {
    /// Runs the rank.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Self::P2p(rank) => rank.run(),
            Self::Collectives(rank) => rank.run(),
            Self::Exchange(rank) => rank.run(),
            Self::Am(rank) => rank.run(),
            Self::Queues(rank) => rank.run(),
            Self::Graph(rank) => rank.run(),
        }
    }
}

/// Prints a line to standard output. Exits if the reader has closed the pipe.
#[doc(hidden)]
pub fn print_line(line: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
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
#[derive(clap::Args)]
struct ComparisonOptions {
    /// Engine of Treepie's ranks
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    /// Also measure this baseline in the same run, alternating with Treepie
    #[arg(long, value_enum)]
    against: Option<Baseline>,
    /// MPI launcher with its options, without `-n` [default: the mpirun of the first mpicc in PATH, with one rank bound
    /// to each core; unbound and yielding if oversubscribed]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Number of runs, or of alternating pairs with --against [default: 5, or 31 pairs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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

#[derive(Clone, Copy, ValueEnum)]
enum Baseline {
    /// The same calls in C with the MPI of this machine
    Mpi,
}
