//! Runs both sides of a benchmark alternately, or Treepie's alone.

use std::time::Duration;

use super::figure::Figure;
use super::output::{ensure_same_sends, parse};
use super::peer::{Peer, Source};
use super::progress::Progress;
use super::table::{print_header, print_record};
use crate::job::{HANG_TIMEOUT, Job};
use crate::mpi::Launcher;
use crate::record::{PeerResult, Record, Records};
use crate::{ComparisonOptions, Engine, machine};

/// Default number of pairs of a comparison, and of runs without one.
const ALTERNATIONS: usize = 31;
const RUNS: usize = 5;

/// The least number of pairs for which a result is stated.
const MIN_PAIRS: usize = 9;

/// A run takes a second or two; much longer where an MPI spins on oversubscribed cores.
const RUN_TIMEOUT: Duration = HANG_TIMEOUT;

/// For benchmarks whose C program makes the same calls.
pub(crate) const SAME_CALLS: &str = "make the same calls, on the same buffers";

/// The jobs of both sides, and the output file.
pub(crate) struct Comparison {
    ranks: u32,
    ours: Job,
    theirs: Option<PeerJob>,
    pub(crate) repeat: usize,
    records: Records,
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
    /// `source` is the MPI program, if there is one.
    pub(crate) fn new(
        ranks: u32,
        sides: &ComparisonOptions,
        rank: &[&str],
        source: Option<&Source>,
    ) -> anyhow::Result<Self> {
        let records = Records::create(sides.json.as_deref())?;
        let is_needed = sides.fabric == Engine::Mpi || sides.against.is_some();
        anyhow::ensure!(is_needed || sides.mpirun.is_none(), "--mpirun is for --against mpi or --fabric mpi");
        let mpi = is_needed.then(|| Launcher::find(sides.mpirun.as_deref())).transpose()?;
        let theirs = mpi.as_ref().filter(|_| sides.against.is_some()).zip(source);
        let theirs = theirs.map(|(mpi, source)| PeerJob::new(mpi, ranks, source)).transpose()?;
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
    pub(crate) fn print_sides(&self, what: &str, both: &str, batches: usize) {
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
    pub(crate) fn run(self, figures: &[Figure]) -> anyhow::Result<Vec<Record>> {
        let result = self.measure(figures)?;
        result.print_table();
        result.warn_if_too_few_pairs();
        Ok(result.records)
    }

    /// The name of the baseline, if there is one.
    pub(crate) fn peer(&self) -> Option<&str> {
        self.theirs.as_ref().map(|theirs| theirs.name.as_str())
    }

    /// Measures and writes the records; the caller prints them.
    pub(crate) fn measure(mut self, figures: &[Figure]) -> anyhow::Result<ComparisonResult> {
        let runs = self.alternate(figures)?;
        let record = |(index, figure)| record(figure, &runs, index, self.ranks, self.peer());
        let records: Vec<Record> = figures.iter().enumerate().map(record).collect();
        records.iter().try_for_each(|record| self.records.write(record))?;
        let (peer, repeat) = (self.peer().map(str::to_owned), self.repeat);
        let (ours, theirs) = (runs.ours_output, runs.theirs_output);
        Ok(ComparisonResult { records, ours, theirs, peer, repeat, file: self.records })
    }

    /// Runs both sides alternately. The order changes each time, so that drift of the machine favors neither.
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
pub(crate) struct ComparisonResult {
    pub(crate) records: Vec<Record>,
    pub(crate) ours: Vec<String>,
    theirs: Vec<String>,
    /// The name of the baseline, if there is one.
    pub(crate) peer: Option<String>,
    repeat: usize,
    /// The output file, for derived records.
    pub(crate) file: Records,
}

impl ComparisonResult {
    pub(crate) fn print_table(&self) {
        print_header(self.peer.as_deref());
        self.records.iter().for_each(print_record);
    }

    /// Checks that both sides have sent the same data.
    pub(crate) fn ensure_same_sends(&self) -> anyhow::Result<()> {
        ensure_same_sends(&self.ours, &self.theirs)
    }

    /// Warns if there are too few pairs to state a result.
    pub(crate) fn warn_if_too_few_pairs(&self) {
        if self.peer.is_some() && self.repeat < MIN_PAIRS {
            say!("{} pairs are too few to state a result; at least {MIN_PAIRS} are needed.", self.repeat);
        }
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
    let (ours, theirs, better) = (values(&runs.ours), values(&runs.theirs), figure.measure.better());
    let against = peer.map(|peer| PeerResult::new(peer, &ours, &theirs, better, MIN_PAIRS));
    let record = Record::measured(figure.name.clone(), &runs.engine, ranks, &ours, (figure.measure.unit(), better));
    Record { against, ..record }
}
