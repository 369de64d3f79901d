//! `treepie bench randomaccess`: RandomAccess, alone or against MPI.

mod fit;
mod hpcc;
mod paper;
mod rank;
mod task;

use std::process::ExitCode;

use anyhow::{bail, ensure};
pub(crate) use rank::Updates;
use task::{Program, Task, TaskKind};
use treepie::randomaccess::{MAX_LOOK_AHEAD, Refinements};

use crate::harness::case::Case;
use crate::harness::comparison::Comparison;
use crate::harness::figure::{BATCHES, Figure, Measure};
use crate::harness::output;
use crate::harness::peer::Source;
use crate::harness::table::NAME_WIDTH;
use crate::record::Records;
use crate::{Baseline, ComparisonOptions, machine};

/// RandomAccess: random updates of a table of all ranks, in giga-updates per second
#[derive(clap::Args)]
pub(crate) struct RandomAccessBench {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    #[command(flatten)]
    comparison: ComparisonOptions,
    /// 2^N words in the table of all ranks, separated by commas [default: 23,27; with hpcc, 23; with --fit, 20 for each rank]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=40))]
    table_log2: Vec<u32>,
    /// The most updates that a rank may keep, separated by commas
    #[arg(long, value_name = "Q,...", value_delimiter = ',', default_values_t = [MAX_LOOK_AHEAD])]
    look_ahead: Vec<usize>,
    /// Algorithms, separated by spaces, with refinements after a slash, e.g. "auto hypercube/mod3 buffered_async/base"
    /// [default: auto; with --scaling, the synchronous ones and active messages]
    #[arg(long, value_name = "ID ...", value_delimiter = ' ')]
    algorithms: Vec<Program>,
    /// Each algorithm with all refinements, one after the other: the columns of the paper's table 3, and those beyond it
    #[arg(long, conflicts_with_all = ["fit", "paper", "scaling"])]
    all_refinements: bool,
    /// Updates of all ranks in a batch
    #[arg(long, value_name = "N", default_value = "16777216", value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// Measure the hypercube on these numbers of ranks instead, powers of two, fit T1 and TC, and predict more ranks
    #[arg(long, value_name = "P,...", value_delimiter = ',', conflicts_with_all = ["against", "ranks", "algorithms"], value_parser = clap::value_parser!(u32).range(1..=1 << 12))]
    fit: Vec<u32>,
    /// Simulate a table of the paper instead, 1 to 4, separated by commas
    #[arg(long, value_name = "TABLE,...", value_delimiter = ',', conflicts_with_all = SIMULATED, conflicts_with_all = ["scaling", "algorithms"], value_parser = clap::value_parser!(u32).range(1..=4))]
    paper: Vec<u32>,
    /// Simulate weak scaling on these numbers of ranks instead, powers of two, separated by commas
    #[arg(long, value_name = "P,...", value_delimiter = ',', conflicts_with_all = SIMULATED, value_parser = clap::value_parser!(u32).range(1..=1 << 17))]
    scaling: Vec<u32>,
    /// The simulated machine of --scaling: Red Storm, or the paper's projection of a Blue Gene/L
    #[arg(long, value_enum, default_value = "red-storm", requires = "scaling")]
    machine: SimulatedMachine,
}

/// Options of measurements, which have no effect on simulations.
const SIMULATED: [&str; 10] =
    ["against", "fabric", "emulate", "mpirun", "repeat", "fit", "ranks", "table_log2", "look_ahead", "updates"];

#[derive(Clone, Copy, clap::ValueEnum)]
enum SimulatedMachine {
    RedStorm,
    BlueGeneL,
}

const PEER: Source = Source { name: "randomaccess_peer", text: include_str!("randomaccess/peer.c") };

impl RandomAccessBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let has_refinements = |program: &Program| program.refinements.is_some();
        ensure!(
            !self.all_refinements || !self.algorithms.iter().any(has_refinements),
            "--all-refinements is for algorithms without refinements of their own"
        );
        if !self.paper.is_empty() || !self.scaling.is_empty() {
            return self.simulate();
        }
        if !self.fit.is_empty() {
            let log2 = self.one_table(20)?;
            fit::print(self, log2, self.one_look_ahead()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        if matches!(self.comparison.against, Some(Baseline::Hpcc)) {
            return self.compare_with_hpcc();
        }
        for log2 in self.tables() {
            // One more for the memory's limit.
            ensure_memory(*log2, self.programs().len() + 1)?;
        }
        let comparison = Comparison::new(self.ranks, &self.comparison, &["randomaccess-rank"], Some(&PEER))?;
        let is_against_mpi = comparison.is_against_mpi();
        ensure!(!is_against_mpi || self.ranks.is_power_of_two(), "--against mpi needs a power of two of ranks");
        let figures = self.figures(is_against_mpi);
        comparison.print_sides("RandomAccess", "make the same updates", BATCHES);
        self.print_rules(is_against_mpi);
        let result = comparison.measure(&figures)?;
        result.print_table();
        print_parts(&figures, &result.ours)?;
        result.warn_if_too_few_pairs();
        Ok(ExitCode::SUCCESS)
    }

    /// One program and one table.
    fn compare_with_hpcc(&self) -> anyhow::Result<ExitCode> {
        let (log2, look_ahead) = (self.one_table(23)?, self.one_look_ahead()?);
        let [program] = &self.programs()[..] else { bail!("choose one algorithm (--algorithms)") };
        ensure_memory(log2, 2)?;
        let Figure { name, case, .. } = self.figure((self.ranks, log2), TaskKind::Update, look_ahead, program);
        hpcc::compare(&self.comparison, self.ranks, log2, (&name, &case))?;
        Ok(ExitCode::SUCCESS)
    }

    fn programs(&self) -> Vec<Program> {
        let programs = if self.algorithms.is_empty() { vec![Program::default()] } else { self.algorithms.clone() };
        if !self.all_refinements {
            return programs;
        }
        let with_all = |program: Program| -> Vec<Program> {
            if !program.algorithm.has_refinements() {
                return vec![program];
            }
            let with = |refinements| Program { refinements: Some(refinements), ..program.clone() };
            Refinements::measurable().into_iter().map(with).collect()
        };
        programs.into_iter().flat_map(with_all).collect()
    }

    fn tables(&self) -> &[u32] {
        if self.table_log2.is_empty() { &[23, 27] } else { &self.table_log2 }
    }

    /// The table where only one can be measured.
    fn one_table(&self, default: u32) -> anyhow::Result<u32> {
        match self.table_log2[..] {
            [] => Ok(default),
            [log2] => Ok(log2),
            _ => bail!("choose one table (--table-log2)"),
        }
    }

    fn one_look_ahead(&self) -> anyhow::Result<usize> {
        let [look_ahead] = self.look_ahead[..] else { bail!("choose one look-ahead (--look-ahead)") };
        Ok(look_ahead)
    }

    fn simulate(&self) -> anyhow::Result<ExitCode> {
        let mut records = Records::create(self.comparison.json.as_deref())?;
        for (number, table) in self.paper.iter().enumerate() {
            if number > 0 {
                say!("");
            }
            paper::print(*table, &mut records)?;
        }
        if !self.scaling.is_empty() {
            for ranks in &self.scaling {
                ensure!(ranks.is_power_of_two(), "--scaling: the number of ranks must be a power of two, not {ranks}");
            }
            let machine = match self.machine {
                SimulatedMachine::RedStorm => paper::Machine::red_storm(),
                SimulatedMachine::BlueGeneL => paper::Machine::blue_gene_l(),
            };
            let programs =
                if self.algorithms.is_empty() { paper::scaling_programs()? } else { self.algorithms.clone() };
            paper::print_scaling(&machine, &self.scaling, &programs, &mut records)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn figures(&self, is_against_mpi: bool) -> Vec<Figure> {
        let mut figures = Vec::new();
        for log2 in self.tables() {
            for look_ahead in &self.look_ahead {
                for kind in [TaskKind::Update, TaskKind::Alone] {
                    if kind == TaskKind::Alone && !is_against_mpi {
                        continue;
                    }
                    let figure = |program: &Program| self.figure((self.ranks, *log2), kind, *look_ahead, program);
                    figures.extend(self.programs().iter().map(figure));
                }
            }
        }
        figures
    }

    fn figure(&self, (ranks, log2): (u32, u32), kind: TaskKind, look_ahead: usize, program: &Program) -> Figure {
        let task = Task { kind, words: 1 << log2, look_ahead };
        let count = (self.updates / ranks).max(1) as usize;
        let case = Case { task, count, batches: BATCHES, program: program.clone() };
        let look_ahead = if look_ahead == MAX_LOOK_AHEAD { String::new() } else { format!("/Q{look_ahead}") };
        let of = if kind == TaskKind::Alone { "/alone" } else { "" };
        Figure::new(format!("randomaccess/{program}/2^{log2}{look_ahead}{of}"), &case, Measure::Rate)
    }

    fn print_rules(&self, is_against_mpi: bool) {
        say!("  {} updates of all ranks in a batch; the table is checked after every second one.", self.updates);
        if is_against_mpi {
            say!(
                "  MPI updates in rounds of the look-ahead: sorts by rank, MPI_Alltoall of the counts, MPI_Alltoallv."
            );
            say!("  alone: MPI's ranks update their own tables on base pages by a plain loop, without any exchange.");
        }
        say!("");
    }
}

/// Refuses tables that do not fit the memory.
fn ensure_memory(log2: u32, tables: usize) -> anyhow::Result<()> {
    machine::ensure_memory("the tables", 8.0 * (1u64 << log2) as f64 * tables as f64, machine::USABLE)
}

/// Prints the time of each part of an update, in the first run, beside the memory's own limit.
fn print_parts(figures: &[Figure], ours: &[String]) -> anyhow::Result<()> {
    let Some(first) = ours.first() else { return Ok(()) };
    say!("");
    say!(
        "Nanoseconds of a rank per update, in the first run. limit: all ranks update tables of their own, generating included."
    );
    say!(
        "{:<NAME_WIDTH$} {:>9} {:>9} {:>9} {:>9} {:>9}  algorithm",
        "case",
        "limit",
        "generate",
        "bin",
        "exchange",
        "apply"
    );
    for figure in figures.iter().filter(|figure| !figure.name.ends_with("/alone")) {
        let mut words = output::find(first, "about", &figure.case)?;
        let algorithm = words.next().unwrap_or_default();
        let parts: String = words.map(|part| format!(" {part:>9}")).collect();
        say!("{:<NAME_WIDTH$}{parts:<50}  {algorithm}", figure.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::measured;

    #[test]
    fn programs_update_and_check() {
        let texts: Vec<String> = ["auto", "hypercube_any/mod3", "buffered_async/base", "am"]
            .map(|program| format!("update:1024:64:500:2@{program}"))
            .into_iter()
            .collect();
        for ranks in [1, 2, 3] {
            measured::<Updates>(ranks, &texts);
        }
    }
}
