//! Runs both sides of a benchmark alternately, or Treepie's alone.

use std::time::Duration;

use super::figure::Figure;
use super::output::parse;
use super::peer::{Peer, Source};
use super::progress::Progress;
use super::statistics::{interquartile_range, median, median_interval};
use super::table::{print_header, print_record};
use super::{ComparisonOptions, Engine};
use crate::job::{HANG_TIMEOUT, Job};
use crate::machine;
use crate::mpi::Launcher;
use crate::record::{Better, PeerResult, Record, Records};

/// Default number of pairs of a comparison, and of runs without one.
const ALTERNATIONS: usize = 31;
const RUNS: usize = 5;

/// The least number of pairs for which a result is stated.
const MIN_PAIRS: usize = 9;

/// A run takes a second or two; much longer where an MPI spins on oversubscribed cores.
const RUN_TIMEOUT: Duration = HANG_TIMEOUT;

/// For benchmarks whose C program makes the same calls.
pub(super) const SAME_CALLS: &str = "make the same calls, on the same buffers";

/// The jobs of both sides, and the output file.
pub(super) struct Comparison {
    ranks: u32,
    ours: Job,
    theirs: Option<PeerJob>,
    pub(super) repeat: usize,
    records: Option<Records>,
}

/// The baseline.
struct PeerJob {
    /// Name and version.
    name: String,
    job: Job,
    /// The command line, for display.
    command_line: String,
    /// The job's program, deleted on drop.
    _program: Peer,
}

impl Comparison {
    /// Finds and compiles what is needed. `rank` is this program's subcommand for a rank, without cases.
    pub(super) fn new(ranks: u32, sides: &ComparisonOptions, rank: &[&str], source: &Source) -> anyhow::Result<Self> {
        let records = sides.json.as_deref().map(Records::create).transpose()?;
        let is_needed = sides.fabric == Engine::Mpi || sides.against.is_some();
        anyhow::ensure!(is_needed || sides.mpirun.is_none(), "--mpirun is for --against mpi or --fabric mpi");
        let mpi = is_needed.then(|| Launcher::find(sides.mpirun.as_deref())).transpose()?;
        let theirs = mpi.as_ref().filter(|_| sides.against.is_some());
        let theirs = theirs.map(|mpi| PeerJob::new(mpi, ranks, source)).transpose()?;
        let ours = match (sides.fabric, &mpi) {
            (Engine::Mpi, Some(mpi)) => mpi.job(ranks).args([std::env::current_exe()?]).args(rank),
            (Engine::Threads, _) => Job::this_program(rank)?.args(["--threads", &ranks.to_string()]),
            _ => Job::ranks(ranks, rank)?,
        };
        let repeat = match sides.repeat {
            Some(repeat) => repeat as usize,
            None if theirs.is_some() => ALTERNATIONS,
            None => RUNS,
        };
        Ok(Self { ranks, ours, theirs, repeat, records })
    }

    /// Prints what is measured where, what both sides do, and the common rules.
    pub(super) fn print_sides(&self, what: &str, both: &str, batches: usize) {
        say!("{what} on {}", machine::describe());
        say!("  treepie {}: {} ...", env!("CARGO_PKG_VERSION"), self.ours);
        if let Some(theirs) = &self.theirs {
            say!("  {}: {} ...", theirs.name, theirs.command_line);
            say!("  Both sides {both}, equally often, with the same clock.");
        }
        say!(
            "  A run is the median of {batches} batches per case, after a warm-up batch; the table has medians of runs."
        );
    }

    /// Measures, prints the table, writes the records and returns them.
    pub(super) fn run(self, figures: &[Figure]) -> anyhow::Result<Vec<Record>> {
        let (peer, repeat) = (self.peer().map(str::to_owned), self.repeat);
        let ComparisonResult { records, .. } = self.measure(figures)?;
        print_header(peer.as_deref());
        records.iter().for_each(print_record);
        if peer.is_some() {
            warn_if_too_few_pairs(repeat);
        }
        Ok(records)
    }

    /// The name of the baseline, if there is one.
    pub(super) fn peer(&self) -> Option<&str> {
        self.theirs.as_ref().map(|theirs| theirs.name.as_str())
    }

    /// Measures and writes the records; the caller prints them.
    pub(super) fn measure(mut self, figures: &[Figure]) -> anyhow::Result<ComparisonResult> {
        let runs = self.alternate(figures)?;
        let record = |(index, figure)| record(figure, &runs, index, self.ranks, self.peer());
        let made: Vec<Record> = figures.iter().enumerate().map(record).collect();
        if let Some(records) = &mut self.records {
            made.iter().try_for_each(|record| records.write(record))?;
        }
        Ok(ComparisonResult { records: made, ours: runs.ours_output, theirs: runs.theirs_output, file: self.records })
    }

    /// Runs both sides alternately. The order changes each time, so that drift of the machine favours neither.
    fn alternate(&self, figures: &[Figure]) -> anyhow::Result<RunTimes> {
        let mut runs = RunTimes::default();
        let progress = Progress::new(self.repeat);
        for turn in 0..self.repeat {
            progress.show(turn);
            for our_turn in [turn % 2 == 0, turn % 2 == 1] {
                if our_turn {
                    runs.add_ours(figures, &self.ours)?;
                } else if let Some(theirs) = &self.theirs {
                    runs.add_theirs(figures, &theirs.job)?;
                }
            }
        }
        progress.clear();
        Ok(runs)
    }
}

impl PeerJob {
    fn new(mpi: &Launcher, ranks: u32, source: &Source) -> anyhow::Result<Self> {
        let program = Peer::compile(&mpi.installation.mpicc, source)?;
        let job = mpi.job(ranks);
        let command_line = job.clone().args([source.name]).to_string();
        Ok(Self { name: mpi.name(), job: job.args([program.path()]), command_line, _program: program })
    }
}

/// The records, and the output of the jobs of both sides.
pub(super) struct ComparisonResult {
    pub(super) records: Vec<Record>,
    pub(super) ours: Vec<String>,
    pub(super) theirs: Vec<String>,
    /// The output file, for derived records.
    pub(super) file: Option<Records>,
}

/// Warns if there are too few pairs to state a result.
pub(super) fn warn_if_too_few_pairs(repeat: usize) {
    if repeat < MIN_PAIRS {
        say!("{repeat} pairs are too few to state a result; at least {MIN_PAIRS} are needed.");
    }
}

/// Microseconds per operation: for each run, for each figure.
#[derive(Default)]
struct RunTimes {
    engine: String,
    ours: Vec<Vec<f64>>,
    theirs: Vec<Vec<f64>>,
    ours_output: Vec<String>,
    theirs_output: Vec<String>,
}

impl RunTimes {
    /// Cases with and without single copy are separate jobs, as a rank decides once.
    fn add_ours(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<()> {
        let mut micros = vec![f64::NAN; figures.len()];
        for through_rings in [false, true] {
            let in_this_job =
                |(index, figure): (usize, &Figure)| (figure.without_single_copy == through_rings).then_some(index);
            let indices: Vec<usize> = figures.iter().enumerate().filter_map(in_this_job).collect();
            if indices.is_empty() {
                continue;
            }
            let cases: Vec<String> = indices.iter().map(|index| figures[*index].case.clone()).collect();
            let job = if through_rings { job.clone().env("TREEPIE_SINGLE_COPY", "off") } else { job.clone() };
            let output = job.args(&cases).output(RUN_TIMEOUT)?;
            let printed = parse(&output, &cases)?;
            self.engine = printed.engine.unwrap_or_default();
            self.ours_output.push(output);
            for (index, time) in indices.into_iter().zip(printed.micros) {
                micros[index] = time;
            }
        }
        self.ours.push(micros);
        Ok(())
    }

    /// A case that Treepie runs in several variants, such as with and without single copy, is one for the baseline.
    fn add_theirs(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<()> {
        let mut cases: Vec<String> = Vec::new();
        for figure in figures {
            if !cases.iter().any(|case| case == figure.peer_case()) {
                cases.push(figure.peer_case().to_owned());
            }
        }
        let output = job.clone().args(&cases).output(RUN_TIMEOUT)?;
        let printed = parse(&output, &cases)?;
        let index_of = |figure: &Figure| cases.iter().position(|case| case == figure.peer_case());
        let micros_of = |figure: &Figure| index_of(figure).map_or(f64::NAN, |index| printed.micros[index]);
        self.theirs.push(figures.iter().map(micros_of).collect());
        self.theirs_output.push(output);
        Ok(())
    }
}

fn record(figure: &Figure, runs: &RunTimes, index: usize, ranks: u32, peer: Option<&str>) -> Record {
    let values = |micros: &[Vec<f64>]| -> Vec<f64> {
        micros.iter().map(|run| figure.measure.value(run[index], figure.bytes)).collect()
    };
    let (ours, theirs) = (values(&runs.ours), values(&runs.theirs));
    let against = peer.map(|peer| {
        let better = |(ours, theirs): (&f64, &f64)| match figure.measure.better() {
            Better::Low => theirs / ours,
            Better::High => ours / theirs,
        };
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(better).collect();
        let interval = median_interval(&ratios).filter(|_| ratios.len() >= MIN_PAIRS);
        PeerResult {
            peer: peer.to_owned(),
            peer_value: median(&theirs),
            ratio: median(&ratios),
            ratio_low: interval.map(|(low, _)| low),
            ratio_high: interval.map(|(_, high)| high),
        }
    });
    Record {
        case: figure.name.clone(),
        engine: runs.engine.clone(),
        ranks,
        value: median(&ours),
        unit: figure.measure.unit().to_owned(),
        better: figure.measure.better(),
        statistic: "median".to_owned(),
        spread: interquartile_range(&ours),
        samples: ours.len(),
        machine: machine::describe(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against,
    }
}
