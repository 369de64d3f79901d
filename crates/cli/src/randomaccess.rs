//! `treepie randomaccess`: HPCC RandomAccess.
//!
//! If the command is not started as a rank, it launches itself as ranks.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use treepie::randomaccess::{
    ALGORITHMS, Algorithm, MAX_LOOK_AHEAD, Pace, Pages, RandomAccess, Refinements, Run, RunResult,
};
use treepie::{Comm, SplitType, Sum};
use treepie_bench::record::{Better, Record, Records};
use treepie_bench::{EmulationOption, format_number, machine, parse_number};

use crate::run;

/// Run HPCC RandomAccess: random updates of a table that is distributed over all ranks
///
/// Started under `mpirun` or `treepie run`, it uses the ranks of that job.
#[derive(clap::Args)]
pub(crate) struct RandomAccessCommand {
    /// Number of ranks [default: one per core, or those of the job]
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// 2^N words in the table of all ranks [default: 24]
    #[arg(long, value_name = "N", conflicts_with_all = ["words", "memory_fraction"], value_parser = clap::value_parser!(u32).range(0..=48))]
    table_log2: Option<u32>,
    /// Words in the table of all ranks, not only powers of two, e.g. 12000000, or 12M for 12 x 2^20
    #[arg(long, value_name = "N", conflicts_with = "memory_fraction", value_parser = parse_words)]
    words: Option<u64>,
    /// The largest power of two of words in this fraction of the memory; 0.5 by the rules
    #[arg(long, value_name = "FRACTION")]
    memory_fraction: Option<f64>,
    /// The most updates that a rank may keep; at most 1024 by the rules
    #[arg(long, value_name = "Q", default_value_t = MAX_LOOK_AHEAD)]
    look_ahead: usize,
    /// Algorithm, or auto; --list shows all
    #[arg(long, value_name = "ID", default_value = "auto")]
    algorithm: Algorithm,
    /// Updates per word of the table; 4 by the rules
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    updates_per_word: u64,
    /// Refinements of the synchronous algorithms: prepost, deferred, late-wait, double-buffer, persistent, overlap,
    /// adaptive, discard; mod1, mod2, mod3, mod6 and mod7 are columns of the paper's table 3; none
    #[arg(long, value_name = "NAMES")]
    refinements: Option<Refinements>,
    /// Pages of the usual size instead of huge ones
    #[arg(long)]
    base_pages: bool,
    /// Do not verify the table
    #[arg(long)]
    no_verify: bool,
    /// Runs, after the first of which the memory is warm; the fastest counts
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// List the algorithms
    #[arg(long)]
    list: bool,
    /// Also write the result to this file, as a JSON line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A line on a terminal that the next one overwrites, removed in the end.
struct ProgressLine;

impl ProgressLine {
    fn show(fraction: f64) {
        eprint!("\r{:3.0}% of the updates", 100.0 * fraction);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        eprint!("\r{:40}\r", "");
    }
}

/// log2 of the words of the table, unless another number is asked for.
const TABLE_LOG2: u32 = 24;

fn parse_words(text: &str) -> Result<u64, String> {
    parse_number(text).filter(|words| *words > 0).ok_or_else(|| "expected a positive number, e.g. 12M".to_owned())
}

/// The size of a table: `2^24`, or a number.
fn describe_words(words: u64) -> String {
    if words.is_power_of_two() { format!("2^{}", words.ilog2()) } else { words.to_string() }
}

impl RandomAccessCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.list {
            ALGORITHMS.iter().for_each(|(id, what)| say!("{id:<24} {what}"));
            return Ok(ExitCode::SUCCESS);
        }
        if !machine::is_rank() {
            let ranks = self.ranks.unwrap_or_else(|| machine::cores() as u32);
            self.check(ranks)?;
            if ranks > 1 {
                run::check_limits(ranks, &EmulationOption::default())?;
                // Rank 0 shows its progress on a terminal.
                return run::launch_this_command(ranks, std::io::stderr().is_terminal());
            }
        }
        let world = treepie::init()?;
        match self.measure(&world) {
            Err(error) if world.rank() == 0 => Err(error),
            // Rank 0 prints the error.
            Err(_) => Ok(ExitCode::from(run::ERROR_REPORTED_STATUS)),
            Ok(is_valid) => Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        }
    }

    /// The number of words of the table, where all hosts have this memory.
    fn words(&self, memory: u64) -> anyhow::Result<u64> {
        if let Some(fraction) = self.memory_fraction {
            ensure!(fraction > 0.0 && fraction <= 1.0, "--memory-fraction must be above 0 and at most 1");
            ensure!(memory > 0, "the system does not tell its memory");
            let words = (fraction * memory as f64 / 8.0) as u64;
            return Ok(1 << words.max(1).ilog2());
        }
        Ok(self.words.unwrap_or(1 << self.table_log2.unwrap_or(TABLE_LOG2)))
    }

    fn settings(&self, words: u64) -> RandomAccess {
        RandomAccess::new(words)
            .updates(words.saturating_mul(self.updates_per_word))
            .look_ahead(self.look_ahead)
            .algorithm(self.algorithm.clone())
            .refinements(self.refinements)
            .pages(if self.base_pages { Pages::Base } else { Pages::Huge })
            .verifies(!self.no_verify)
    }

    /// What can be refused before ranks start.
    fn check(&self, ranks: u32) -> anyhow::Result<()> {
        let words = self.words(machine::meminfo("MemTotal").unwrap_or(0))?;
        self.settings(words).check(ranks)?;
        self.ensure_memory(words, 1.0, ranks as usize)
    }

    /// Refuses what does not fit the free memory of a host with this part of the table and this number of ranks.
    fn ensure_memory(&self, words: u64, part: f64, ranks: usize) -> anyhow::Result<()> {
        // Lists of a round: generated, divided and received, and messages.
        let lists = 8.0 * 8.0 * self.look_ahead as f64 * ranks as f64;
        machine::ensure_memory("the table and the lists of updates", 8.0 * words as f64 * part + lists, 1.0)
    }

    /// Runs the benchmark; whether the result is valid.
    fn measure(&self, world: &Comm) -> anyhow::Result<bool> {
        if let Some(ranks) = self.ranks {
            ensure!(ranks as usize == world.size(), "-n {ranks}, but this job has {} ranks", world.size());
        }
        // Hosts may differ in their memory.
        let host = world.split_type(SplitType::Host, 0)?;
        let memory = if host.rank() == 0 { machine::meminfo("MemTotal").unwrap_or(0) } else { 0 };
        let words = self.words(world.allreduce_one(memory, Sum)?)?;
        let settings = self.settings(words);
        settings.check(world.size() as u32)?;
        let has_memory = self.ensure_memory(words, host.size() as f64 / world.size() as f64, host.size());
        let records = Records::create(self.json.as_deref().filter(|_| world.rank() == 0));
        let mut records = run::agree(world, records.and_then(|records| has_memory.map(|()| records)))?;
        let progress = (world.rank() == 0 && std::io::stderr().is_terminal()).then(|| ProgressLine);
        let settings = if progress.is_some() { settings.on_progress(ProgressLine::show) } else { settings };
        let mut run = settings.prepare(world)?;
        let mut best = run.update()?;
        let mut rates = vec![best.gups()];
        for _ in 1..self.runs {
            // The updates of two runs cancel each other.
            let result = run.update()?;
            rates.push(result.gups());
            if result.seconds < best.seconds {
                best = result;
            }
        }
        let best = self.verify(&mut run, best)?;
        drop(progress);
        if world.rank() == 0 {
            self.print(world, words, &best);
            records.write(&self.record(world, words, &best, &rates))?;
        }
        Ok(best.is_valid(words))
    }

    fn verify(&self, run: &mut Run, result: RunResult) -> anyhow::Result<RunResult> {
        if self.no_verify {
            return Ok(result);
        }
        // An even number of runs has restored the table, which verification then updates once.
        if self.runs.is_multiple_of(2) {
            run.update()?;
        }
        Ok(run.verify(result)?)
    }

    fn print(&self, world: &Comm, words: u64, result: &RunResult) {
        let ranks = world.size();
        say!("RandomAccess on {}, {ranks} ranks ({})", machine::describe(), world.engine());
        say!(
            "  table        {} words of 8 bytes, {} MB",
            describe_words(words),
            format_number(words as f64 * 8.0 / 1e6)
        );
        let outside = if self.look_ahead > MAX_LOOK_AHEAD { ", outside the rules, which allow 1024" } else { "" };
        let chosen = match result.pace {
            Some(Pace { chunk, overlaps: true }) => format!(", rounds of {chunk} that overlap"),
            Some(Pace { chunk, .. }) if chunk < self.look_ahead => format!(", rounds of {chunk}"),
            _ => String::new(),
        };
        say!("  look-ahead   {}{chosen}{outside}", self.look_ahead);
        let with = self.refinements.map_or_else(String::new, |refinements| format!(", {refinements}"));
        say!("  algorithm    {}{with}", result.algorithm);
        let best_of = if self.runs > 1 { format!(", the best of {} runs", self.runs) } else { String::new() };
        let outside = if self.updates_per_word == 4 { "" } else { "; outside the rules, which ask for 4 per word" };
        say!("  updates      {} in {} s{best_of}{outside}", result.updates, format_number(result.seconds));
        say!("  rate         {:.6} GUP/s, {:.6} of each rank", result.gups(), result.gups() / ranks as f64);
        let per_rank = result.total.messages as f64 / ranks as f64;
        let length = 8.0 * result.total.data as f64 / (result.total.messages.max(1)) as f64;
        say!("  messages     {} of a rank, {} bytes on average", format_number(per_rank), format_number(length));
        if let Some([generate, bin, exchange, update]) = result.parts() {
            say!(
                "  of an update {generate:.2} ns generate, {bin:.2} bin, {exchange:.2} exchange and wait, {update:.2} apply"
            );
        }
        if result.total.discarded > 0 {
            let percent = 100.0 * result.total.discarded as f64 / result.updates as f64;
            say!("  discarded    {} updates, {percent:.2}%; the rules allow 1%", result.total.discarded);
        }
        match result.errors {
            Some(errors) => say!("  verified     {errors} wrong words of {words}"),
            None => say!("  verified     no"),
        }
        if !result.is_valid(words) {
            let what = if result.loses_few() { "words are wrong" } else { "updates were discarded" };
            say!("  INVALID: more than 1% of the {what}");
        }
    }

    fn record(&self, world: &Comm, words: u64, result: &RunResult, rates: &[f64]) -> Record {
        let with = self.refinements.map_or_else(String::new, |refinements| format!("/{refinements}"));
        let look_ahead = match self.look_ahead {
            MAX_LOOK_AHEAD => String::new(),
            other => format!("/Q{other}"),
        };
        let case = format!("randomaccess/{}{with}/{}{look_ahead}", result.algorithm, describe_words(words));
        let record = Record::measured(case, world.engine(), world.size() as u32, rates, ("GUP/s", Better::High));
        Record { statistic: "best".to_owned(), value: result.gups(), ..record }
    }
}
