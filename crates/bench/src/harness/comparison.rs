//! Runs both sides of a benchmark alternately, or Treepie's alone.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::figure::Figure;
use super::output::{ensure_same_sends, parse};
use super::peer::{Peer, Source};
use super::progress::Progress;
use super::statistics::median;
use super::table::{print_header, print_ratios, print_record};
use crate::job::{HANG_TIMEOUT, Job, own_path};
use crate::mpi::Launcher;
use crate::record::{PeerResult, Record, Records};
use crate::{Baseline, ComparisonOptions, Engine, ensure_unset, machine};

/// Default number of pairs of a comparison, and of runs without one.
const ALTERNATIONS: usize = 31;
const RUNS: usize = 5;

/// The least number of pairs for which a result is stated.
const MIN_PAIRS: usize = 9;

/// A run takes a second or two; much longer where an MPI spins on oversubscribed cores.
const RUN_TIMEOUT: Duration = HANG_TIMEOUT;

/// For benchmarks whose C program makes the same calls.
pub(crate) const SAME_CALLS: &str = "make the same calls, on the same buffers";

/// Both sides, and the output file.
pub(crate) struct Comparison {
    ranks: u32,
    ours: Side,
    theirs: Option<Side>,
    pub(crate) repeat: usize,
    /// Over emulated links there is mostly one run, whose batches are the samples.
    is_emulated: bool,
    records: Records,
}

impl Comparison {
    /// Finds and compiles what is needed. `rank` is Treepie's subcommand for a rank, without cases.
    /// `source` is the MPI program, if there is one.
    pub(crate) fn new(
        ranks: u32,
        sides: &ComparisonOptions,
        rank: &[&str],
        source: Option<&Source>,
    ) -> anyhow::Result<Self> {
        let records = Records::create(sides.json.as_deref())?;
        let is_hpcc = matches!(sides.against, Some(Baseline::Hpcc));
        anyhow::ensure!(!is_hpcc, "--against hpcc is for RandomAccess: treepie bench randomaccess");
        let is_needed = sides.fabric == Engine::Mpi || sides.is_against_mpi();
        anyhow::ensure!(is_needed || sides.mpirun.is_none(), "--mpirun is for --against mpi or --fabric mpi");
        ensure_unset("TREEPIE_EMULATE", "--emulate")?;
        let emulates = sides.links.checked(ranks)?.is_some();
        anyhow::ensure!(
            !emulates || !is_needed,
            "--emulate: links are emulated between ranks of Treepie's own launcher"
        );
        let mpi = is_needed.then(|| Launcher::find(sides.mpirun.as_deref())).transpose()?;
        let treepie = |program: &OsStr| Side::treepie(program, sides, mpi.as_ref(), ranks, rank);
        let theirs = match (&sides.against, &mpi, source) {
            (Some(Baseline::Build(path)), ..) => {
                ensure_treepie(path)?;
                Some(Side { name: "other build".to_owned(), ..treepie(path.as_os_str()) })
            }
            (Some(Baseline::Mpi), Some(mpi), Some(source)) => Some(Side::mpi(mpi, ranks, source)?),
            _ => None,
        };
        let ours = treepie(&own_path()?);
        let repeat = match sides.repeat {
            Some(repeat) => repeat as usize,
            None if theirs.is_some() => ALTERNATIONS,
            // What takes long varies little.
            None if emulates => 1,
            None => RUNS,
        };
        Ok(Self { ranks, ours, theirs, repeat, is_emulated: emulates, records })
    }

    /// Prints what is measured where, what both sides do, and the common rules.
    pub(crate) fn print_sides(&self, what: &str, both: &str, batches: usize) {
        say!("{what} on {}", machine::describe());
        for side in std::iter::once(&self.ours).chain(&self.theirs) {
            say!("  {}: {} ...", side.name, side.command_line);
        }
        if self.theirs.is_some() {
            say!("  Both sides {both}, equally often, with the same clock.");
        }
        let what = match self.repeat {
            1 => "The table has the median of",
            _ => "The table has medians of runs; a run is the median of",
        };
        say!("  {what} {batches} batches per case, after a warm-up batch.");
    }

    /// The name of the baseline, if there is one.
    pub(crate) fn peer(&self) -> Option<&str> {
        self.theirs.as_ref().map(|theirs| theirs.name.as_str())
    }

    /// Whether the baseline is the MPI program.
    pub(crate) fn is_against_mpi(&self) -> bool {
        self.theirs.as_ref().is_some_and(|theirs| theirs.mpi_program.is_some())
    }

    /// Measures and writes the records; the caller prints them.
    pub(crate) fn measure(mut self, figures: &[Figure]) -> anyhow::Result<ComparisonResult> {
        let runs = self.alternate(figures)?;
        let record = |(index, figure)| record(figure, &runs, index, &self);
        let records: Vec<Record> = figures.iter().enumerate().map(record).collect();
        records.iter().try_for_each(|record| self.records.write(record))?;
        let (peer, repeat) = (self.peer().map(str::to_owned), self.repeat);
        let (ours, theirs) = (runs.ours.output, runs.theirs.output);
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
                    runs.ours.add(figures, &self.ours)?;
                } else if let Some(theirs) = &self.theirs {
                    runs.theirs.add(figures, theirs)?;
                }
            }
        }
        progress.clear();
        Ok(runs)
    }
}

/// One side of a comparison.
struct Side {
    /// Name and version, or that it is another build.
    name: String,
    job: Job,
    /// The command line, for display.
    command_line: String,
    /// The job's program, deleted on drop, if it is the MPI program. Otherwise it is a build of Treepie.
    mpi_program: Option<Peer>,
}

impl Side {
    /// Ranks of a build of Treepie.
    fn treepie(program: &OsStr, sides: &ComparisonOptions, mpi: Option<&Launcher>, ranks: u32, rank: &[&str]) -> Self {
        let job = match (sides.fabric, mpi) {
            (Engine::Mpi, Some(mpi)) => mpi.job(ranks).args([program]).args(rank),
            (Engine::Threads, _) => Job::new([program]).args(rank).args(["--threads", &ranks.to_string()]),
            _ => Job::ranks_of(program, ranks, rank),
        };
        let job = sides.links.apply(job);
        let name = format!("treepie {}", env!("CARGO_PKG_VERSION"));
        Self { name, command_line: job.to_string(), job, mpi_program: None }
    }

    /// Ranks of the MPI program.
    fn mpi(mpi: &Launcher, ranks: u32, source: &Source) -> anyhow::Result<Self> {
        let program = Peer::compile(&mpi.installation.mpicc, source)?;
        let job = mpi.job(ranks);
        let command_line = job.clone().args([source.name]).to_string();
        Ok(Self { name: mpi.name(), job: job.args([program.path()]), command_line, mpi_program: Some(program) })
    }
}

/// Checks that the program is a build of Treepie.
fn ensure_treepie(program: &Path) -> anyhow::Result<()> {
    let version = Job::new([program]).args(["--version"]).output(RUN_TIMEOUT)?;
    anyhow::ensure!(version.starts_with("treepie "), "{} is not a build of treepie", program.display());
    Ok(())
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
        print_ratios(&self.records);
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

/// The runs of both sides.
#[derive(Default)]
struct RunTimes {
    ours: SideTimes,
    theirs: SideTimes,
}

/// The runs of a side.
#[derive(Default)]
struct SideTimes {
    /// The engine, for Treepie.
    engine: String,
    /// Microseconds per operation of each batch: for each run, for each figure.
    batches: Vec<Vec<Vec<f64>>>,
    /// The output of each job.
    output: Vec<String>,
}

impl SideTimes {
    fn add(&mut self, figures: &[Figure], side: &Side) -> anyhow::Result<()> {
        let batches = match side.mpi_program {
            Some(_) => self.run_mpi(figures, &side.job)?,
            None => self.run_treepie(figures, &side.job)?,
        };
        self.batches.push(batches);
        Ok(())
    }

    /// Cases with and without single copy are separate jobs, as a rank decides once.
    fn run_treepie(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut batches = vec![Vec::new(); figures.len()];
        for through_rings in [false, true] {
            let in_this_job =
                |(index, figure): (usize, &Figure)| (figure.without_single_copy == through_rings).then_some(index);
            let indices: Vec<usize> = figures.iter().enumerate().filter_map(in_this_job).collect();
            if indices.is_empty() {
                continue;
            }
            let cases: Vec<String> = indices.iter().map(|index| figures[*index].case.clone()).collect();
            let job = if through_rings { job.clone().env("TREEPIE_SINGLE_COPY", "off") } else { job.clone() };
            for (index, times) in indices.into_iter().zip(self.run(&cases, job)?) {
                batches[index] = times;
            }
        }
        Ok(batches)
    }

    /// A case that Treepie runs in several variants, such as with and without single copy, is one for the MPI program.
    fn run_mpi(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut cases: Vec<String> = Vec::new();
        for figure in figures {
            if !cases.iter().any(|case| case == figure.peer_case()) {
                cases.push(figure.peer_case().to_owned());
            }
        }
        let batches = self.run(&cases, job.clone())?;
        let index_of = |figure: &Figure| cases.iter().position(|case| case == figure.peer_case());
        Ok(figures.iter().map(|figure| index_of(figure).map_or(Vec::new(), |index| batches[index].clone())).collect())
    }

    /// The microseconds of each batch of each case.
    fn run(&mut self, cases: &[String], job: Job) -> anyhow::Result<Vec<Vec<f64>>> {
        let output = job.args(cases).output(RUN_TIMEOUT)?;
        let printed = parse(&output, cases)?;
        self.engine = printed.engine.unwrap_or_default();
        self.output.push(output);
        Ok(printed.batches)
    }
}

fn record(figure: &Figure, runs: &RunTimes, index: usize, comparison: &Comparison) -> Record {
    let value = |micros: f64| figure.measure.value(micros, figure.bytes);
    let values = |side: &SideTimes| -> Vec<f64> { side.batches.iter().map(|run| value(median(&run[index]))).collect() };
    let (ours, theirs, better) = (values(&runs.ours), values(&runs.theirs), figure.measure.better());
    let against = comparison.peer().map(|peer| PeerResult::new(peer, &ours, &theirs, better, MIN_PAIRS));
    let samples = match &runs.ours.batches[..] {
        [run] if comparison.is_emulated => run[index].iter().map(|micros| value(*micros)).collect(),
        _ => ours,
    };
    let record = Record::measured(
        figure.name.clone(),
        &runs.ours.engine,
        comparison.ranks,
        &samples,
        (figure.measure.unit(), better),
    );
    Record { against, ..record }
}
