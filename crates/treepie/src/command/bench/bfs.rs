//! `treepie bench bfs`: breadth-first search over sparse exchanges, by each protocol, on real ranks and simulated.
//! [NBX paper, 5.1.1, figures 4 and 5]
//!
//! All protocols search the same graph from the same roots, and take turns. What a simulation counts are messages: work on
//! arcs is for free there, as it is the same for all of them.

mod study;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use study::{Barrier, Seen, Study};
use treepie_comm::protocol::PROTOCOLS;
use treepie_model::machines::Machine;

use super::super::machine;
use super::super::record::{Better, Record, Records};
use super::statistics::{median, spread};
use super::table::number;

/// Breadth-first search over sparse exchanges, in a graph that is well distributed; by each protocol
#[derive(clap::Args)]
pub(crate) struct Bfs {
    /// How many ranks, several with commas [default: 2,4,8,16, or simulated 128,512,2048]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=100_000))]
    ranks: Vec<u32>,
    /// Edges of each rank to vertices of others, several with commas
    #[arg(long = "k", value_name = "K", value_delimiter = ',', default_value = "6,26,79")]
    remote: Vec<u64>,
    /// Vertices of each rank [default: 10000, or simulated 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    vertices: Option<u64>,
    /// Edges of a vertex to others of its rank, on average [default: 300, or simulated 16]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    degree: Option<u64>,
    /// By which protocols; the others are compared with the last one
    #[arg(
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        default_value = "exchange/pex,exchange/pcx,exchange/nbx"
    )]
    protocols: Vec<String>,
    /// Simulate with the parameters of this machine: intrepid, jaguar or bigred
    #[arg(long, value_name = "MACHINE")]
    machine: Option<Machine>,
    /// By what simulated ranks know that all have come [default: messages, and the hardware where the machine has that]
    #[arg(long, value_enum, requires = "machine")]
    barrier: Option<Barrier>,
    /// From how many roots [default: 15, or simulated 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Bfs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        for id in &self.protocols {
            let is_known = id.starts_with("exchange/") && PROTOCOLS.iter().any(|(known, _)| known == id);
            ensure!(is_known, "there is no protocol `{id}`: `treepie algorithms exchange` lists them");
        }
        if let Some(machine) = self.machine {
            ensure!(machine.loggp().is_some(), "{machine} was not measured in LogGP; intrepid, jaguar and bigred were");
        }
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        self.print_head();
        for barrier in self.barriers() {
            for ranks in self.ranks() {
                for remote in &self.remote {
                    let study = self.study(ranks, *remote, barrier);
                    let seen = study.run()?;
                    self.print_row(&study, &seen);
                    for (id, seconds) in self.protocols.iter().zip(&seen.seconds) {
                        if let Some(records) = &mut records {
                            records.write(&self.record(&study, id, seconds))?;
                        }
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn ranks(&self) -> Vec<u32> {
        match (&self.ranks[..], self.machine) {
            ([], None) => vec![2, 4, 8, 16],
            ([], Some(_)) => vec![128, 512, 2048],
            (asked, _) => asked.to_vec(),
        }
    }

    fn barriers(&self) -> Vec<Option<Barrier>> {
        let Some(machine) = self.machine else { return vec![None] };
        match self.barrier {
            Some(barrier) => vec![Some(barrier)],
            None if machine.hardware_barrier().is_some() => vec![Some(Barrier::Hardware), Some(Barrier::Messages)],
            None => vec![Some(Barrier::Messages)],
        }
    }

    fn study(&self, ranks: u32, remote: u64, barrier: Option<Barrier>) -> Study<'_> {
        let (vertices, degree, roots) = if self.machine.is_some() { (256, 16, 3) } else { (10_000, 300, 15) };
        Study {
            ranks,
            vertices: self.vertices.unwrap_or(vertices),
            degree: self.degree.unwrap_or(degree),
            remote,
            protocols: &self.protocols,
            roots: self.repeat.unwrap_or(roots),
            simulated: self.machine.zip(barrier),
        }
    }

    fn print_head(&self) {
        let Study { vertices, degree, roots, .. } = self.study(2, 0, None);
        match self.machine {
            None => say!("Breadth-first search over sparse exchanges on {}", machine::describe()),
            Some(machine) => say!("Breadth-first search over sparse exchanges, simulated with {machine}; work is free"),
        }
        say!("  {vertices} vertices a rank with {degree} edges each, and k more edges of a rank to others");
        say!("  microseconds of the slowest rank, medians of {roots} roots; ratios: over the last protocol");
        say!("");
        let names: String = self.protocols.iter().map(|id| format!(" {:>13} {:>6}", short(id), "ratio")).collect();
        say!("{:>6} {:>4} {:<9} {:>7}{names}", "ranks", "k", "barrier", "levels");
    }

    fn print_row(&self, study: &Study<'_>, seen: &Seen) {
        let last = seen.seconds.last().map_or(f64::NAN, |last| median(last));
        let of_one = |seconds: &Vec<f64>| {
            let seconds = median(seconds);
            format!(" {:>13} {:>6.2}", number(1e6 * seconds), seconds / last)
        };
        let all: String = seen.seconds.iter().map(of_one).collect();
        let barrier = study.simulated.map_or("engine's", |(_, barrier)| barrier.name());
        say!("{:>6} {:>4} {barrier:<9} {:>7}{all}", study.ranks, study.remote, seen.levels);
    }

    fn record(&self, study: &Study<'_>, id: &str, seconds: &[f64]) -> Record {
        let micros: Vec<f64> = seconds.iter().map(|seconds| 1e6 * seconds).collect();
        let barrier = study.simulated.map_or(String::new(), |(_, barrier)| format!("/{}", barrier.name()));
        Record {
            case: format!("bench/bfs/{}/k{}{barrier}", short(id), study.remote),
            engine: if self.machine.is_some() { "sim" } else { "threads" }.to_owned(),
            ranks: study.ranks,
            value: median(&micros),
            unit: "us".to_owned(),
            better: Better::Low,
            statistic: "median".to_owned(),
            spread: spread(&micros),
            samples: micros.len(),
            machine: self.machine.map_or_else(machine::describe, |machine| machine.to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        }
    }
}

fn short(id: &str) -> &str {
    id.strip_prefix("exchange/").unwrap_or(id)
}
