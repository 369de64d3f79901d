//! A profile as a table and as records.

use treepie_bench::format_number;
use treepie_bench::record::{Better, Record};
use treepie_model::plogp::{PLogP, PiecewiseLinear};
use treepie_model::profile::{HostCollectiveTime, LevelProfile, PairFactors, Profile};

pub(super) fn print(profile: &Profile) {
    let origin = &profile.origin;
    say!("{} ranks on {}: {}", origin.ranks, origin.engine, origin.machine);
    say!("");
    let columns = ["L us", "g(0) us", "os(0) us", "or(0) us", "MB/s", "error", "link use"];
    say!("{:<14} {:<14} {}", "level", "groups", columns.map(|column| format!("{column:>9}")).join(" "));
    for level in &profile.levels {
        print_link(level, &level.name, &level.link);
        if let Some(reverse) = &level.reverse {
            print_link(level, "  reverse", reverse);
        }
        for PairFactors { from, to, latency, bytes } in &level.pairs {
            let factors = [latency, bytes].map(|factor| format_number(*factor));
            say!("  group {from} to {to}: {} times the latency, {} times the time of bytes", factors[0], factors[1]);
        }
    }
    say!("");
    let per_byte = |micros: f64| format!("{} ns/byte", format_number(1e3 * micros));
    let micros = |micros: f64| format!("{} us", format_number(micros));
    row("reduction", &per_byte(profile.reduce_per_byte));
    row("copy", &per_byte(profile.copy_per_byte));
    row("scheduling", &format!("{} for each rank on a core, if ranks share cores", micros(profile.scheduling)));
    let vanishes = format!("as a standard send above {} bytes", profile.synchronous.vanishes_at);
    row("synchronous", &format!("{}; {vanishes}", micros(profile.synchronous.latency)));
    if let Some(barrier) = profile.barrier {
        row("barrier", &micros(barrier));
    }
    if let Some(segment) = &profile.shared_segment {
        let at = |curve: &PiecewiseLinear| format!("{} of 64 KiB", micros(curve.at(65536.0)));
        let copies = [&segment.copy_in, &segment.copy_out].map(at);
        row("shared segment", &format!("round {}, copy in {}, out {}", micros(segment.round), copies[0], copies[1]));
        row("single copy", &at(&segment.single_copy));
    }
    for HostCollectiveTime { operation, time } in &profile.host_collectives {
        let [short, long] = [8.0, (1 << 20) as f64].map(|bytes| micros(time.at(bytes)));
        row(&format!("{operation}/mpi"), &format!("{short} of 8 bytes, {long} of 1 MiB"));
    }
    for level in profile.levels.iter().filter(|level| !level.is_complete) {
        say!("\nThe time was up before all sizes of the level {} were measured.", level.name);
    }
}

fn row(name: &str, text: &str) {
    say!("{name:<14} {text}");
}

fn print_link(level: &LevelProfile, name: &str, link: &PLogP) {
    let groups = match level.groups.as_slice() {
        [] => "all".to_owned(),
        groups => groups.iter().map(u32::to_string).collect::<Vec<_>>().join("+"),
    };
    let times =
        [link.latency, link.gap.at(0.0), link.send_overhead.at(0.0), link.recv_overhead.at(0.0), link.bandwidth()];
    let link_use = level.measured_bytes as f64 / level.saturating_bytes.max(1) as f64;
    let mut columns = times.map(format_number).to_vec();
    columns.extend([level.error, link_use].map(|share| format!("{}%", format_number(100.0 * share))));
    let columns: Vec<String> = columns.iter().map(|column| format!("{column:>9}")).collect();
    say!("{name:<14} {groups:<14} {}", columns.join(" "));
}

/// The curves, and the latency of each level.
pub(super) fn records(profile: &Profile) -> Vec<Record> {
    let record = |case: String, value: f64| Record {
        case: format!("tune/{case}"),
        engine: profile.origin.engine.clone(),
        ranks: profile.origin.ranks,
        value,
        unit: "us".to_owned(),
        better: Better::Low,
        statistic: "mean".to_owned(),
        spread: 0.0,
        samples: 1,
        machine: profile.origin.machine.clone(),
        version: profile.origin.version.clone(),
        against: None,
    };
    let mut records = Vec::new();
    for level in &profile.levels {
        let reverse = level.reverse.as_ref().map(|reverse| (format!("{}/reverse", level.name), reverse));
        records.push(record(format!("{}/latency", level.name), level.link.latency));
        for (name, link) in std::iter::once((level.name.clone(), &level.link)).chain(reverse) {
            let curves =
                [("send_overhead", &link.send_overhead), ("recv_overhead", &link.recv_overhead), ("gap", &link.gap)];
            for (curve, function) in curves {
                let points = function.points().iter();
                records.extend(points.map(|(bytes, micros)| record(format!("{name}/{curve}/{bytes}"), *micros)));
            }
        }
    }
    for HostCollectiveTime { operation, time } in &profile.host_collectives {
        let points = time.points().iter();
        records.extend(points.map(|(bytes, micros)| record(format!("{operation}/mpi/{bytes}"), *micros)));
    }
    records
}
