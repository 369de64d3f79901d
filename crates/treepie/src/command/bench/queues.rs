//! `treepie bench queues`: what a message costs while many others wait.
//!
//! Each queue of the library is filled with so many things, from a hundred to a million, and emptied: what one of them costs must
//! not depend on how many there are. Where it did, a program would be fast when it is tried and never end when it is used.

mod case;
mod rank;

use std::process::ExitCode;

use case::Queue;
pub(crate) use rank::QueuesRank;

use super::super::record::Record;
use super::comparison::{Comparison, Measured};
use super::figure::Figure;
use super::peer::Source;
use super::table::{NAME, number};
use super::{Engine, Sides};

/// Queues: what a message costs while a hundred to a million others wait, in each queue of the library
#[derive(clap::Args)]
pub(crate) struct Queues {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "3", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    /// What carries Treepie's messages
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    /// The launcher of the MPI, with its options up to `-n` [default: that of the first mpicc in PATH]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// How many may wait at most
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    most: u32,
    /// Only queues whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// How many runs
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

/// Nothing is measured against it.
const PEER: Source = Source { name: "queues_peer", text: "" };

impl Queues {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let sides = Sides {
            fabric: self.fabric,
            against: None,
            mpirun: self.mpirun.clone(),
            repeat: Some(self.repeat),
            json: self.json.clone(),
        };
        let queues: Vec<Queue> = Queue::all(self.fabric == Engine::Mpi)
            .into_iter()
            .filter(|queue| queue.to_string().contains(&self.only))
            .collect();
        anyhow::ensure!(!queues.is_empty(), "no queue has `{}` in its name", self.only);
        let figures: Vec<Figure> = queues.iter().flat_map(|queue| queue.figures(self.most as usize)).collect();
        let comparison = Comparison::new(self.ranks, &sides, &["queues-rank"], &PEER)?;
        comparison.print_sides("Queues", "", case::batches(case::LEAST));
        say!(
            "  Each queue is filled with N messages of {} bytes and emptied; microseconds for each of them.",
            case::BYTES
        );
        say!("  Fewer batches where N is large.");
        queues.iter().for_each(|queue| say!("  {:<26} {}", queue.to_string(), queue.what()));
        say!("");
        let Measured { records, .. } = comparison.measure(&figures)?;
        print_table(&queues, &records);
        Ok(ExitCode::SUCCESS)
    }
}

/// A row for each queue: what a message costs for each number that waits, and how many times as much with the most as with the
/// fewest.
fn print_table(queues: &[Queue], records: &[Record]) {
    let sizes = case::sizes(usize::MAX);
    let head: Vec<String> = sizes.iter().map(|size| format!("{size:>9}")).collect();
    say!("{:<NAME$} {:>5} {} {:>7}", "waiting", "unit", head.join(" "), "ratio");
    for queue in queues {
        let values: Vec<&Record> =
            sizes.iter().filter_map(|size| records.iter().find(|record| record.case == queue.name(*size))).collect();
        let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
        let cells: Vec<String> = sizes
            .iter()
            .map(|size| {
                let record = values.iter().find(|record| record.case == queue.name(*size));
                format!("{:>9}", record.map_or("-".to_owned(), |record| number(record.value)))
            })
            .collect();
        let ratio = last.value / first.value;
        say!("{:<NAME$} {:>5} {} {ratio:>7.2}", format!("queues/{queue}"), first.unit, cells.join(" "));
    }
}
