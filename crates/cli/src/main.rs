//! The `treepie` command. Results go to standard output; an error is one line on standard error and a nonzero exit
//! status.

#![forbid(unsafe_code)]

#[macro_use(say)]
extern crate treepie_bench;

mod algorithms;
mod demo;
mod doctor;
#[cfg(test)]
mod documents;
mod explain;
mod graph;
mod randomaccess;
mod run;
mod sim;
mod tune;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use treepie_bench::diagnostics::{self, print_error};
use treepie_bench::{mpi, single_copy};

/// A runtime for irregular distributed applications.
#[derive(Parser)]
#[command(name = "treepie", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunCommand),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Mpi(mpi::Mpi),
    Bench(treepie_bench::Bench),
    Algorithms(algorithms::Algorithms),
    Sim(sim::Sim),
    Explain(explain::Explain),
    Graph(graph::GraphCommand),
    #[command(name = "randomaccess")]
    RandomAccess(randomaccess::RandomAccessCommand),
    Tune(tune::Tune),
    /// One rank of the demo.
    #[command(hide = true)]
    DemoRank,
    #[command(flatten)]
    BenchRank(treepie_bench::RankProgram),
    /// One of the two ranks that test single copy.
    #[command(hide = true)]
    SingleCopyRank,
    /// One rank of a measurement.
    #[command(hide = true)]
    TuneRank,
}

impl Command {
    /// Rejects environment variables with invalid values before anything starts, and warns of unknown ones. `doctor`
    /// shows them instead.
    fn check_environment(&self) -> anyhow::Result<()> {
        match self {
            Self::Doctor(_) => return Ok(()),
            Self::Run(run) => run.check_limits()?,
            _ => treepie::environment::check(None)?,
        }
        // Launched programs print their own warnings.
        if !matches!(self, Self::Run(_) | Self::Graph(_) | Self::RandomAccess(_)) {
            treepie::environment::warn();
        }
        Ok(())
    }
}

/// Parses the command line and runs the subcommand.
fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return diagnostics::report_usage_error(&error, &words, &Arguments::command()),
    };
    if let Err(error) = arguments.command.check_environment() {
        print_error(&diagnostics::with_causes(&error));
        return ExitCode::FAILURE;
    }
    let result = match &arguments.command {
        Command::Run(run) => run.run(),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Mpi(mpi) => mpi.run(),
        Command::Bench(bench) => bench.run(),
        Command::Algorithms(algorithms) => algorithms.run(),
        Command::Sim(sim) => sim.run(),
        Command::Explain(explain) => explain.run(),
        Command::Graph(graph) => graph.run(),
        Command::RandomAccess(random_access) => random_access.run(),
        Command::Tune(tune) => tune.run(),
        Command::DemoRank => demo::rank(),
        Command::BenchRank(rank) => rank.run(),
        Command::SingleCopyRank => single_copy::rank(),
        Command::TuneRank => tune::rank(),
    };
    result.unwrap_or_else(|error| {
        print_error(&diagnostics::with_causes(&error));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
