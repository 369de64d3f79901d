//! `treepie bench bfs`: breadth-first search over sparse exchanges with each protocol, measured or simulated.
//! [NBX paper, 5.1.1, figures 4 and 5]
//!
//! All protocols search the same graph from the same roots, alternating. A simulation counts only messages: computation
//! is free, as it is the same for all protocols.

mod study;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use study::{Barrier, Study, StudyResult};
use treepie_model::machines::PaperMachine;
use treepie_sparse::PROTOCOLS;

use crate::harness::statistics::median;
use crate::harness::table::format_number;
use crate::machine;
use crate::record::{Better, Record, Records};

/// Breadth-first search over sparse exchanges on a balanced graph, with each protocol
#[derive(clap::Args)]
pub(crate) struct BfsBench {
    /// Numbers of ranks, separated by commas [default: 2,4,8,16; simulated: 128,512,2048]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=100_000))]
    ranks: Vec<u32>,
    /// Edges of each rank to vertices of other ranks, separated by commas
    #[arg(long = "k", value_name = "K", value_delimiter = ',', default_value = "6,26,79")]
    remote: Vec<u64>,
    /// Vertices per rank [default: 10000; simulated: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    vertices: Option<u64>,
    /// Average local degree of a vertex [default: 300; simulated: 16]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    degree: Option<u64>,
    /// Protocols, separated by commas; the last is the baseline of the ratios
    #[arg(
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        default_value = "exchange/pex,exchange/pcx,exchange/nbx"
    )]
    protocols: Vec<String>,
    /// Simulate with the parameters of this machine: intrepid, jaguar or bigred
    #[arg(long, value_name = "MACHINE")]
    machine: Option<PaperMachine>,
    /// Barrier of the simulated ranks [default: messages, and hardware if the machine has it]
    #[arg(long, value_enum, requires = "machine")]
    barrier: Option<Barrier>,
    /// Number of roots [default: 15; simulated: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BfsBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        for id in &self.protocols {
            let is_known = PROTOCOLS.protocols.iter().any(|(known, _)| known == id);
            ensure!(is_known, "there is no protocol `{id}`: `treepie algorithms exchange` lists them");
        }
        if let Some(machine) = self.machine {
            ensure!(machine.loggp().is_some(), "{machine} has no LogGP parameters; intrepid, jaguar and bigred have");
        }
        let mut records = Records::create(self.json.as_deref())?;
        self.print_header();
        for barrier in self.barriers() {
            for ranks in self.ranks() {
                for remote in &self.remote {
                    let study = self.study(ranks, *remote, barrier);
                    let result = study.run()?;
                    self.print_row(&study, &result);
                    for (id, seconds) in self.protocols.iter().zip(&result.seconds) {
                        records.write(&self.record(&study, id, seconds))?;
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
            (given, _) => given.to_vec(),
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

    fn print_header(&self) {
        let Study { vertices, degree, roots, .. } = self.study(2, 0, None);
        match self.machine {
            None => say!("Breadth-first search over sparse exchanges on {}", machine::describe()),
            Some(machine) => {
                say!("Breadth-first search over sparse exchanges, simulated with {machine}; computation is free")
            }
        }
        say!("  {vertices} vertices per rank of average degree {degree}, and k edges per rank to other ranks");
        say!("  microseconds of the slowest rank, median of {roots} roots; ratio: over the last protocol");
        say!("");
        let names: String = self.protocols.iter().map(|id| format!(" {:>13} {:>6}", short_id(id), "ratio")).collect();
        say!("{:>6} {:>4} {:<9} {:>7}{names}", "ranks", "k", "barrier", "levels");
    }

    fn print_row(&self, study: &Study<'_>, result: &StudyResult) {
        let last = result.seconds.last().map_or(f64::NAN, |last| median(last));
        let cell = |seconds: &Vec<f64>| {
            let seconds = median(seconds);
            format!(" {:>13} {:>6.2}", format_number(1e6 * seconds), seconds / last)
        };
        let all: String = result.seconds.iter().map(cell).collect();
        let barrier = study.simulated.map_or("engine", |(_, barrier)| barrier.name());
        say!("{:>6} {:>4} {barrier:<9} {:>7}{all}", study.ranks, study.remote, result.levels);
    }

    fn record(&self, study: &Study<'_>, id: &str, seconds: &[f64]) -> Record {
        let micros: Vec<f64> = seconds.iter().map(|seconds| 1e6 * seconds).collect();
        let barrier = study.simulated.map_or(String::new(), |(_, barrier)| format!("/{}", barrier.name()));
        let case = format!("bench/bfs/{}/k{}{barrier}", short_id(id), study.remote);
        let engine = if self.machine.is_some() { "sim" } else { "threads" };
        let record = Record::measured(case, engine, study.ranks, &micros, ("us", Better::Low));
        Record { machine: self.machine.map_or(record.machine, |machine| machine.to_string()), ..record }
    }
}

fn short_id(id: &str) -> &str {
    id.strip_prefix("exchange/").unwrap_or(id)
}
