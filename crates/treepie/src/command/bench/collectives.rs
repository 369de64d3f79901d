//! `treepie bench collectives`: collective operations among all ranks.

mod case;
mod rank;

use std::process::ExitCode;

use anyhow::ensure;
use case::{Algorithm, Rule};
pub(crate) use rank::CollectivesRank;

use super::super::record::Record;
use super::Settings;
use super::comparison::{Comparison, SAME_CALLS};
use super::figure::{BATCHES, Figure};
use super::peer::Source;
use super::statistics::geometric_mean;
use super::table::interval_of;

/// Collective operations: bcast, allgather, allreduce, reduce_scatter, alltoall at 8 B to 1 MiB, and barrier
#[derive(clap::Args)]
pub(crate) struct Collectives {
    #[command(flatten)]
    settings: Settings,
    /// Measure this algorithm alone, as `allgather/ring` [default: all operations, each by the algorithm that is chosen]
    #[arg(long, value_name = "ID")]
    algorithm: Option<Algorithm>,
    /// What happens between operations
    #[arg(long, value_enum, default_value_t)]
    rule: Rule,
}

const PEER: Source = Source { name: "collectives_peer", text: include_str!("collectives_peer.c") };

/// Names algorithms to all ranks of Treepie.
const CHOICE: &str = "TREEPIE_ALGORITHM";

impl Collectives {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // Records would call it the algorithm that is chosen.
        ensure!(std::env::var_os(CHOICE).is_none(), "{CHOICE} is set: unset it, and choose by --algorithm");
        let mut rank = vec!["collectives-rank"];
        if let Some(Algorithm { id, .. }) = &self.algorithm {
            // One that does not exist is refused once, instead of by each rank.
            treepie::launch(1, |world| world.using(id).map(drop))?.into_iter().collect::<treepie::Result<()>>()?;
            rank.extend(["--algorithm", id]);
        }
        let comparison = Comparison::new(self.settings.ranks, &self.settings.sides, &rank, &PEER)?;
        let figures = case::figures(self.settings.ranks, self.rule, self.algorithm.as_ref());
        comparison.print_sides("Collective operations", SAME_CALLS, BATCHES);
        print_rules(self.rule);
        let records = comparison.run(&figures)?;
        print_summary(&figures, &records);
        Ok(ExitCode::SUCCESS)
    }
}

fn print_rules(rule: Rule) {
    match rule {
        Rule::Apart => {
            say!(
                "  A batch: operations, each after a barrier that is not timed; the first one is not timed either. Where ranks"
            );
            say!("  share cores, a rank that leaves the barrier late begins late: its time runs from then.");
        }
        Rule::Stream => {
            say!(
                "  A batch: a barrier, one operation that is not timed, then the timed ones, between which nobody waits."
            );
        }
    }
    say!(
        "  Each rank takes its own time, and that of the slowest rank counts. All use the same buffers, only bcast in"
    );
    say!("  place; the input changes each time, and what the last operation of a batch brought is checked.");
    say!("  Buffers are of doubles. Their bytes are, for");
    say!("  bcast                a message of one rank after the other, so that each needs the one before");
    say!("  allgather, alltoall  the block of each rank; that from each rank to each");
    say!("  allreduce            the vector of each rank; the operator is the sum");
    say!("  reduce_scatter       the same; ranks get parts that differ by at most one double (the irregular call)");
    say!("");
}

/// The comparison in three lines, if it is one.
fn print_summary(figures: &[Figure], records: &[Record]) {
    let cells: Vec<_> = figures.iter().zip(records).filter_map(|(f, r)| Some((f, r.against.as_ref()?))).collect();
    let Some((worst, against)) = cells.iter().min_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio)) else { return };
    let mean = |what: &str, is_in: fn(&Figure) -> bool| {
        let ratios: Vec<f64> = cells.iter().filter(|(f, _)| is_in(f)).map(|(_, against)| against.ratio).collect();
        if !ratios.is_empty() {
            say!("geometric mean of ratios, {what:<20} {:.2} ({} cells)", geometric_mean(&ratios), ratios.len());
        }
    };
    say!("");
    mean("all cells", |_| true);
    mean("8 B and 1 KiB alone", |figure| (1..=case::SMALL).contains(&figure.bytes));
    say!("worst cell: {} with {:.2} ({})", worst.name, against.ratio, interval_of(against));
}
