//! `treepie bench collectives`: collective operations among all ranks.

mod rank;
mod task;

use std::process::ExitCode;

pub(crate) use rank::Calls;
use task::{Algorithm, TimingMode};

use crate::harness::comparison::{Comparison, SAME_CALLS};
use crate::harness::figure::{BATCHES, Figure};
use crate::harness::launch::on_threads;
use crate::harness::peer::Source;
use crate::harness::table::print_mean;
use crate::record::Record;
use crate::{BenchOptions, ensure_unset};

/// Collective operations: bcast, allgather, allreduce, reduce_scatter and alltoall from 8 B to 1 MiB, and barrier
#[derive(clap::Args)]
pub(crate) struct Collectives {
    #[command(flatten)]
    settings: BenchOptions,
    /// Measure only this algorithm, e.g. `allgather/ring` [default: all operations, with the selected algorithms]
    #[arg(long, value_name = "ID")]
    algorithm: Option<Algorithm>,
    /// Timing of the operations of a batch
    #[arg(long, value_enum, default_value_t)]
    rule: TimingMode,
}

const PEER: Source = Source { name: "collectives_peer", text: include_str!("collectives/peer.c") };

impl Collectives {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        ensure_unset("TREEPIE_ALGORITHM", "--algorithm")?;
        let mut rank = vec!["collectives-rank"];
        if let Some(Algorithm { id, .. }) = &self.algorithm {
            // An unknown algorithm is reported once, not by each rank.
            on_threads(1, |world| Ok(world.with_algorithm(id).map(drop)))?.swap_remove(0)?;
            rank.extend(["--algorithm", id]);
        }
        let comparison = Comparison::new(self.settings.ranks, &self.settings.comparison, &rank, Some(&PEER))?;
        let figures = task::figures(self.settings.ranks, self.rule, self.algorithm.as_ref());
        comparison.print_sides("Collective operations", SAME_CALLS, BATCHES);
        print_rules(self.rule);
        let result = comparison.measure(&figures)?;
        result.print_table();
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
        TimingMode::Stream => {
            say!("  A batch: a barrier, one warm-up operation, then the timed operations, back to back.");
        }
    }
    say!(
        "  The time of the slowest rank counts. All operations use the same buffers (bcast in place); the input changes"
    );
    say!("  each time, and the result of the last operation of a batch is checked.");
    say!("  Buffers are of doubles. The size is");
    say!("  bcast                the message; the root rotates, so that each operation depends on the one before");
    say!("  allgather, alltoall  the block of each rank; the block between each pair of ranks");
    say!("  allreduce            the vector of each rank; the operator is the sum");
    say!("  reduce_scatter       the same; block sizes differ by at most one double (MPI_Reduce_scatter)");
    say!("");
}

/// Prints the geometric mean of the short messages.
fn print_short_mean(figures: &[Figure], records: &[Record]) {
    let is_short = |figure: &Figure| (1..=task::SMALL_BYTES).contains(&figure.bytes);
    let short = figures.iter().zip(records).filter(|(figure, _)| is_short(figure));
    print_mean("8 B and 1 KiB only", short.map(|(_, record)| record));
}
