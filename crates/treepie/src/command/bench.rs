//! `treepie bench`: measures, by itself or against an MPI in the same run.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::case::{Case, Figure, of_all_ranks, of_two_ranks};
use super::job::Job;
use super::mpi::Launcher;
use super::p2p::parse;
use super::peer::Peer;
use super::record::{Against, Better, Record, Records};
use super::statistics::{interval, median, spread};
use super::{machine, single_copy};

/// Alternations of a comparison, and runs without one, unless the user says.
const ALTERNATIONS: usize = 31;
const RUNS: usize = 5;

/// With fewer pairs no result is stated.
const ENOUGH_PAIRS: usize = 9;

/// One run takes a second or two; where an MPI spins on cores that it shares, much longer.
const RUN_WITHIN: Duration = Duration::from_secs(300);

/// Measure Treepie on this machine, alone or against an MPI
#[derive(clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    P2p(PointToPoint),
}

/// Messages between two ranks: half round trip, message rate, bandwidth; a ring and a barrier of all ranks
#[derive(clap::Args)]
pub(crate) struct PointToPoint {
    /// How many ranks; with more than two, only the ring and the barrier are measured
    #[arg(short = 'n', long, value_name = "P", default_value = "2", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    /// What carries Treepie's messages
    #[arg(long, value_enum, default_value = "shm")]
    fabric: Engine,
    /// Measure somebody else in the same run, alternating
    #[arg(long, value_enum)]
    against: Option<Opponent>,
    /// The launcher of the MPI, with its options up to `-n` [default: that of the first mpicc in PATH, each rank bound to a
    /// core, or not bound and yielding if there are more ranks than cores]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// How many runs, or alternations of both sides [default: 5, or 31 of both sides]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Processes and shared memory
    Shm,
    /// Threads of one process
    Threads,
    /// Processes of an MPI
    Mpi,
}

#[derive(Clone, Copy, ValueEnum)]
enum Opponent {
    /// The same calls in C, with an MPI of this machine
    Mpi,
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let What::P2p(p2p) = &self.what;
        p2p.run()
    }
}

impl PointToPoint {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        let mpi = match (self.fabric, self.against) {
            (Engine::Mpi, _) | (_, Some(Opponent::Mpi)) => Some(Launcher::find(self.mpirun.as_deref())?),
            _ => None,
        };
        let opponent = mpi.as_ref().filter(|_| self.against.is_some());
        let peer = opponent.map(|mpi| Peer::compile(&mpi.installation.mpicc)).transpose()?;
        let mut figures = if self.ranks == 2 { of_two_ranks() } else { Vec::new() };
        figures.extend(of_all_ranks(self.ranks));
        if self.fabric == Engine::Mpi {
            figures.retain(|figure| !figure.through_rings);
        }
        let ours = self.our_job(mpi.as_ref())?;
        let theirs = opponent.zip(peer.as_ref()).map(|(mpi, peer)| mpi.job(self.ranks).with([peer.path()]));
        let repeat = self.repeat.map_or(if theirs.is_some() { ALTERNATIONS } else { RUNS }, |repeat| repeat as usize);

        say!("Point to point on {}", machine::describe());
        say!("  treepie {}: {ours} ...", env!("CARGO_PKG_VERSION"));
        if let (Some(mpi), Some(_)) = (opponent, &theirs) {
            say!("  {}: {} p2p_peer ...", mpi.name(), mpi.job(self.ranks));
        }
        self.print_rules(&figures, theirs.is_some())?;

        let runs = alternate(&figures, &ours, theirs.as_ref(), repeat)?;
        let name = opponent.map(Launcher::name);
        print_header(name.as_deref());
        for (place, figure) in figures.iter().enumerate() {
            let record = self.record(figure, &runs, place, name.as_deref());
            print_record(&record);
            if let Some(records) = &mut records {
                records.write(&record)?;
            }
        }
        if theirs.is_some() && repeat < ENOUGH_PAIRS {
            say!("{repeat} alternations are too few to state a result; {ENOUGH_PAIRS} are the least.");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Treepie's ranks, up to the cases.
    fn our_job(&self, mpi: Option<&Launcher>) -> anyhow::Result<Job> {
        match (self.fabric, mpi) {
            (Engine::Mpi, Some(mpi)) => Ok(mpi.job(self.ranks).with([std::env::current_exe()?]).with(["p2p-rank"])),
            (Engine::Threads, _) => Job::own(["p2p-rank", "--threads", &self.ranks.to_string()]),
            _ => Job::ranks(self.ranks, ["p2p-rank"]),
        }
    }

    fn print_rules(&self, figures: &[Figure], compared: bool) -> anyhow::Result<()> {
        let batches = figures[0].case.batches;
        if compared {
            say!("  Both sides make the same calls, on the same buffers, equally often, by the same clock.");
        }
        say!(
            "  A run takes the median of {batches} batches of each case, after one to warm up; printed is the median of runs."
        );
        if self.ranks == 2 {
            say!("  latency          half a round trip of send and recv");
            say!(
                "  rate, bandwidth  windows of isend or irecv and wait for all, then one acknowledgement; 64 outstanding,"
            );
            say!("                   of large messages as many as make 4 MiB, at least 2; buffers are reused");
            say!("  bandwidth_fresh  the same with buffers that cycle through 256 MiB on each side");
            if self.fabric != Engine::Mpi {
                let permitted = self.fabric == Engine::Threads || single_copy::is_permitted()?;
                let permitted = if permitted { "permitted" } else { "not permitted" };
                say!("  bandwidth_ring   Treepie without single copy of large messages, which is {permitted} here");
            }
        }
        say!("  ring, barrier    8 bytes around all ranks, per hop; all ranks wait for all");
        say!("");
        Ok(())
    }

    fn record(&self, figure: &Figure, runs: &Runs, place: usize, peer: Option<&str>) -> Record {
        let values = |micros: &[Vec<f64>]| -> Vec<f64> {
            micros.iter().map(|run| figure.measure.value(run[place], figure.case.bytes)).collect()
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
            ranks: self.ranks,
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
}

/// Microseconds per operation: for each run, for each figure.
struct Runs {
    engine: String,
    ours: Vec<Vec<f64>>,
    theirs: Vec<Vec<f64>>,
}

/// Runs both sides in turn. Who goes first changes each time, so that a drift of the machine favours nobody.
fn alternate(figures: &[Figure], ours: &Job, theirs: Option<&Job>, repeat: usize) -> anyhow::Result<Runs> {
    let mut runs = Runs { engine: String::new(), ours: Vec::new(), theirs: Vec::new() };
    let progress = Progress::new(repeat);
    for turn in 0..repeat {
        progress.show(turn);
        for our_turn in [turn % 2 == 0, turn % 2 == 1] {
            if our_turn {
                let (engine, micros) = run_ours(figures, ours)?;
                runs.engine = engine;
                runs.ours.push(micros);
            } else if let Some(theirs) = theirs {
                runs.theirs.push(run_theirs(figures, theirs)?);
            }
        }
    }
    progress.end();
    Ok(runs)
}

/// Cases with and without single copy are two jobs, as a rank decides for its whole life.
fn run_ours(figures: &[Figure], job: &Job) -> anyhow::Result<(String, Vec<f64>)> {
    let mut engine = String::new();
    let mut micros = vec![f64::NAN; figures.len()];
    for through_rings in [false, true] {
        let is_of_this = |(place, figure): (usize, &Figure)| (figure.through_rings == through_rings).then_some(place);
        let places: Vec<usize> = figures.iter().enumerate().filter_map(is_of_this).collect();
        if places.is_empty() {
            continue;
        }
        let cases: Vec<Case> = places.iter().map(|place| figures[*place].case).collect();
        let job = if through_rings { job.clone().env("TREEPIE_SINGLE_COPY", "off") } else { job.clone() };
        let printed = parse(&job.with(cases.iter().map(Case::to_string)).output(RUN_WITHIN)?, &cases)?;
        engine = printed.engine.unwrap_or_default();
        for (place, time) in places.into_iter().zip(printed.micros) {
            micros[place] = time;
        }
    }
    Ok((engine, micros))
}

/// A case that Treepie runs twice, with and without single copy, is one for the other side.
fn run_theirs(figures: &[Figure], job: &Job) -> anyhow::Result<Vec<f64>> {
    let mut cases: Vec<Case> = Vec::new();
    for figure in figures {
        if !cases.contains(&figure.case) {
            cases.push(figure.case);
        }
    }
    let printed = parse(&job.clone().with(cases.iter().map(Case::to_string)).output(RUN_WITHIN)?, &cases)?;
    let micros_of = |figure: &Figure| cases.iter().position(|case| *case == figure.case).map(|i| printed.micros[i]);
    Ok(figures.iter().map(|figure| micros_of(figure).unwrap_or(f64::NAN)).collect())
}

fn print_header(peer: Option<&str>) {
    let theirs = peer.map(|peer| format!(" {peer:>15} {:>6}  95% interval", "ratio"));
    say!("{:<28} {:>5} {:>9} {:>8}{}", "case", "unit", "treepie", "spread", theirs.unwrap_or_default());
}

fn print_record(record: &Record) {
    let theirs = record.against.as_ref().map(|against| {
        let interval = match (against.ratio_low, against.ratio_high) {
            (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
            _ => "too few pairs".to_owned(),
        };
        format!(" {:>15} {:>6.2}  {interval}", number(against.peer_value), against.ratio)
    });
    let (value, spread) = (number(record.value), number(record.spread));
    say!("{:<28} {:>5} {value:>9} {spread:>8}{}", record.case, record.unit, theirs.unwrap_or_default());
}

/// Three significant digits or so.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

/// How far the runs are, where somebody looks.
struct Progress {
    begun: Instant,
    runs: usize,
    is_seen: bool,
}

impl Progress {
    fn new(runs: usize) -> Self {
        Self { begun: Instant::now(), runs, is_seen: std::io::stderr().is_terminal() }
    }

    fn show(&self, done: usize) {
        if !self.is_seen {
            return;
        }
        let left = match done {
            0 => String::new(),
            _ => format!(
                ", about {:.0} s left",
                self.begun.elapsed().as_secs_f64() / done as f64 * (self.runs - done) as f64
            ),
        };
        eprint!("\r  run {} of {}{left}    ", done + 1, self.runs);
        // It is only for the eyes.
        let _ = std::io::stderr().flush();
    }

    fn end(&self) {
        if self.is_seen {
            eprint!("\r{:60}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!([0.2714, 3.456, 34.56, 345.6].map(number), ["0.271", "3.46", "34.6", "346"]);
        assert_eq!([0.0271, 0.002714].map(number), ["0.0271", "0.00271"]);
    }
}
