//! `treepie bench split`: the cost of splitting large communicators, emulated as in the thesis, and simulated.

mod checks;
mod cost;
mod doubling;
mod emulated;
mod group;
mod hockney;
mod lookups;
mod report;
mod scaling;
mod simulated;
mod sizes;
mod sorters;
mod tables;
mod timed_split;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use anyhow::{Context, ensure};
use emulated::Emulation;
use scaling::{SplitAlgorithmChoice, SplitScaling};
use sizes::{Size, Sizes};
use treepie_comm::split::SplitEntry;
use treepie_model::machines::PaperMachine;

use crate::machine;
use crate::record::Records;

/// Splits of large communicators with each algorithm, phase by phase: emulated or simulated
#[derive(clap::Args)]
pub(crate) struct SplitBench {
    /// Emulate splits of this number of ranks, e.g. 128M or 8M..128M: the sorters are real ranks, the others emulated
    #[arg(long, value_name = "SIZES", required_unless_present_any = ["simulate", "look_ups", "quick"])]
    emulate: Option<Sizes>,
    /// Simulate splits of this number of ranks, e.g. 1k..64k or 1M
    #[arg(long, value_name = "SIZES")]
    simulate: Option<Sizes>,
    /// Measure lookups in a distributed rank table, and the hit rate of their cache
    #[arg(long)]
    look_ups: bool,
    /// Number of sorters, e.g. 64 or 2..64 [default: 2..64]
    #[arg(long, value_name = "SIZES")]
    sorters: Option<Sizes>,
    /// Simulated algorithm, e.g. split/distributed, or all
    #[arg(long, value_name = "ID", default_value = "all", requires = "simulate", value_parser = scaling::parse_algorithm)]
    way: SplitAlgorithmChoice,
    /// Simulate with the parameters of this machine: intrepid, jaguar, bigred
    #[arg(long, value_name = "MACHINE", default_value = "intrepid", requires = "simulate")]
    machine: PaperMachine,
    /// Number of emulated runs
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Emulate with fresh memory from the system instead of reusing freed memory
    #[arg(long, requires = "emulate")]
    fresh: bool,
    /// Small sizes unless others are given, for a quick test
    #[arg(long)]
    quick: bool,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Maximum number of emulated sorters: each is a thread.
const MAX_SORTERS: u32 = 256;

impl SplitBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let sizes = |text: &str| Sizes::from_str(text).expect("a valid size");
        let small = |text: &str| (self.quick && self.emulate.is_none() && self.simulate.is_none()).then(|| sizes(text));
        let emulate = self.emulate.clone().or_else(|| small("32k..64k"));
        let simulate = self.simulate.clone().or_else(|| small("256..512"));
        let sorters = &self.sorters.clone().unwrap_or_else(|| sizes(if self.quick { "2..8" } else { "2..64" }));
        emulate.as_ref().map_or(Ok(()), |sizes| check_emulated(sizes, sorters))?;
        let scaling =
            simulate.as_ref().map(|sizes| SplitScaling { sizes, sorters, algorithm: &self.way, machine: self.machine });
        scaling.as_ref().map_or(Ok(()), SplitScaling::check)?;
        // First, as this may restart the program.
        let memory = if emulate.is_some() && !self.fresh { reexec_with_tunables()? } else { "fresh from the system" };
        let mut records = Records::create(self.json.as_deref())?;
        if let Some(sizes) = &emulate {
            let (repeat, quick) = (if self.quick { 1 } else { self.repeat }, self.quick);
            Emulation { sizes, sorters, repeat, quick, memory }.run(&mut records)?;
        }
        if emulate.is_some() && scaling.is_some() {
            say!("");
        }
        scaling.map_or(Ok(()), |scaling| scaling.run(&mut records))?;
        if self.look_ups || self.quick {
            lookups::run(&mut records)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Rejects sizes that cannot be emulated.
fn check_emulated(sizes: &Sizes, sorters: &Sizes) -> anyhow::Result<()> {
    let (first, max, sorters) = (sizes.first(), sizes.last(), sorters.last());
    ensure!(sorters <= MAX_SORTERS, "{sorters} sorters are too many: at most {MAX_SORTERS}");
    ensure!(sorters <= first / 2, "{} ranks cannot have {sorters} sorters: at most half of them", Size(first));
    // A table, what is merged into it, and messages in flight; the sorters together hold the same.
    machine::ensure_memory(
        &format!("{} ranks", Size(max)),
        2.5 * f64::from(max) * size_of::<SplitEntry>() as f64,
        machine::USABLE,
    )
}

/// The C library's tuning variable, which it reads once, when a program starts.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Huge pages, one heap for all threads, and freed memory is kept.
const KEEP_FREED_MEMORY: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=\
     1099511627776";

/// Restarts the program with an allocator that keeps freed memory, unless the user has set the variable: fresh memory
/// from the system takes longer than merging, with all algorithms alike.
fn reexec_with_tunables() -> anyhow::Result<&'static str> {
    match std::env::var(TUNABLES) {
        Ok(set) if set == KEEP_FREED_MEMORY => return Ok("freed memory is reused, on huge pages"),
        Ok(_) => return Ok("as set by GLIBC_TUNABLES"),
        Err(_) => {}
    }
    let mut restarted = Command::new(std::env::current_exe()?);
    let failed = restarted.args(std::env::args_os().skip(1)).env(TUNABLES, KEEP_FREED_MEMORY).exec();
    Err(failed).context("cannot restart with an allocator that keeps memory; use --fresh")
}
