//! Profiles as TOML text.

use std::fmt::{self, Write};

use super::{HostCollectiveTime, LevelProfile, PairFactors, Profile};
use crate::plogp::{PLogP, PiecewiseLinear};

impl Profile {
    /// The file that [`Profile::parse`] reads. Curves get points at the sizes of each other, which changes none of
    /// their values.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("strings take any text");
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let Self { origin, synchronous, .. } = self;
        writeln!(out, "# What communication costs on a machine, measured by treepie tune.")?;
        writeln!(out, "# Times are microseconds, and sizes are bytes.")?;
        writeln!(out, "format = {}", super::file::FORMAT)?;
        writeln!(out, "level_count = {}", self.levels.len())?;
        if !self.rank_order.is_empty() {
            writeln!(out, "\n# The ranks in an order in which the groups of every level are consecutive.")?;
            writeln!(out, "rank_order = {:?}", self.rank_order)?;
        }
        writeln!(out, "\n# Where and when. 0 ranks are any number, and 0 cores those of several machines.")?;
        writeln!(out, "[origin]")?;
        writeln!(out, "engine = {}", quoted(&origin.engine))?;
        writeln!(out, "machine = {}", quoted(&origin.machine))?;
        writeln!(out, "ranks = {}\ncores = {}", origin.ranks, origin.cores)?;
        writeln!(out, "measured = {}", quoted(&origin.measured))?;
        writeln!(out, "version = {}", quoted(&origin.version))?;
        writeln!(
            out,
            "\n# Costs of a rank: to combine and to copy a byte; until it is scheduled, for each rank on its"
        )?;
        writeln!(out, "# core, if there are more ranks than cores; the engine's barrier, if it has one.")?;
        writeln!(out, "[rank]")?;
        writeln!(out, "reduce_per_byte = {:?}\ncopy_per_byte = {:?}", self.reduce_per_byte, self.copy_per_byte)?;
        writeln!(out, "scheduling = {:?}", self.scheduling)?;
        if let Some(barrier) = self.barrier {
            writeln!(out, "barrier = {barrier:?}")?;
        }
        writeln!(
            out,
            "\n# Synchronous sends: latency of a short one; size from which on it costs no more than another."
        )?;
        writeln!(out, "[synchronous_send]")?;
        writeln!(out, "latency = {:?}\nvanishes_at = {:?}", synchronous.latency, synchronous.vanishes_at)?;
        if let Some(segment) = &self.shared_segment {
            writeln!(
                out,
                "\n# Collective operations through memory that all ranks share: a round; bytes written into a"
            )?;
            writeln!(out, "# slot and read from another's, or read from another rank's memory directly.")?;
            writeln!(out, "[shared_segment]")?;
            writeln!(out, "round = {:?}", segment.round)?;
            let curves = [("copy_in", &segment.copy_in), ("copy_out", &segment.copy_out)];
            write_curves(out, "size", &[curves[0], curves[1], ("single_copy", &segment.single_copy)])?;
        }
        for HostCollectiveTime { operation, time } in &self.host_collectives {
            writeln!(
                out,
                "\n# A collective operation that the MPI library runs, with bytes of all blocks or of the vector."
            )?;
            writeln!(out, "[[host_collective]]\noperation = {}", quoted(operation))?;
            write_curves(out, "size", &[("time", time)])?;
        }
        self.levels.iter().try_for_each(|level| level.write(out))
    }
}

impl LevelProfile {
    fn write(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "\n# Links, from those between the closest ranks on. groups: numbers of ranks, or one group of all."
        )?;
        writeln!(
            out,
            "# Two points of one size are a jump: the first belongs to that size, the second to larger ones."
        )?;
        writeln!(out, "[[level]]")?;
        writeln!(out, "name = {}", quoted(&self.name))?;
        if !self.groups.is_empty() {
            writeln!(out, "groups = {:?}", self.groups)?;
        }
        writeln!(out, "latency = {:?}", self.link.latency)?;
        if let Some(window) = self.window {
            writeln!(out, "# Bytes that a gateway accepts before its link has carried them.\nwindow = {window:?}")?;
        }
        writeln!(out, "# Largest relative error of a round trip; whether there was time for all sizes.")?;
        writeln!(out, "error = {:?}\ncomplete = {}", self.error, self.is_complete)?;
        writeln!(out, "# Bytes of the measurement, and those of one that saturates the link with each size.")?;
        writeln!(out, "measured_bytes = {}\nsaturating_bytes = {}", self.measured_bytes, self.saturating_bytes)?;
        writeln!(out, "# Whether the opposite direction differs; if so, reverse_size has it.")?;
        writeln!(out, "asymmetric = {}", self.reverse.is_some())?;
        if !self.pairs.is_empty() {
            writeln!(out, "pair_count = {}", self.pairs.len())?;
        }
        write_link(out, "size", &self.link)?;
        self.reverse.as_ref().map_or(Ok(()), |reverse| write_link(out, "reverse_size", reverse))?;
        if !self.pairs.is_empty() {
            writeln!(out, "# Links between two groups of the level below, relative to the others of this level.")?;
            writeln!(out, "pair = [")?;
            for PairFactors { from, to, latency, bytes } in &self.pairs {
                let values = format!("from = {from}, to = {to}, latency = {latency:?}, bytes = {bytes:?}");
                writeln!(out, "  {{ {values} }},")?;
            }
            writeln!(out, "]")?;
        }
        Ok(())
    }
}

/// Send overhead os(m), receive overhead or(m) and gap g(m).
fn write_link(out: &mut String, key: &str, link: &PLogP) -> fmt::Result {
    let PLogP { send_overhead, recv_overhead, gap, .. } = link;
    write_curves(out, key, &[("send_overhead", send_overhead), ("recv_overhead", recv_overhead), ("gap", gap)])
}

/// Curves with their names, one size in each line.
fn write_curves(out: &mut String, key: &str, curves: &[(&str, &PiecewiseLinear)]) -> fmt::Result {
    let mut sizes: Vec<f64> = curves.iter().flat_map(|(_, curve)| curve.points().iter().map(|point| point.0)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    writeln!(out, "{key} = [")?;
    let mut write_point = |size: f64, value: fn(&PiecewiseLinear, f64) -> f64| {
        let values: String =
            curves.iter().map(|(name, curve)| format!(", {name} = {:?}", value(curve, size))).collect();
        writeln!(out, "  {{ bytes = {size}{values} }},")
    };
    for size in sizes {
        write_point(size, PiecewiseLinear::at)?;
        if curves.iter().any(|(_, curve)| curve.knees().any(|knee| knee == size)) {
            write_point(size, PiecewiseLinear::after)?;
        }
    }
    writeln!(out, "]")
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => quoted.push_str(&format!("\\u{:04X}", character as u32)),
            character => quoted.push(character),
        }
    }
    quoted + "\""
}
