//! What was simulated, for people and as records.

use std::path::Path;

use anyhow::Context;
use treepie_schedule::Operation;
use treepie_topology::Network;

use super::super::bench::number;
use super::super::record::{Better, Record};
use super::parameters::Parameters;
use super::row::Row;

pub(super) fn print_head(operation: Operation, network: &Network, parameters: &Parameters) {
    say!("{} on {network}, {} ranks, simulated", operation.name(), network.ranks());
    say!("  {}: {}", parameters.machine, parameters.shown);
    say!("");
    say!(
        "{:<40} {:>10} {:>12} {:>11} {:>13} {:>13}  {:<8} {:>12}",
        "algorithm",
        "bytes",
        "time",
        "MB/s a rank",
        "messages",
        "busiest link",
        "by",
        "formula"
    );
}

pub(super) fn print_row(row: &Row) {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    say!(
        "{:<40} {:>10} {:>12} {:>11} {:>13} {:>13}  {:<8} {:>12}",
        row.id,
        row.bytes,
        time(row.micros),
        or_none(row.bandwidth.map(number)),
        or_none(row.messages.map(|messages| messages.to_string())),
        or_none(row.worst_link.map(|bytes| format!("{bytes} B"))),
        row.level.name(),
        or_none(row.formula.map(time)),
    );
}

/// An algorithm that was tried among others.
pub(super) fn print_refusal(id: &str, error: &anyhow::Error) {
    let why = error.to_string();
    let first = why.split("; these do").next().unwrap_or_default();
    say!("{id:<40} not simulated: {first}");
}

/// Microseconds, or milliseconds or seconds where those are many.
fn time(micros: f64) -> String {
    match micros {
        1e6.. => format!("{:.4} s", micros / 1e6),
        1e3.. => format!("{:.3} ms", micros / 1e3),
        _ => format!("{micros:.3} us"),
    }
}

pub(super) fn record(row: &Row, network: &Network, parameters: &Parameters) -> Record {
    Record {
        case: format!("{}/{}", row.id, row.bytes),
        engine: "sim".to_owned(),
        ranks: network.ranks(),
        value: row.micros,
        unit: "us".to_owned(),
        better: Better::Low,
        statistic: row.level.name().to_owned(),
        spread: 0.0,
        samples: 1,
        machine: format!("{network}, {}: {}", parameters.machine, parameters.shown),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against: None,
    }
}

/// Writes a file, all of it or none.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        // It may not exist, or may not be removable either; the first error is the one to tell.
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!([0.5, 12.0, 1234.5, 2.5e6].map(time), ["0.500 us", "12.000 us", "1.234 ms", "2.5000 s"]);
    }
}
