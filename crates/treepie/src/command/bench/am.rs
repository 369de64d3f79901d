//! `treepie bench am`: active messages.

mod case;
mod costs;
mod figures;
mod gather;
mod latency;
mod rank;
mod runs;
mod stream;
mod sweep;
mod updates;
mod work;

use std::process::ExitCode;

use anyhow::ensure;
use figures::Scale;
pub(crate) use rank::AmRank;
use runs::Runs;
use sweep::{Row, Sweep};
use treepie::am::Config;

use super::super::bytes::number;
use super::super::machine;
use super::Sides;
use super::comparison::{Comparison, Measured, print_if_too_few};
use super::figure::{BATCHES, Figure};
use super::output::ensure_same;
use super::peer::Source;
use super::table::{NAME, print_header, print_record};

/// Active messages: random updates, questions for random words, the time of one message and of an epoch
#[derive(clap::Args)]
pub(crate) struct Am {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    #[command(flatten)]
    sides: Sides,
    /// Words of 8 bytes in the table of each rank, a power of two, as 4194304 or 4M
    #[arg(long, value_name = "N", default_value = "4194304", value_parser = words)]
    words: usize,
    /// Updates of each rank in a batch [default: 8388608 of all ranks together]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    updates: Option<u32>,
    /// How messages travel, as coalescing=512,routing=rook,reductions=off,style=bsp
    #[arg(long, value_name = "CONFIG", default_value = "", hide_default_value = true)]
    config: Config,
    /// Measure adaptive settings against fixed ones instead
    #[arg(long, value_enum, conflicts_with = "against")]
    sweep: Option<Sweep>,
    /// In sweeps, so many nanoseconds of other work for each message that is handled
    #[arg(long, value_name = "NS", default_value = "0", hide_default_value = true, requires = "sweep")]
    handler_work: u32,
}

const PEER: Source = Source { name: "am_peer", text: include_str!("am_peer.c") };

/// What messages are configured by where nothing else is said.
const CONFIGURATION: &str = "TREEPIE_AM";

/// Alternations of settings, unless the user says.
const SWEEPS: usize = 30;

/// Places in all tables together are drawn by 32 bits.
const MOST_WORDS: u64 = 1 << 32;

fn words(text: &str) -> Result<usize, String> {
    let words = number(text).and_then(|words| usize::try_from(words).ok()).filter(|words| words.is_power_of_two());
    words.ok_or_else(|| "not a power of two, as 4194304 or 4M".to_owned())
}

impl Am {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // Records would call it the default.
        ensure!(std::env::var_os(CONFIGURATION).is_none(), "{CONFIGURATION} is set: unset it, and say --config");
        self.check_memory()?;
        let updates = self.updates.map(|updates| updates as usize);
        let scale = Scale::new(self.ranks, self.words, updates, self.handler_work);
        let comparison = Comparison::new(self.ranks, &self.sides, &["am-rank"], &PEER)?;
        comparison.print_sides("Active messages", "do the same updates and ask the same questions", BATCHES);
        match self.sweep {
            None => self.measure(scale, comparison)?,
            Some(sweep) => self.sweep(scale, sweep, comparison)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn check_memory(&self) -> anyhow::Result<()> {
        let (ranks, words) = (u64::from(self.ranks), self.words as u64);
        ensure!(ranks * words <= MOST_WORDS, "{ranks} ranks cannot have {words} words each, all together at most 2^32");
        // Two tables of a rank at once.
        let needed = (ranks * words * 16) as f64;
        let there = machine::memory("MemAvailable").map_or(f64::MAX, |bytes| bytes as f64 / 2.0);
        ensure!(needed <= there, "tables need {:.0} MB, which there is not", needed / 1e6);
        Ok(())
    }

    fn measure(&self, scale: Scale, comparison: Comparison) -> anyhow::Result<()> {
        let figures = scale.figures(&self.config);
        let (peer, repeat) = (comparison.peer().map(str::to_owned), comparison.repeat);
        self.print_rules(scale, peer.is_some());
        let Measured { records, ours, theirs, mut file } = comparison.measure(&figures)?;
        ensure_same(&ours, &theirs)?;
        print_header(peer.as_deref());
        records.iter().for_each(print_record);
        let runs = Runs::read(&figures, &ours)?;
        say!("");
        let costs = costs::print(scale, &scale.costs(&self.config), &runs, &records)?;
        if let Some(file) = &mut file {
            costs.iter().try_for_each(|record| file.write(record))?;
        }
        print_ratios(&figures, &runs)?;
        if peer.is_some() {
            print_if_too_few(repeat);
        }
        Ok(())
    }

    fn sweep(&self, scale: Scale, sweep: Sweep, mut comparison: Comparison) -> anyhow::Result<()> {
        comparison.repeat = self.sides.repeat.map_or(SWEEPS, |repeat| repeat as usize);
        say!("  Settings take turns, batch by batch; ratios are those of runs, with their 95% interval.");
        say!("");
        let rows = sweep.rows(scale, &self.config, self.handler_work);
        let figures: Vec<Figure> = rows.iter().flat_map(|row: &Row| row.figures.iter().cloned()).collect();
        let Measured { records, ours, .. } = comparison.measure(&figures)?;
        let runs = Runs::read(&figures, &ours)?;
        rows.iter().try_for_each(|row| row.print(&runs, &records))
    }

    fn print_rules(&self, scale: Scale, is_compared: bool) {
        let Scale { words, updates, .. } = scale;
        say!(
            "  update    each rank adds to {updates} random words of tables of {words} words on each rank, in one epoch;"
        );
        say!(
            "            by handlers for one message, for one that tells what it will touch, and for many; -huge: on huge"
        );
        say!("            pages; empty: the handler does nothing; combine: updates of a word may be combined");
        if self.ranks == 1 {
            say!("            local: the same without messages, a plain loop");
        }
        say!("  gather    as many questions for random words, and their answers, in one epoch");
        if self.ranks > 1 {
            say!("  ping      one message whose handler sends it back, per message");
        }
        say!("  epoch     an empty one; sum: to whose sum each rank adds");
        if is_compared {
            say!(
                "  MPI does updates in rounds of 65536: sorted by rank, MPI_Alltoall of their numbers, MPI_Alltoallv, on plain"
            );
            say!("  pages; answers go back by another one; MPI_Send and MPI_Recv; MPI_Allreduce of one word.");
        }
        say!("");
    }
}

/// How figures compare with each other that were measured in turn in the same jobs.
fn print_ratios(figures: &[Figure], runs: &Runs<'_>) -> anyhow::Result<()> {
    let find = |begin: &str| figures.iter().find(|figure| figure.name.starts_with(begin)).map(|figure| &figure.name);
    if let Some(local) = find("am/update/local") {
        say!("Over a plain loop in the same jobs:");
        for figure in figures.iter().filter(|figure| figure.name.starts_with("am/update/") && figure.name != *local) {
            say!("{:<NAME$} {}", figure.name, runs.ratio(&figure.name, local)?);
        }
    }
    if let (Some(gather), Some(touch)) = (find("am/gather/"), find("am/update/touch")) {
        say!("Over {touch} in the same jobs:");
        say!("{gather:<NAME$} {}", runs.ratio(gather, touch)?);
    }
    Ok(())
}
