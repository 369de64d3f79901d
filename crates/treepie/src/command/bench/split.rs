//! `treepie bench split`: what splitting a large communicator costs, emulated as in the thesis, and simulated.

mod checks;
mod cost;
mod doubling;
mod emulated;
mod group;
mod look_ups;
mod report;
mod scales;
mod simulated;
mod sizes;
mod sorters;
mod tables;
mod transfer;
mod watched;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use anyhow::{Context, ensure};
use emulated::Emulation;
use scales::{Asked, Scales};
use sizes::{Size, Sizes};
use treepie_comm::split::Entry;
use treepie_model::machines::Machine;

use super::super::machine;
use super::super::record::Records;

/// Splits of large communicators, by each way: phase by phase, emulated or simulated
#[derive(clap::Args)]
pub(crate) struct Split {
    /// Emulate splits of so many ranks, as 128M or 8M..128M: those who sort are real, the rest is played
    #[arg(long, value_name = "SIZES", required_unless_present_any = ["simulate", "look_ups", "quick"])]
    emulate: Option<Sizes>,
    /// Simulate splits of so many ranks, as 1k..64k or 1M
    #[arg(long, value_name = "SIZES")]
    simulate: Option<Sizes>,
    /// Measure look-ups in a table that ranks share, and how often their cache has the answer
    #[arg(long)]
    look_ups: bool,
    /// How many ranks sort together, as 64 or 2..64 [default: 2..64]
    #[arg(long, value_name = "SIZES")]
    sorters: Option<Sizes>,
    /// By which way it is simulated, as split/distributed; all are all of them
    #[arg(long, value_name = "ID", default_value = "all", requires = "simulate", value_parser = scales::asked)]
    way: Asked,
    /// Simulate with the parameters of this machine: intrepid, jaguar, bigred
    #[arg(long, value_name = "MACHINE", default_value = "intrepid", requires = "simulate")]
    machine: Machine,
    /// How many runs of what is emulated
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Emulate with fresh memory of the system, not with what was used before
    #[arg(long, requires = "emulate")]
    fresh: bool,
    /// Something small unless sizes are named, to see that it works
    #[arg(long)]
    quick: bool,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// As many ranks can sort here: each is a thread.
const MOST_SORTERS: u32 = 256;

impl Split {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let sizes = |text: &str| Sizes::from_str(text).expect("it is written as users would");
        let small = |text: &str| (self.quick && self.emulate.is_none() && self.simulate.is_none()).then(|| sizes(text));
        let emulate = self.emulate.clone().or_else(|| small("32k..64k"));
        let simulate = self.simulate.clone().or_else(|| small("256..512"));
        let sorters = &self.sorters.clone().unwrap_or_else(|| sizes(if self.quick { "2..8" } else { "2..64" }));
        emulate.as_ref().map_or(Ok(()), |sizes| check_emulated(sizes, sorters))?;
        let scales = simulate.as_ref().map(|sizes| Scales { sizes, sorters, way: &self.way, machine: self.machine });
        scales.as_ref().map_or(Ok(()), Scales::check)?;
        // First of all, as this begins again.
        let memory = if emulate.is_some() && !self.fresh { keep_memory()? } else { "fresh from the system" };
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        if let Some(sizes) = &emulate {
            let (repeat, quick) = (if self.quick { 1 } else { self.repeat }, self.quick);
            Emulation { sizes, sorters, repeat, quick, memory }.run(records.as_mut())?;
        }
        if emulate.is_some() && scales.is_some() {
            say!("");
        }
        scales.map_or(Ok(()), |scales| scales.run(records.as_mut()))?;
        if self.look_ups || self.quick {
            look_ups::run(records.as_mut())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What cannot be emulated is refused.
fn check_emulated(sizes: &Sizes, sorters: &Sizes) -> anyhow::Result<()> {
    let (first, most, sorters) = (sizes.first(), sizes.last(), sorters.last());
    ensure!(sorters <= MOST_SORTERS, "{sorters} ranks cannot sort here, at most {MOST_SORTERS} can");
    ensure!(sorters <= first / 2, "of {} ranks, {sorters} cannot sort together: at most half can", Size(first));
    // A table, what is merged into it, and what is on its way; sorters hold as much together.
    let needed = 2.5 * f64::from(most) * size_of::<Entry>() as f64;
    let there = machine::memory("MemAvailable").map_or(f64::MAX, |bytes| bytes as f64 / 2.0);
    ensure!(needed <= there, "{} ranks need {:.0} MB, which there is not", Size(most), needed / 1e6);
    Ok(())
}

/// How the C library is told of it; it looks once, when a program begins.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Huge pages, one heap for all threads, and what was freed stays there.
const WARM: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=\
     1099511627776";

/// Begins again with an allocator that keeps what was freed, unless the user has told it something: to get fresh memory from
/// the system takes longer than merging, in all ways alike.
fn keep_memory() -> anyhow::Result<&'static str> {
    match std::env::var(TUNABLES) {
        Ok(set) if set == WARM => return Ok("what was freed is kept, on huge pages"),
        Ok(_) => return Ok("as GLIBC_TUNABLES says"),
        Err(_) => {}
    }
    let mut again = Command::new(std::env::current_exe()?);
    let failed = again.args(std::env::args_os().skip(1)).env(TUNABLES, WARM).exec();
    Err(failed).context("cannot begin again with an allocator that keeps memory; say --fresh")
}
