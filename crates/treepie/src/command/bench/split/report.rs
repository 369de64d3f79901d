//! What was emulated, as the thesis prints it, and as records.

use super::super::super::machine;
use super::super::super::record::{Better, Record, Records};
use super::cost::Transfer;
use super::emulated::{COLOURS, Column, Split, Whole};
use super::sizes::Size;

/// A row of the table.
type Row = (&'static str, fn(&Column) -> f64);

const ROWS: [Row; 5] = [
    ("collect", |column| column.collect),
    ("splitters", |column| column.splitters),
    ("exchange", |column| column.exchange),
    ("merge", |column| column.merge),
    ("total", Column::total),
];

pub(super) fn print_rules(machine: &str, transfer: &Transfer, repeat: u32, memory: &str) {
    let (latency, bandwidth) = (transfer.latency * 1e6, 1e-9 / transfer.per_byte);
    say!("Splits of large communicators, emulated on {machine}");
    say!(
        "  As in the thesis (2.4): one new communicator of all ranks, random keys. Those who sort are real ranks (threads),"
    );
    say!(
        "  one at a time; doublings are played by two ranks. Seconds of a rank: its CPU within the protocol, and for each"
    );
    say!(
        "  message that it sends {latency:.2} us and for its bytes what {bandwidth:.2} GB/s take, both measured now by a ping-pong of"
    );
    say!(
        "  two threads. Mean of the ranks who sort, medians of {repeat} runs; slowest is that of them who took longest."
    );
    say!(
        "  All gather into their tables without copies. Left out in all ways: finding one's place, making the table of"
    );
    say!("  ranks. Memory: {memory}.");
    say!("");
}

pub(super) fn print(split: &Split) {
    let Split { ranks, columns, .. } = split;
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
    for (name, whole) in wholes(split) {
        let Whole { sent, joined, sorted } = *whole;
        let parts = format!("messages {}, joining {}, sorting {}", seconds(sent), seconds(joined), seconds(sorted));
        say!("       {name:<16}{:>8}  ({parts})", seconds(whole.total()));
    }
    say!("       {}", line("over allgather", &|column| ratio(split.allgather_sort.total() / column.total())));
    say!("       {}", line("over merge", &|column| ratio(split.merge.total() / column.total())));
    say!("       {}", line("p_sort over mrg", &|column| ratio(split.merge.total() / (column.total() + column.copy))));
    say!("       {}", line("over small", &|column| ratio(split.small.total() / column.total())));
    say!("");
}

fn wholes(split: &Split) -> [(&'static str, &Whole); 3] {
    [("allgather_sort", &split.allgather_sort), ("  1/1000 sorted", &split.small), ("merge", &split.merge)]
}

fn seconds(value: f64) -> String {
    format!("{value:.4}")
}

fn ratio(value: f64) -> String {
    format!("{value:.1}x")
}

/// Writes everything as records.
pub(super) fn write(splits: &[Split], repeat: u32, records: &mut Records) -> anyhow::Result<()> {
    let machine = machine::describe();
    let mut tell = |ranks: u32, case: String, value: f64| {
        records.write(&Record {
            case: format!("split/emulate/{}/{case}", Size(ranks)),
            engine: "threads".to_owned(),
            ranks,
            value,
            unit: "s".to_owned(),
            better: Better::Low,
            statistic: "median".to_owned(),
            spread: 0.0,
            samples: repeat as usize,
            machine: machine.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        })
    };
    for split in splits {
        for column in &split.columns {
            for (name, value) in ROWS {
                tell(split.ranks, format!("distributed/{}/{name}", column.sorters), value(column))?;
            }
            tell(split.ranks, format!("parallel_sort/{}/total", column.sorters), column.total() + column.copy)?;
        }
        tell(split.ranks, "allgather_sort".to_owned(), split.allgather_sort.total())?;
        tell(split.ranks, format!("allgather_sort/1_of_{COLOURS}"), split.small.total())?;
        tell(split.ranks, "merge".to_owned(), split.merge.total())?;
    }
    Ok(())
}
