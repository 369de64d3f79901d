//! Output of a simulation: a table, and records.

use serde::Serialize;
use treepie_schedule::Operation;
use treepie_sim::costs::{WanLinkEnds, wan_link_ends};
use treepie_topology::Network;

use super::row::Row;
use treepie_bench::format_number;
use treepie_bench::parameters::Parameters;
use treepie_bench::record::Record;

pub(super) fn print_header(operation: Operation, network: &Network, parameters: &Parameters) {
    say!("{} on {network}, {} ranks, simulated", operation.name(), network.ranks());
    say!("  {}: {}", parameters.machine, parameters.description);
    say!("");
    say!(
        "{:<40} {:>10} {:>12} {:>11} {:>13} {:>24}  {:<8} {:>12}",
        "algorithm",
        "bytes",
        "time",
        "MB/s/rank",
        "messages",
        "busiest link",
        "level",
        "formula"
    );
}

pub(super) fn print_row(row: &Row, network: &Network) {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    say!(
        "{:<40} {:>10} {:>12} {:>11} {:>13} {:>24}  {:<8} {:>12}",
        row.id,
        row.bytes,
        format_time(row.micros),
        or_none(row.bandwidth.map(format_number)),
        or_none(row.messages.map(|messages| messages.to_string())),
        or_none(row.busiest_link.map(|(link, bytes)| format!("{bytes} B on {}", link_name(link, network)))),
        row.level.name(),
        or_none(row.formula.map(format_time)),
    );
}

/// Prints why one of several algorithms was not simulated.
pub(super) fn print_refusal(id: &str, error: &anyhow::Error) {
    let why = error.to_string();
    let first = why.split("; these do").next().unwrap_or_default();
    say!("{id:<40} not simulated: {first}");
}

/// A time in us, ms or s.
fn format_time(micros: f64) -> String {
    match micros {
        1e6.. => format!("{:.4} s", micros / 1e6),
        1e3.. => format!("{:.3} ms", micros / 1e3),
        _ => format!("{micros:.3} us"),
    }
}

/// A link by its number, as `slow_link` takes it; a link between clusters by their numbers, and by its level if they
/// are nested.
fn link_name(link: u32, network: &Network) -> String {
    let Some(clusters) = network.as_clusters() else { return link.to_string() };
    match wan_link_ends(clusters, link) {
        Some(WanLinkEnds { level, from, to }) if clusters.levels() > 1 => format!("level {level}: {from}-{to}"),
        Some(WanLinkEnds { from, to, .. }) => format!("{from}-{to}"),
        None => link.to_string(),
    }
}

/// A record with the figures of a simulation.
#[derive(Serialize)]
pub(super) struct SimulatedRecord {
    #[serde(flatten)]
    record: Record,
    /// Bytes per microsecond received by a rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<f64>,
    /// Messages of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest_link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest_link_bytes: Option<u64>,
}

pub(super) fn record(row: &Row, network: &Network, parameters: &Parameters) -> SimulatedRecord {
    let machine = format!("{network}, {}: {}", parameters.machine, parameters.description);
    let record = Record::simulated(format!("{}/{}", row.id, row.bytes), network.ranks(), row.micros, "us", machine);
    let record = Record { statistic: row.level.name().to_owned(), ..record };
    SimulatedRecord {
        record,
        bandwidth: row.bandwidth,
        messages: row.messages,
        busiest_link: row.busiest_link.map(|(link, _)| link_name(link, network)),
        busiest_link_bytes: row.busiest_link.map(|(_, bytes)| bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wan_links_are_named_by_both_clusters() {
        assert_eq!(link_name(7, &"clusters:4x2".parse().unwrap()), "1-3");
        assert_eq!(link_name(7, &"torus:4x4".parse().unwrap()), "7");
    }

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!([0.5, 12.0, 1234.5, 2.5e6].map(format_time), ["0.500 us", "12.000 us", "1.234 ms", "2.5000 s"]);
    }
}
