//! `treepie bench collectives`: collective operations among all ranks.

mod rank;
mod task;

use std::process::ExitCode;

pub(crate) use rank::Calls;
use task::{Algorithm, Operation, Selection, TimingMode};

use crate::harness::comparison::{Comparison, ComparisonResult, SAME_CALLS};
use crate::harness::figure::{BATCHES, EMULATED_BATCHES, Figure};
use crate::harness::output::find;
use crate::harness::peer::Source;
use crate::harness::table::print_mean;
use crate::record::Record;
use crate::{BenchOptions, ensure_unset};
use treepie_base::units::ByteCount;

/// Collective operations: bcast, allgather, allreduce, reduce_scatter and alltoall from 8 B to 1 MiB, and barrier
#[derive(clap::Args)]
pub(crate) struct Collectives {
    #[command(flatten)]
    settings: BenchOptions,
    /// Measure only this algorithm, e.g. `allgather/ring`; may be repeated, and `allgather/auto` is the selected one
    /// [default: all operations, with the selected algorithms]
    #[arg(long, value_name = "ID")]
    algorithm: Vec<Algorithm>,
    /// Measure only these operations, separated by commas; also scatter and gather
    #[arg(long, value_name = "OP", value_delimiter = ',', conflicts_with = "algorithm")]
    operation: Vec<Operation>,
    /// Sizes in bytes, multiples of 8, separated by commas [default: 8, 1K, 64K, 1M]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    bytes: Vec<ByteCount>,
    /// Sizes are those of all blocks of a rank together, as in `treepie explain`, not of each block
    #[arg(long, requires = "bytes")]
    total: bool,
    /// Timed operations of a batch [default: the number that takes some milliseconds on one machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    operations: Option<u32>,
    /// Timed batches of a run, after one that is not [default: 9, or 2 with --emulate]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batches: Option<u32>,
    /// Timing of the operations of a batch [default: apart; synchronized with --emulate]
    #[arg(long, value_enum)]
    rule: Option<TimingMode>,
}

/// Why ranks cannot begin together.
const ONE_CLOCK: &str = "--rule synchronized: only Treepie's ranks on this machine begin at times of one clock";

const PEER: Source = Source { name: "collectives_peer", text: include_str!("collectives/peer.c") };

impl Collectives {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        ensure_unset("TREEPIE_ALGORITHM", "--algorithm")?;
        for id in self.algorithm.iter().filter_map(|algorithm| algorithm.selected().0) {
            // An unknown algorithm is reported once, not by each rank.
            treepie_collectives::registry::check_id(&id)?;
        }
        let (ranks, rank) = (self.settings.ranks, ["collectives-rank"]);
        let comparison = Comparison::new(ranks, &self.settings.comparison, &rank, Some(&PEER))?;
        let is_emulated = self.settings.comparison.links.parsed()?.is_some();
        let sizes: Vec<usize> = self.bytes.iter().map(|bytes| bytes.0).collect();
        if let Some(odd) = sizes.iter().find(|bytes| *bytes % task::WORD_BYTES != 0) {
            anyhow::bail!("--bytes {odd}: buffers are of doubles, so sizes are multiples of {}", task::WORD_BYTES);
        }
        let (algorithms, operations) = (self.algorithm.clone(), self.operation.clone());
        let [count, batches] = [self.operations, self.batches].map(|count| count.map(|count| count as usize));
        let is_total = self.total;
        let selection = Selection { algorithms, operations, sizes, is_emulated, is_total, count, batches };
        let rule = self.rule.unwrap_or(TimingMode::default_for(is_emulated));
        let is_synchronized = rule == TimingMode::Synchronized;
        anyhow::ensure!(!is_synchronized || self.settings.comparison.is_on_this_machine(), ONE_CLOCK);
        let figures = task::figures(ranks, rule, &selection);
        let batches = batches.unwrap_or(if is_emulated { EMULATED_BATCHES } else { BATCHES });
        comparison.print_sides("Collective operations", SAME_CALLS, batches);
        print_rules(rule);
        let mut result = comparison.measure(&figures)?;
        result.print_table();
        print_predictions(&figures, &mut result)?;
        print_short_mean(&figures, &result.records);
        result.warn_if_too_few_pairs();
        Ok(ExitCode::SUCCESS)
    }
}

fn print_rules(rule: TimingMode) {
    match rule {
        TimingMode::Apart => {
            say!("  A batch: operations, each after an untimed barrier; the first is a warm-up. If oversubscribed, a");
            say!("  rank that leaves the barrier late starts late: its time runs from then.");
        }
        TimingMode::Synchronized => {
            say!("  A batch: operations with root 0, each at a time of the machine's clock that all ranks wait for.");
        }
        TimingMode::Stream => {
            say!("  A batch: a barrier, one warm-up operation, then the timed operations, back to back.");
        }
    }
    say!(
        "  The time of the slowest rank counts. All operations use the same buffers (bcast in place); the input changes"
    );
    say!("  each time, and the result of the last operation of a batch is checked.");
    say!("  Buffers are of doubles. The size is");
    say!(
        "  bcast                the message; the root rotates unless ranks begin together, so that operations depend on those before"
    );
    say!("  scatter, gather      the block of each rank");
    say!("  allgather, alltoall  the block of each rank; the block between each pair of ranks");
    say!("  allreduce            the vector of each rank; the operator is the sum");
    say!("  reduce_scatter       the same; block sizes differ by at most one double (MPI_Reduce_scatter)");
    say!("");
}

/// Prints and records what the model predicts, and how far the measured times are from it.
fn print_predictions(figures: &[Figure], result: &mut ComparisonResult) -> anyhow::Result<()> {
    let Some(output) = result.ours.first().filter(|output| output.contains("\npredicted ")).cloned() else {
        return Ok(());
    };
    say!("\n{:<34} {:>12} {:>9}  algorithm", "case", "predicted us", "measured");
    for (figure, measured) in figures.iter().zip(&result.records) {
        let mut words = find(&output, "predicted", &figure.case)?;
        let (id, time) = (words.next().unwrap_or_default(), words.next().and_then(|time| time.parse::<f64>().ok()));
        let time = time.unwrap_or(f64::NAN);
        let percent = 100.0 * (measured.value / time - 1.0);
        say!("{:<34} {time:>12.0} {percent:>+8.1}%  {id}", figure.name);
        let case = format!("{}/predicted", figure.name);
        let predicted = Record::simulated(case, measured.ranks, time, "us", id.to_owned());
        result.file.write(&predicted)?;
    }
    Ok(())
}

/// Prints the geometric mean of the short messages.
fn print_short_mean(figures: &[Figure], records: &[Record]) {
    let is_short = |figure: &Figure| (1..=task::SMALL_BYTES).contains(&figure.bytes);
    let short = figures.iter().zip(records).filter(|(figure, _)| is_short(figure));
    print_mean("8 B and 1 KiB only", short.map(|(_, record)| record));
}
