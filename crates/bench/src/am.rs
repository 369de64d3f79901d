//! `treepie bench am`: active messages.

mod costs;
mod figures;
mod gather;
mod latency;
mod rank;
mod runs;
mod stream;
mod sweep;
mod task;
mod updates;
mod work;

use std::process::ExitCode;

use anyhow::ensure;
use figures::Scale;
pub(crate) use rank::AmPrograms;
use runs::Runs;
use sweep::{Row, Sweep};
use treepie::am::Config;

use crate::harness::comparison::Comparison;
use crate::harness::figure::{BATCHES, Figure};
use crate::harness::peer::Source;
use crate::harness::table::NAME_WIDTH;
use crate::{ComparisonOptions, ensure_unset, machine};
use treepie_base::units::parse_number;

/// Active messages: random updates (GUPS), index-gather, message latency and epoch time
#[derive(clap::Args)]
pub(crate) struct Am {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    #[command(flatten)]
    comparison: ComparisonOptions,
    /// 8-byte words of each rank's table, a power of two, e.g. 4194304 or 4M
    #[arg(long, value_name = "N", default_value = "4194304", value_parser = parse_words)]
    words: usize,
    /// Updates per rank and batch [default: 8388608 in total]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    updates: Option<u32>,
    /// Configuration, e.g. coalescing=512,routing=rook,reductions=off,style=bsp
    #[arg(long, value_name = "CONFIG", default_value = "", hide_default_value = true)]
    config: Config,
    /// Compare the adaptive setting with fixed ones instead
    #[arg(long, value_enum, conflicts_with = "against")]
    sweep: Option<Sweep>,
    /// With --sweep: nanoseconds of extra work per handled message
    #[arg(long, value_name = "NS", default_value = "0", hide_default_value = true, requires = "sweep")]
    handler_work: u32,
}

const PEER: Source = Source { name: "am_peer", text: include_str!("am/peer.c") };

/// Default number of alternations of the settings.
const SWEEP_ALTERNATIONS: usize = 30;

/// Indices into the table of all ranks are drawn from 32 random bits.
const MAX_TOTAL_WORDS: u64 = 1 << 32;

fn parse_words(text: &str) -> Result<usize, String> {
    let words =
        parse_number(text).and_then(|words| usize::try_from(words).ok()).filter(|words| words.is_power_of_two());
    words.ok_or_else(|| "expected a power of two, e.g. 4194304 or 4M".to_owned())
}

impl Am {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        ensure_unset("TREEPIE_AM", "--config")?;
        self.check_memory()?;
        let updates = self.updates.map(|updates| updates as usize);
        let scale = Scale::new(self.ranks, self.words, updates, self.handler_work);
        let comparison = Comparison::new(self.ranks, &self.comparison, &["am-rank"], Some(&PEER))?;
        comparison.print_sides("Active messages", "make the same updates and gathers", BATCHES);
        match self.sweep {
            None => self.measure(scale, comparison)?,
            Some(sweep) => self.sweep(scale, sweep, comparison)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn check_memory(&self) -> anyhow::Result<()> {
        let (ranks, words) = (u64::from(self.ranks), self.words as u64);
        ensure!(
            ranks * words <= MAX_TOTAL_WORDS,
            "{ranks} ranks with {words} words each exceed the maximum of 2^32 words in total"
        );
        // A rank has two tables at once.
        machine::ensure_memory("the tables", (ranks * words * 16) as f64, machine::USABLE)
    }

    fn measure(&self, scale: Scale, comparison: Comparison) -> anyhow::Result<()> {
        let figures = scale.figures(&self.config);
        self.print_rules(scale, comparison.is_against_mpi());
        let mut result = comparison.measure(&figures)?;
        result.ensure_same_sends()?;
        result.print_table();
        let runs = Runs::parse(&figures, &result.ours)?;
        say!("");
        let costs = costs::print(scale, &scale.costs(&self.config), &runs, &result.records)?;
        costs.iter().try_for_each(|record| result.file.write(record))?;
        print_ratios(&figures, &runs)?;
        result.warn_if_too_few_pairs();
        Ok(())
    }

    fn sweep(&self, scale: Scale, sweep: Sweep, mut comparison: Comparison) -> anyhow::Result<()> {
        comparison.repeat = self.comparison.repeat.map_or(SWEEP_ALTERNATIONS, |repeat| repeat as usize);
        say!("  Settings alternate, batch by batch; ratios are per run, with 95% confidence intervals.");
        say!("");
        let rows = sweep.rows(scale, &self.config, self.handler_work);
        let figures: Vec<Figure> = rows.iter().flat_map(|row: &Row| row.figures.iter().cloned()).collect();
        let result = comparison.measure(&figures)?;
        let runs = Runs::parse(&figures, &result.ours)?;
        rows.iter().try_for_each(|row| row.print(&runs, &result.records))
    }

    fn print_rules(&self, scale: Scale, is_compared: bool) {
        let Scale { words, updates, .. } = scale;
        say!(
            "  update    each rank adds to {updates} random words of the tables, {words} words per rank, in one epoch;"
        );
        say!("            handlers: one (per message), touch (one with prefetch), batch (many messages); -huge: huge");
        say!("            pages; empty: the handler does nothing; combine: updates of the same word are combined");
        if self.ranks == 1 {
            say!("            local: the same updates in a plain loop, without messages");
        }
        say!("  gather    the same number of requests for random words, and their replies, in one epoch");
        if self.ranks > 1 {
            say!("  ping      ping-pong of one message between handlers, time per message");
        }
        say!("  epoch     an empty epoch; sum: each rank adds to the epoch's sum");
        if is_compared {
            say!("  MPI updates in rounds of 65536: sort by rank, MPI_Alltoall of the counts, MPI_Alltoallv, on base");
            say!(
                "  pages; replies return by another MPI_Alltoallv; ping: MPI_Send and MPI_Recv; epoch: MPI_Allreduce."
            );
        }
        say!("");
    }
}

/// Prints the ratios of figures that were measured alternately in the same jobs.
fn print_ratios(figures: &[Figure], runs: &Runs<'_>) -> anyhow::Result<()> {
    let find = |prefix: &str| figures.iter().find(|figure| figure.name.starts_with(prefix)).map(|figure| &figure.name);
    if let Some(local) = find("am/update/local") {
        say!("Over a plain loop in the same jobs:");
        for figure in figures.iter().filter(|figure| figure.name.starts_with("am/update/") && figure.name != *local) {
            say!("{:<NAME_WIDTH$} {}", figure.name, runs.speedup(&figure.name, local)?);
        }
    }
    if let (Some(gather), Some(prefetch)) = (find("am/gather/"), find("am/update/touch")) {
        say!("Over {prefetch} in the same jobs:");
        say!("{gather:<NAME_WIDTH$} {}", runs.speedup(gather, prefetch)?);
    }
    Ok(())
}
