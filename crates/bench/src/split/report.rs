//! Report of the emulated splits: the thesis's table, and records.

use super::cost::HockneyModel;
use super::emulated::{COLORS, Column, EmulatedSplit, FullTableTimes};
use super::sizes::Size;
use crate::record::{Better, Record, Records};

/// A row of the table.
type Row = (&'static str, fn(&Column) -> f64);

const ROWS: [Row; 5] = [
    ("collect", |column| column.collect),
    ("splitters", |column| column.splitters),
    ("exchange", |column| column.exchange),
    ("merge", |column| column.merge),
    ("total", Column::total),
];

pub(super) fn print_rules(machine: &str, model: &HockneyModel, repeat: u32, memory: &str) {
    let (latency, bandwidth) = (model.latency * 1e6, 1e-9 / model.per_byte);
    say!("Splits of large communicators, emulated on {machine}");
    say!(
        "  As in the thesis (2.4): one new communicator of all ranks, random keys. Sorters are real (threads), one at"
    );
    say!(
        "  a time; two ranks emulate recursive doubling. Seconds of a rank: its CPU time in the protocol, and for each"
    );
    say!(
        "  message it sends {latency:.2} us plus its bytes at {bandwidth:.2} GB/s, both measured now by a ping-pong of"
    );
    say!("  two threads. Mean over the sorters, median of {repeat} runs; slowest: the slowest sorter.");
    say!("  Allgathers receive into their tables without copies. Omitted for all: finding the new rank, building");
    say!("  the rank table. Memory: {memory}.");
    say!("");
}

pub(super) fn print(split: &EmulatedSplit) {
    let EmulatedSplit { ranks, columns, .. } = split;
    let line = |name: &str, value: &dyn Fn(&Column) -> String| {
        let values: Vec<String> = columns.iter().map(|column| format!("{:>8}", value(column))).collect();
        format!("{name:<16}{}", values.join(""))
    };
    say!("{:>5}  {}", Size(*ranks), line("sorters", &|column| column.sorters.to_string()));
    for (name, value) in ROWS {
        say!("       {}", line(name, &|column| seconds(value(column))));
    }
    say!("       {}", line("slowest", &|column| seconds(column.slowest)));
    say!("       {}", line("rounds", &|column| column.rounds.to_string()));
    say!("       {}", line("parallel_sort", &|column| seconds(column.total() + column.copy)));
    for (name, times) in full_tables(split) {
        let FullTableTimes { sent, joined, sorted } = *times;
        let parts = format!("messages {}, combining {}, sorting {}", seconds(sent), seconds(joined), seconds(sorted));
        say!("       {name:<16}{:>8}  ({parts})", seconds(times.total()));
    }
    say!("       {}", line("over allgather", &|column| ratio(split.allgather_sort.total() / column.total())));
    say!("       {}", line("over merge", &|column| ratio(split.merge.total() / column.total())));
    say!("       {}", line("p_sort over mrg", &|column| ratio(split.merge.total() / (column.total() + column.copy))));
    say!("       {}", line("over small", &|column| ratio(split.small_groups.total() / column.total())));
    say!("");
}

fn full_tables(split: &EmulatedSplit) -> [(&'static str, &FullTableTimes); 3] {
    [("allgather_sort", &split.allgather_sort), ("  1/1000 sorted", &split.small_groups), ("merge", &split.merge)]
}

fn seconds(value: f64) -> String {
    format!("{value:.4}")
}

fn ratio(value: f64) -> String {
    format!("{value:.1}x")
}

/// Writes the records.
pub(super) fn write(splits: &[EmulatedSplit], repeat: u32, records: &mut Records) -> anyhow::Result<()> {
    let mut write_record = |ranks: u32, case: String, value: f64| {
        let case = format!("split/emulate/{}/{case}", Size(ranks));
        let record = Record::measured(case, "threads", ranks, &[value], ("s", Better::Low));
        records.write(&Record { samples: repeat as usize, ..record })
    };
    for split in splits {
        for column in &split.columns {
            for (name, value) in ROWS {
                write_record(split.ranks, format!("distributed/{}/{name}", column.sorters), value(column))?;
            }
            write_record(split.ranks, format!("parallel_sort/{}/total", column.sorters), column.total() + column.copy)?;
        }
        write_record(split.ranks, "allgather_sort".to_owned(), split.allgather_sort.total())?;
        write_record(split.ranks, format!("allgather_sort/1_of_{COLORS}"), split.small_groups.total())?;
        write_record(split.ranks, "merge".to_owned(), split.merge.total())?;
    }
    Ok(())
}
