//! `treepie demo`: what Treepie can do, once, on this machine, and whether it came out right.
//!
//! A capability takes part by a line in [`PARTS`]; what all ranks of a world do together is in [`checks`].

mod active;
mod checks;
mod communicators;
mod exchange;
mod graph;
mod losses;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use treepie::simulate::Links;
use treepie_collectives::registry::{self, Request};
use treepie_schedule::{Layout, Layouts, Operation};
use treepie_sim::{Piece, Sizes, symmetric};
use treepie_topology::Network;

use super::bench::p2p::case::{Case, Pattern, stream};
use super::bench::{Measure, number, parse};
use super::job::{HANGS_AFTER, Job};
use super::machine;
use super::mpi::{HOW_TO_GET, Launcher};
use super::record::{Better, Record, Records};

/// Ranks of each world but that of the speed.
const RANKS: u32 = 4;

/// Far more than any part takes.
const PART_WITHIN: Duration = HANGS_AFTER;

/// Run everything once on this machine, check it, and say what was seen
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Something that the demo shows. It reports each thing that it has checked, and ends at the first that is wrong.
type Part = fn(&mut Report) -> anyhow::Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("threads", threads),
    ("processes", processes),
    ("MPI", under_each_mpi),
    ("communicators", splits),
    ("exchange", sparse_exchange),
    ("active messages", active_messages),
    ("graphs", graphs),
    ("losses", lost_ranks),
    ("simulated", simulated),
    ("speed", speed),
];

impl Demo {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let records = self.json.as_deref().map(Records::create).transpose()?;
        let mut report = Report { records, since: Instant::now(), good: 0, skipped: 0, bad: 0 };
        say!("Treepie {} on {}", env!("CARGO_PKG_VERSION"), machine::describe());
        let begun = Instant::now();
        for (name, part) in PARTS {
            report.since = Instant::now();
            if let Err(error) = part(&mut report) {
                report.failed(name, &error);
            }
        }
        let Report { good, skipped, bad, .. } = report;
        let judgement = if bad == 0 { "All is well" } else { "NOT ALL IS WELL" };
        let seconds = begun.elapsed().as_secs_f64();
        say!("{judgement}: {good} ok, {skipped} skipped, {bad} failed, in {seconds:.1} s.");
        if bad == 0 {
            say!("Next: treepie run -n {RANKS} PROGRAM, treepie doctor, treepie bench p2p.");
        }
        Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What has been seen so far.
struct Report {
    records: Option<Records>,
    since: Instant,
    good: u32,
    skipped: u32,
    bad: u32,
}

impl Report {
    fn line(state: &str, what: &str, seen: &str) {
        say!("  {state:<8} {what:<15} {seen}");
    }

    /// Something was checked, and was right.
    fn ok(&mut self, what: &str, engine: &str, ranks: u32, seen: &str) -> anyhow::Result<()> {
        Self::line("ok", what, seen);
        self.good += 1;
        let name = what.to_lowercase().replace(' ', "-");
        let seconds = std::mem::replace(&mut self.since, Instant::now()).elapsed().as_secs_f64();
        self.record(&format!("demo/{name}"), engine, ranks, seconds, "s", Better::Low)
    }

    /// Something cannot be done here.
    fn skipped(&mut self, what: &str, why: &str) {
        Self::line("skipped", what, why);
        self.skipped += 1;
    }

    fn failed(&mut self, what: &str, error: &anyhow::Error) {
        Self::line("FAILED", what, &super::one_line(&super::complaint::with_causes(error)));
        self.bad += 1;
    }

    fn record(
        &mut self,
        case: &str,
        engine: &str,
        ranks: u32,
        value: f64,
        unit: &str,
        better: Better,
    ) -> anyhow::Result<()> {
        let Some(records) = &mut self.records else { return Ok(()) };
        records.write(&Record {
            case: case.to_owned(),
            engine: engine.to_owned(),
            ranks,
            value,
            unit: unit.to_owned(),
            better,
            statistic: "once".to_owned(),
            spread: 0.0,
            samples: 1,
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        })
    }
}

fn threads(report: &mut Report) -> anyhow::Result<()> {
    let done = treepie::launch(RANKS as usize, |world| checks::run(&world))?;
    done.into_iter().collect::<anyhow::Result<()>>()?;
    report.ok("threads", "threads", RANKS, &checks::summary(RANKS, "threads"))
}

fn processes(report: &mut Report) -> anyhow::Result<()> {
    let engine = engine_of(&Job::ranks(RANKS, ["demo-rank"])?)?;
    ensure!(engine == "shm", "the ranks used {engine} instead of shared memory");
    report.ok("processes", &engine, RANKS, &checks::summary(RANKS, "processes, shared memory"))
}

fn under_each_mpi(report: &mut Report) -> anyhow::Result<()> {
    if treepie_mpi::running_under_mpi().is_some() {
        report.skipped("MPI", "this is a process of an MPI already, which cannot start another; run it without mpirun");
        return Ok(());
    }
    let found = treepie_mpi::installations();
    if found.is_empty() {
        report.skipped("MPI", &format!("no mpicc in PATH, and nothing else needs it ({HOW_TO_GET})"));
    }
    for installation in found {
        let name = installation.flavor.to_string();
        let Some(mpi) = Launcher::of(&installation) else {
            report.skipped(&name, &format!("{installation} has no mpirun beside it ({HOW_TO_GET})"));
            continue;
        };
        // The shim is compiled now if it was not, once, instead of while all ranks wait.
        let tried = treepie_mpi::setup(Some(&installation.mpicc)).map_err(anyhow::Error::from).and_then(|_| {
            let engine = engine_of(&mpi.job(RANKS).with([std::env::current_exe()?]).with(["demo-rank"]))?;
            ensure!(engine == "mpi", "the ranks used {engine} instead of MPI");
            Ok(engine)
        });
        match tried {
            Ok(engine) => report.ok(&mpi.name(), &engine, RANKS, &checks::summary(RANKS, "processes of mpirun"))?,
            Err(error) => report.failed(&mpi.name(), &error),
        }
    }
    Ok(())
}

fn lost_ranks(report: &mut Report) -> anyhow::Result<()> {
    let done = treepie::launch(RANKS as usize, |world| losses::run(&world))?;
    let failed: usize = done.into_iter().collect::<anyhow::Result<Vec<_>>>()?.into_iter().sum();
    let seen = format!("one of {RANKS} threads leaves; {failed} calls of the others fail, and none succeeds or hangs");
    report.ok("losses", "threads", RANKS, &seen)
}

fn splits(report: &mut Report) -> anyhow::Result<()> {
    const RANKS: u32 = 8;
    let done = treepie::launch(RANKS as usize, |world| communicators::run(&world))?;
    let communicators::Seen { ways, hits, look_ups } =
        done.into_iter().collect::<anyhow::Result<Vec<_>>>()?.swap_remove(0);
    let seen = format!(
        "{RANKS} threads split by each of {ways} ways; a table that 4 share, {hits} of {look_ups} look-ups from the cache"
    );
    report.ok("communicators", "threads", RANKS, &seen)
}

fn sparse_exchange(report: &mut Report) -> anyhow::Result<()> {
    let done = treepie::launch(RANKS as usize, |world| exchange::run(&world))?;
    let done = done.into_iter().collect::<anyhow::Result<Vec<usize>>>()?;
    let seen = format!("{RANKS} threads send to whom they like, by each of {} protocols", done[0]);
    report.ok("exchange", "threads", RANKS, &seen)
}

fn active_messages(report: &mut Report) -> anyhow::Result<()> {
    let done = treepie::launch(RANKS as usize, |world| active::run(&world))?;
    let active::Seen { updates, configurations, handlers } =
        done.into_iter().collect::<anyhow::Result<Vec<_>>>()?.swap_remove(0);
    let seen = format!(
        "{RANKS} threads: {updates} random updates in each of {configurations} configurations; a tree of {handlers} handlers; answers"
    );
    report.ok("active messages", "threads", RANKS, &seen)
}

fn graphs(report: &mut Report) -> anyhow::Result<()> {
    let done = treepie::launch(RANKS as usize, |world| graph::run(&world))?;
    let graph::Seen { vertices, edges, reached, components } =
        done.into_iter().collect::<anyhow::Result<Vec<_>>>()?.swap_remove(0);
    let seen = format!(
        "{RANKS} threads: {vertices} vertices, {edges} edges; a search reaches {reached}, {components} components; verified"
    );
    report.ok("graphs", "threads", RANKS, &seen)
}

/// The same program on a torus that does not exist, and an algorithm at a scale that nobody has at hand.
fn simulated(report: &mut Report) -> anyhow::Result<()> {
    let machine = Links::new(6.29, 1.0 / 375.0).into();
    let torus = Network::torus(&[2, 2, 4], &[true; 3])?;
    let run = treepie::simulate(&torus, &machine, |world| checks::run(&world))?;
    let micros = run.micros();
    run.into_results().into_iter().collect::<anyhow::Result<()>>()?;
    let what = format!("ranks of a simulated torus, {} virtual us", number(micros));
    report.ok("simulated", "sim", torus.ranks(), &checks::summary(torus.ranks(), &what))?;

    const RANKS: u32 = 1 << 20;
    const BYTES: usize = 1024;
    let network = Network::flat(RANKS);
    let schedule = registry::build("allgather/ring", &Request::new(Operation::Allgather, &network))?;
    let sizes = Sizes::Shared(Layouts::both(Layout::uniform(BYTES, schedule.blocks())));
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let played = symmetric::play(piece, &network, &machine)?.context("all ranks of a ring do the same")?;
    let formula = f64::from(RANKS - 1) * (6.29 + BYTES as f64 / 375.0);
    ensure!((played.micros() / formula - 1.0).abs() < 1e-6, "{} us instead of {formula}", played.micros());
    let seen =
        format!("a ring of {RANKS} ranks, 1 KiB of each, takes {} s, as the formula says", number(formula / 1e6));
    report.ok("a million ranks", "sim", RANKS, &seen)
}

fn speed(report: &mut Report) -> anyhow::Result<()> {
    const BYTES: usize = 1 << 20;
    let latency = Case { pattern: Pattern::PingPong, bytes: 8, outstanding: 1, count: 2000, batches: 9 };
    let cases = [latency, stream(Pattern::Stream, 8, 300), stream(Pattern::Stream, BYTES, 10)];
    let texts = cases.map(|case| case.to_string());
    let printed = parse(&Job::ranks(2, ["p2p-rank"])?.with(&texts).output(PART_WITHIN)?, &texts)?;
    let rows = [("latency/8", Measure::Time), ("rate/8", Measure::Rate), ("bandwidth/1048576", Measure::Bandwidth)];
    let mut values = Vec::new();
    for (((name, measure), case), micros) in rows.into_iter().zip(&cases).zip(&printed.micros) {
        let value = measure.value(*micros, case.bytes);
        report.record(&format!("p2p/{name}"), "shm", 2, value, measure.unit(), measure.better())?;
        values.push(format!("{} {}", number(value), measure.unit()));
    }
    let seen = format!("2 processes: 8 bytes in {}; 64 outstanding, {}; 1 MiB, {}", values[0], values[1], values[2]);
    report.ok("speed", "shm", 2, &seen)
}

/// Runs a job of [`rank`]s and returns the engine that they used.
fn engine_of(job: &Job) -> anyhow::Result<String> {
    let said = job.output(PART_WITHIN)?;
    let engine = said.lines().find_map(|line| line.strip_prefix("all checks passed on "));
    let Some(engine) = engine else { anyhow::bail!("{job} said {:?}", super::one_line(&said)) };
    Ok(engine.to_owned())
}

/// One rank of a job of the demo.
pub(crate) fn rank() -> anyhow::Result<ExitCode> {
    let world = treepie::init()?;
    ensure!(world.size() == RANKS as usize, "a world of {} ranks instead of {RANKS}", world.size());
    checks::run(&world)?;
    if world.rank() == 0 {
        say!("all checks passed on {}", world.engine());
    }
    Ok(ExitCode::SUCCESS)
}
