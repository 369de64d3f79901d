//! Both sides of a benchmark, or Treepie's alone, run in turn.

use std::time::Duration;

use super::super::job::{HANGS_AFTER, Job};
use super::super::machine;
use super::super::mpi::Launcher;
use super::super::record::{Against, Better, Record, Records};
use super::figure::Figure;
use super::output::parse;
use super::peer::{Peer, Source};
use super::progress::Progress;
use super::statistics::{interval, median, spread};
use super::table::{print_header, print_record};
use super::{Engine, Sides};

/// Alternations of a comparison, and runs without one, unless the user says.
const ALTERNATIONS: usize = 31;
const RUNS: usize = 5;

/// With fewer pairs no result is stated.
const ENOUGH_PAIRS: usize = 9;

/// One run takes a second or two; where an MPI spins on cores that it shares, much longer.
const RUN_WITHIN: Duration = HANGS_AFTER;

/// What both sides of a benchmark do that is the same in C.
pub(super) const SAME_CALLS: &str = "make the same calls, on the same buffers";

/// What is to be run, and where the results go.
pub(super) struct Comparison {
    ranks: u32,
    ours: Job,
    theirs: Option<Theirs>,
    pub(super) repeat: usize,
    records: Option<Records>,
}

/// The other side.
struct Theirs {
    /// Who, with version.
    name: String,
    job: Job,
    /// The job as people would type it.
    shown: String,
    /// The job's program, which exists as long as this.
    _program: Peer,
}

impl Comparison {
    /// Finds and compiles all that is needed. `rank` is this program's own command that makes a rank, without cases.
    pub(super) fn new(ranks: u32, sides: &Sides, rank: &[&str], source: &Source) -> anyhow::Result<Self> {
        let records = sides.json.as_deref().map(Records::create).transpose()?;
        let is_needed = sides.fabric == Engine::Mpi || sides.against.is_some();
        anyhow::ensure!(is_needed || sides.mpirun.is_none(), "--mpirun is for --against mpi or --fabric mpi");
        let mpi = is_needed.then(|| Launcher::find(sides.mpirun.as_deref())).transpose()?;
        let theirs = mpi.as_ref().filter(|_| sides.against.is_some());
        let theirs = theirs.map(|mpi| Theirs::new(mpi, ranks, source)).transpose()?;
        let ours = match (sides.fabric, &mpi) {
            (Engine::Mpi, Some(mpi)) => mpi.job(ranks).with([std::env::current_exe()?]).with(rank),
            (Engine::Threads, _) => Job::own(rank)?.with(["--threads", &ranks.to_string()]),
            _ => Job::ranks(ranks, rank)?,
        };
        let repeat = match sides.repeat {
            Some(repeat) => repeat as usize,
            None if theirs.is_some() => ALTERNATIONS,
            None => RUNS,
        };
        Ok(Self { ranks, ours, theirs, repeat, records })
    }

    /// Says what is measured where, what both sides do, and the rules that all benchmarks have.
    pub(super) fn print_sides(&self, what: &str, both: &str, batches: usize) {
        say!("{what} on {}", machine::describe());
        say!("  treepie {}: {} ...", env!("CARGO_PKG_VERSION"), self.ours);
        if let Some(theirs) = &self.theirs {
            say!("  {}: {} ...", theirs.name, theirs.shown);
            say!("  Both sides {both}, equally often, by the same clock.");
        }
        say!(
            "  A run takes the median of {batches} batches of each case, after one to warm up; printed is the median of runs."
        );
    }

    /// Measures, prints a table and writes the records, which it returns.
    pub(super) fn run(self, figures: &[Figure]) -> anyhow::Result<Vec<Record>> {
        let (peer, repeat) = (self.peer().map(str::to_owned), self.repeat);
        let Measured { records, .. } = self.measure(figures)?;
        print_header(peer.as_deref());
        records.iter().for_each(print_record);
        if peer.is_some() {
            print_if_too_few(repeat);
        }
        Ok(records)
    }

    /// The other side's name, if there is one.
    pub(super) fn peer(&self) -> Option<&str> {
        self.theirs.as_ref().map(|theirs| theirs.name.as_str())
    }

    /// Measures and writes the records, and leaves it to the caller to print them.
    pub(super) fn measure(mut self, figures: &[Figure]) -> anyhow::Result<Measured> {
        let runs = self.alternate(figures)?;
        let record = |(place, figure)| record(figure, &runs, place, self.ranks, self.peer());
        let made: Vec<Record> = figures.iter().enumerate().map(record).collect();
        if let Some(records) = &mut self.records {
            made.iter().try_for_each(|record| records.write(record))?;
        }
        Ok(Measured { records: made, ours: runs.ours_printed, theirs: runs.theirs_printed, file: self.records })
    }

    /// Runs both sides in turn. Who goes first changes each time, so that a drift of the machine favours nobody.
    fn alternate(&self, figures: &[Figure]) -> anyhow::Result<Runs> {
        let mut runs = Runs::default();
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
        progress.end();
        Ok(runs)
    }
}

impl Theirs {
    fn new(mpi: &Launcher, ranks: u32, source: &Source) -> anyhow::Result<Self> {
        let program = Peer::compile(&mpi.installation.mpicc, source)?;
        let job = mpi.job(ranks);
        let shown = job.clone().with([source.name]).to_string();
        Ok(Self { name: mpi.name(), job: job.with([program.path()]), shown, _program: program })
    }
}

/// Results, and what the jobs of both sides have printed for them.
pub(super) struct Measured {
    pub(super) records: Vec<Record>,
    pub(super) ours: Vec<String>,
    pub(super) theirs: Vec<String>,
    /// Where records went, for those that follow from these.
    pub(super) file: Option<Records>,
}

/// With fewer pairs than are needed no result is stated.
pub(super) fn print_if_too_few(repeat: usize) {
    if repeat < ENOUGH_PAIRS {
        say!("{repeat} alternations are too few to state a result; {ENOUGH_PAIRS} are the least.");
    }
}

/// Microseconds per operation: for each run, for each figure.
#[derive(Default)]
struct Runs {
    engine: String,
    ours: Vec<Vec<f64>>,
    theirs: Vec<Vec<f64>>,
    ours_printed: Vec<String>,
    theirs_printed: Vec<String>,
}

impl Runs {
    /// Cases with and without single copy are two jobs, as a rank decides for its whole life.
    fn add_ours(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<()> {
        let mut micros = vec![f64::NAN; figures.len()];
        for through_rings in [false, true] {
            let is_of_this =
                |(place, figure): (usize, &Figure)| (figure.through_rings == through_rings).then_some(place);
            let places: Vec<usize> = figures.iter().enumerate().filter_map(is_of_this).collect();
            if places.is_empty() {
                continue;
            }
            let cases: Vec<String> = places.iter().map(|place| figures[*place].case.clone()).collect();
            let job = if through_rings { job.clone().env("TREEPIE_SINGLE_COPY", "off") } else { job.clone() };
            let output = job.with(&cases).output(RUN_WITHIN)?;
            let printed = parse(&output, &cases)?;
            self.engine = printed.engine.unwrap_or_default();
            self.ours_printed.push(output);
            for (place, time) in places.into_iter().zip(printed.micros) {
                micros[place] = time;
            }
        }
        self.ours.push(micros);
        Ok(())
    }

    /// A case that Treepie runs in several ways, as with and without single copy, is one for the other side.
    fn add_theirs(&mut self, figures: &[Figure], job: &Job) -> anyhow::Result<()> {
        let mut cases: Vec<String> = Vec::new();
        for figure in figures {
            if !cases.iter().any(|case| case == figure.peer_case()) {
                cases.push(figure.peer_case().to_owned());
            }
        }
        let output = job.clone().with(&cases).output(RUN_WITHIN)?;
        let printed = parse(&output, &cases)?;
        let place_of = |figure: &Figure| cases.iter().position(|case| case == figure.peer_case());
        let micros_of = |figure: &Figure| place_of(figure).map_or(f64::NAN, |place| printed.micros[place]);
        self.theirs.push(figures.iter().map(micros_of).collect());
        self.theirs_printed.push(output);
        Ok(())
    }
}

fn record(figure: &Figure, runs: &Runs, place: usize, ranks: u32, peer: Option<&str>) -> Record {
    let values = |micros: &[Vec<f64>]| -> Vec<f64> {
        micros.iter().map(|run| figure.measure.value(run[place], figure.bytes)).collect()
    };
    let (ours, theirs) = (values(&runs.ours), values(&runs.theirs));
    let against = peer.map(|peer| {
        let better = |(ours, theirs): (&f64, &f64)| match figure.measure.better() {
            Better::Low => theirs / ours,
            Better::High => ours / theirs,
        };
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(better).collect();
        let interval = interval(&ratios).filter(|_| ratios.len() >= ENOUGH_PAIRS);
        Against {
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
        spread: spread(&ours),
        samples: ours.len(),
        machine: machine::describe(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against,
    }
}
