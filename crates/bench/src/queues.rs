//! `treepie bench queues`: the cost per message as a function of the queue length.
//!
//! Each queue of the library is filled with a hundred to a million items and emptied: the cost per item must not depend
//! on their number. Otherwise a program would be fast when it is tried and never end when it is used.

mod rank;
mod task;

use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use rank::Queues;
use task::Queue;

use crate::harness::comparison::Comparison;
use crate::harness::figure::Figure;
use crate::harness::table::{NAME_WIDTH, format_number};
use crate::record::Record;
use crate::{ComparisonOptions, EmulationOption, Engine};

/// Queues: cost per message with a hundred to a million pending, for each queue of the library
#[derive(clap::Args)]
pub(crate) struct QueueBench {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "3", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    /// Engine of Treepie's ranks
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    /// MPI launcher with its options, without `-n` [default: the mpirun of the first mpicc in PATH]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Maximum number of pending items
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    most: u32,
    /// Only queues whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// Number of runs
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl QueueBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let sides = ComparisonOptions {
            links: EmulationOption::default(),
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
        let comparison = Comparison::new(self.ranks, &sides, &["queues-rank"], None)?;
        comparison.print_sides("Queues", "", task::batches(task::MIN_WAITING));
        say!(
            "  Each queue is filled with N messages of {} bytes and emptied; microseconds per message.",
            task::MESSAGE_BYTES
        );
        say!("  Fewer batches where N is large.");
        queues.iter().for_each(|queue| say!("  {:<26} {}", queue.to_string(), queue.description()));
        say!("");
        print_table(&queues, &comparison.measure(&figures)?.records);
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a row for each queue: the cost per message by queue length, and the ratio of the longest to the shortest.
fn print_table(queues: &[Queue], records: &[Record]) {
    let sizes = task::sizes(usize::MAX);
    let header: Vec<String> = sizes.iter().map(|size| format!("{size:>9}")).collect();
    say!("{:<NAME_WIDTH$} {:>5} {} {:>7}", "waiting", "unit", header.join(" "), "ratio");
    for queue in queues {
        let values: Vec<&Record> =
            sizes.iter().filter_map(|size| records.iter().find(|record| record.case == queue.name(*size))).collect();
        let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
        let cells: Vec<String> = sizes
            .iter()
            .map(|size| {
                let record = values.iter().find(|record| record.case == queue.name(*size));
                format!("{:>9}", record.map_or("-".to_owned(), |record| format_number(record.value)))
            })
            .collect();
        let ratio = last.value / first.value;
        say!("{:<NAME_WIDTH$} {:>5} {} {ratio:>7.2}", format!("queues/{queue}"), first.unit, cells.join(" "));
    }
}
