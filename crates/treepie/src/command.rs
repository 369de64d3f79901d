//! What can be asked of the command, and how it answers: results on standard output, one line on standard error and a
//! status that is not zero when something is wrong.

/// Prints a line of the answer. Defined before the modules, which so all have it.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::command::print_line(format_args!($($text)*))
    };
}

mod algorithms;
mod bench;
mod bytes;
mod complaint;
mod demo;
mod doctor;
#[cfg(test)]
mod documents;
mod graph;
mod job;
mod machine;
mod mpi;
mod network;
mod record;
mod run;
mod sim;
mod single_copy;

use std::ffi::OsString;
use std::fmt;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use complaint::{complain, one_line};

/// A runtime for programs whose ranks talk irregularly.
#[derive(Parser)]
#[command(name = "treepie", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Mpi(mpi::Mpi),
    Bench(bench::Bench),
    Algorithms(algorithms::Algorithms),
    Sim(sim::Sim),
    Graph(graph::Graph),
    /// One rank of the demo.
    #[command(hide = true)]
    DemoRank,
    #[command(hide = true)]
    P2pRank(bench::p2p::P2pRank),
    #[command(hide = true)]
    CollectivesRank(bench::collectives::CollectivesRank),
    #[command(hide = true)]
    ExchangeRank(bench::exchange::ExchangeRank),
    #[command(hide = true)]
    AmRank(bench::am::AmRank),
    #[command(hide = true)]
    QueuesRank(bench::queues::QueuesRank),
    #[command(hide = true)]
    GraphRank(bench::graph::rank::GraphRank),
    /// One of the two ranks that try whether they reach each other's memory.
    #[command(hide = true)]
    SingleCopyRank,
}

impl Command {
    /// Refuses variables of the environment with values that are not accepted, before anything is begun, and warns of
    /// those that are not known. The doctor shows them instead.
    fn check_environment(&self) -> anyhow::Result<()> {
        match self {
            Self::Doctor(_) => return Ok(()),
            Self::Run(run) => run.ensure_possible()?,
            _ => treepie::environment::check(None)?,
        }
        // Programs that are launched warn for themselves.
        if !matches!(self, Self::Run(_) | Self::Graph(_)) {
            treepie::environment::warn();
        }
        Ok(())
    }
}

/// Does what the command line says.
pub(crate) fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return complaint::refuse(&error, &words, &Arguments::command()),
    };
    if let Err(error) = arguments.command.check_environment() {
        complain(&complaint::with_causes(&error));
        return ExitCode::FAILURE;
    }
    let done = match &arguments.command {
        Command::Run(run) => run.run(),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Mpi(mpi) => mpi.run(),
        Command::Bench(bench) => bench.run(),
        Command::Algorithms(algorithms) => algorithms.run(),
        Command::Sim(sim) => sim.run(),
        Command::Graph(graph) => graph.run(),
        Command::DemoRank => demo::rank(),
        Command::P2pRank(rank) => rank.run(),
        Command::CollectivesRank(rank) => rank.run(),
        Command::ExchangeRank(rank) => rank.run(),
        Command::AmRank(rank) => rank.run(),
        Command::QueuesRank(rank) => rank.run(),
        Command::GraphRank(rank) => rank.run(),
        Command::SingleCopyRank => single_copy::rank(),
    };
    done.unwrap_or_else(|error| {
        complain(&complaint::with_causes(&error));
        ExitCode::FAILURE
    })
}

/// Prints a line of the answer. If nobody reads it any more, there is no reason to go on.
fn print_line(line: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        if error.kind() != IoErrorKind::BrokenPipe {
            complain(&format!("cannot write to standard output: {error}"));
        }
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
