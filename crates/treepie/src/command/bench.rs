//! `treepie bench`: measures, by itself or against an MPI in the same run.
//!
//! Each benchmark is a table of cases, a program of Treepie's ranks that measures them, and a program in C that does the
//! same with MPI, call for call. What they have in common: how ranks repeat a case ([`batches`], `peer.h`), what they
//! print ([`output`]), and how both sides are run in turn and compared ([`comparison`]).

pub(crate) mod am;
mod batches;
mod bfs;
pub(crate) mod collectives;
mod comparison;
pub(crate) mod exchange;
mod figure;
pub(crate) mod graph;
mod output;
pub(crate) mod p2p;
mod peer;
mod progress;
pub(crate) mod queues;
mod sim;
mod split;
mod statistics;
mod table;
mod weak;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

pub(crate) use figure::Measure;
pub(crate) use output::parse;
pub(crate) use table::number;

/// Measure Treepie on this machine, alone or against an MPI
#[derive(clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    P2p(p2p::PointToPoint),
    Collectives(collectives::Collectives),
    Exchange(exchange::Exchange),
    Am(am::Am),
    Graph(graph::Graphs),
    Bfs(bfs::Bfs),
    Weak(weak::Weak),
    Sim(sim::Simulator),
    Split(split::Split),
    Queues(queues::Queues),
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.what {
            What::P2p(p2p) => p2p.run(),
            What::Collectives(collectives) => collectives.run(),
            What::Exchange(exchange) => exchange.run(),
            What::Am(am) => am.run(),
            What::Graph(graph) => graph.run(),
            What::Bfs(bfs) => bfs.run(),
            What::Weak(weak) => weak.run(),
            What::Sim(sim) => sim.run(),
            What::Split(split) => split.run(),
            What::Queues(queues) => queues.run(),
        }
    }
}

/// What can be said to benchmarks of one number of ranks.
#[derive(clap::Args)]
struct Settings {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    #[command(flatten)]
    sides: Sides,
}

/// What can be said to each benchmark of ranks.
#[derive(clap::Args)]
struct Sides {
    /// What carries Treepie's messages
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    /// Measure somebody else in the same run, alternating
    #[arg(long, value_enum)]
    against: Option<Opponent>,
    /// The launcher of the MPI, with its options up to `-n` [default: that of the first mpicc in PATH, each rank bound to a
    /// core, or not bound and yielding if there are more ranks than cores]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// How many runs, or alternations of both sides [default: 5, or 31 of both sides]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Processes and shared memory
    Shm,
    /// Threads of one process
    Threads,
    /// Processes of an MPI
    Mpi,
}

#[derive(Clone, Copy, ValueEnum)]
enum Opponent {
    /// The same calls in C, with an MPI of this machine
    Mpi,
}
