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
mod demo;
mod doctor;
mod graph;
mod job;
mod machine;
mod mpi;
mod record;
mod run;
mod sim;
mod single_copy;

use std::fmt;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Status for a command line that cannot be understood.
const MISUSED: u8 = 2;

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
    GraphRank(bench::graph::rank::GraphRank),
    /// One of the two ranks that try whether they reach each other's memory.
    #[command(hide = true)]
    SingleCopyRank,
}

/// Does what the command line says.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
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
        Command::GraphRank(rank) => rank.run(),
        Command::SingleCopyRank => single_copy::rank(),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
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

/// Says what is wrong, in one line.
fn complain(what: &str) {
    eprintln!("treepie: {}", one_line(what));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Answers a command line that asks for help or is wrong.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand
    ) {
        // If nobody reads it, there is nobody to tell.
        let _ = error.print();
        return ExitCode::from(if error.exit_code() == 0 { 0 } else { MISUSED });
    }
    let text = error.to_string();
    // What is wrong comes first; usage and hints follow after an empty line.
    let wrong = text.split("\n\n").next().unwrap_or_default();
    complain(&format!("{} (try --help)", wrong.trim_start_matches("error: ")));
    ExitCode::from(MISUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
