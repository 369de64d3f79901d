//! `treepie demo`: runs each feature once on this machine and checks the results.
//!
//! A feature is a row of [`PARTS`]; [`checks`] has what all ranks of a world do together.

mod active;
mod checks;
mod choices;
mod communicators;
mod exchange;
mod failures;
mod graph;
mod randomaccess;
mod wide_area;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use treepie::simulate::LinkCosts;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::{BlockSizes, Workload, symmetric};
use treepie_topology::Network;

use treepie_bench::job::{HANG_TIMEOUT, Job};
use treepie_bench::machine;
use treepie_bench::mpi::{INSTALL_HINT, Launcher};
use treepie_bench::p2p::{Pattern, ping_pong, stream};
use treepie_bench::record::{Better, Record, Records};
use treepie_bench::{Measure, format_number, on_threads, parse, program_error};

/// Ranks of each world, except in [`speed`].
const RANKS: u32 = 4;

/// Far longer than any part takes.
const PART_TIMEOUT: Duration = HANG_TIMEOUT;

/// Run every feature once on this machine and check the results
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A part of the demo. It reports each check that passed and returns the first error.
type Part = fn(&mut Report) -> anyhow::Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("threads", threads),
    ("processes", processes),
    ("MPI", under_each_mpi),
    ("communicators", splits),
    ("exchange", sparse_exchange),
    ("active messages", active_messages),
    ("graphs", graphs),
    ("RandomAccess", random_access),
    ("losses", lost_ranks),
    ("simulated", simulated),
    ("choices", choices),
    ("wide area", emulated),
    ("speed", speed),
];

impl Demo {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let records = Records::create(self.json.as_deref())?;
        let mut report = Report { records, since: Instant::now(), passed: 0, skipped: 0, failed: 0 };
        say!("Treepie {} on {}", env!("CARGO_PKG_VERSION"), machine::describe());
        let start = Instant::now();
        for (name, part) in PARTS {
            report.since = Instant::now();
            if let Err(error) = part(&mut report) {
                report.failed(name, &error);
            }
        }
        let Report { passed, skipped, failed, .. } = report;
        let verdict = if failed == 0 { "All is well" } else { "NOT ALL IS WELL" };
        let seconds = start.elapsed().as_secs_f64();
        say!("{verdict}: {passed} ok, {skipped} skipped, {failed} failed, in {seconds:.1} s.");
        if failed == 0 {
            say!("Next: treepie run -n {RANKS} PROGRAM, treepie doctor, treepie bench p2p.");
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The results so far.
struct Report {
    records: Records,
    since: Instant,
    passed: u32,
    skipped: u32,
    failed: u32,
}

impl Report {
    fn print_status(state: &str, what: &str, detail: &str) {
        say!("  {state:<8} {what:<15} {detail}");
    }

    /// Reports a check that passed.
    fn ok(&mut self, what: &str, engine: &str, ranks: u32, detail: &str) -> anyhow::Result<()> {
        Self::print_status("ok", what, detail);
        self.passed += 1;
        let name = what.to_lowercase().replace(' ', "-");
        let seconds = std::mem::replace(&mut self.since, Instant::now()).elapsed().as_secs_f64();
        self.record(&format!("demo/{name}"), engine, ranks, seconds, "s", Better::Low)
    }

    /// Reports a check that cannot run here.
    fn skipped(&mut self, what: &str, why: &str) {
        Self::print_status("skipped", what, why);
        self.skipped += 1;
    }

    fn failed(&mut self, what: &str, error: &anyhow::Error) {
        Self::print_status(
            "FAILED",
            what,
            &treepie_bench::diagnostics::one_line(&treepie_bench::diagnostics::with_causes(error)),
        );
        self.failed += 1;
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
        let record = Record::measured(case.to_owned(), engine, ranks, &[value], (unit, better));
        self.records.write(&Record { statistic: "once".to_owned(), ..record })
    }
}

fn threads(report: &mut Report) -> anyhow::Result<()> {
    on_threads(RANKS, checks::run)?;
    report.ok("threads", "threads", RANKS, &checks::summary(RANKS, "threads"))
}

fn processes(report: &mut Report) -> anyhow::Result<()> {
    let engine = engine_of(&Job::ranks(RANKS, ["demo-rank"])?)?;
    ensure!(engine == "shm", "the ranks used {engine} instead of shared memory");
    report.ok("processes", &engine, RANKS, &checks::summary(RANKS, "processes, shared memory"))
}

fn under_each_mpi(report: &mut Report) -> anyhow::Result<()> {
    if treepie_mpi::running_under_mpi().is_some() {
        report.skipped("MPI", "this process runs under an MPI and cannot start another; run the demo without mpirun");
        return Ok(());
    }
    let found = treepie_mpi::installations();
    if found.is_empty() {
        report.skipped("MPI", &format!("no mpicc in PATH; MPI is optional ({INSTALL_HINT})"));
    }
    for installation in found {
        let name = installation.flavor.to_string();
        let Some(mpi) = Launcher::from_installation(&installation) else {
            report.skipped(&name, &format!("{installation} has no mpirun beside it ({INSTALL_HINT})"));
            continue;
        };
        // Compile the shim now, once, instead of while all ranks wait.
        let tried = treepie_mpi::setup(Some(&installation.mpicc)).map_err(anyhow::Error::from).and_then(|_| {
            let engine = engine_of(&mpi.job(RANKS).args([std::env::current_exe()?]).args(["demo-rank"]))?;
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
    let failed: usize = on_threads(RANKS, failures::run)?.into_iter().sum();
    let detail =
        format!("one of {RANKS} threads leaves; {failed} calls of the others fail, and none succeeds or hangs");
    report.ok("losses", "threads", RANKS, &detail)
}

fn splits(report: &mut Report) -> anyhow::Result<()> {
    const RANKS: u32 = 8;
    let communicators::CommunicatorsResult { algorithms, hits, lookups } =
        on_threads(RANKS, communicators::run)?.swap_remove(0);
    let detail = format!(
        "{RANKS} threads, {algorithms} split algorithms; a table distributed over 4, {hits} of {lookups} lookups cached"
    );
    report.ok("communicators", "threads", RANKS, &detail)
}

fn sparse_exchange(report: &mut Report) -> anyhow::Result<()> {
    let protocols = on_threads(RANKS, exchange::run)?[0];
    let detail = format!("{RANKS} threads send to arbitrary subsets, with each of {protocols} protocols");
    report.ok("exchange", "threads", RANKS, &detail)
}

fn active_messages(report: &mut Report) -> anyhow::Result<()> {
    let active::ActiveMessagesResult { updates, configurations, handlers } =
        on_threads(RANKS, active::run)?.swap_remove(0);
    let detail = format!(
        "{RANKS} threads: {updates} random updates in each of {configurations} configurations; a tree of {handlers} handlers; replies"
    );
    report.ok("active messages", "threads", RANKS, &detail)
}

fn graphs(report: &mut Report) -> anyhow::Result<()> {
    let graph::GraphResult { vertices, edges, reached, components } = on_threads(RANKS, graph::run)?.swap_remove(0);
    let detail = format!(
        "{RANKS} threads: {vertices} vertices, {edges} edges; BFS reaches {reached}, {components} components; verified"
    );
    report.ok("graphs", "threads", RANKS, &detail)
}

fn random_access(report: &mut Report) -> anyhow::Result<()> {
    let (algorithms, rate, fastest) = on_threads(RANKS, randomaccess::run)?.swap_remove(0);
    let detail = format!(
        "{RANKS} threads, {algorithms} algorithms without a wrong word; {} GUP/s by {fastest}",
        format_number(rate)
    );
    report.ok("RandomAccess", "threads", RANKS, &detail)
}

/// The same checks on a simulated torus, and a ring allgather on a million simulated ranks.
fn simulated(report: &mut Report) -> anyhow::Result<()> {
    let machine = LinkCosts::new(6.29, 1.0 / 375.0).into();
    let torus = Network::torus(&[2, 2, 4], &[true; 3])?;
    let micros = treepie::simulate(&torus, &machine, |world| checks::run(&world).map_err(program_error))?.micros();
    let what = format!("ranks of a simulated torus, {} virtual us", format_number(micros));
    report.ok("simulated", "sim", torus.ranks(), &checks::summary(torus.ranks(), &what))?;

    const RANKS: u32 = 1 << 20;
    const BYTES: usize = 1024;
    let network = Network::flat(RANKS);
    let schedule = registry::build("allgather/ring", &CollectiveSpec::new(Operation::Allgather, &network))?;
    let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::uniform(BYTES, schedule.blocks())));
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let result = symmetric::simulate(workload, &network, &machine)?.context("a ring is symmetric")?;
    let formula = f64::from(RANKS - 1) * (6.29 + BYTES as f64 / 375.0);
    ensure!((result.micros() / formula - 1.0).abs() < 1e-6, "{} us instead of {formula}", result.micros());
    let detail = format!(
        "ring allgather of 1 KiB blocks on {RANKS} ranks takes {} s, as its closed form predicts",
        format_number(formula / 1e6)
    );
    report.ok("a million ranks", "sim", RANKS, &detail)
}

/// What is measured and chosen on a simulated wide area.
fn choices(report: &mut Report) -> anyhow::Result<()> {
    let (ranks, detail) = choices::run()?;
    report.ok("choices", "sim", ranks, &detail)
}

fn emulated(report: &mut Report) -> anyhow::Result<()> {
    let (ranks, detail) = wide_area::run()?;
    report.ok("wide area", "threads", ranks, &detail)
}

fn speed(report: &mut Report) -> anyhow::Result<()> {
    const BYTES: usize = 1 << 20;
    let cases = [ping_pong(8, 2000), stream(Pattern::Stream, 8, 300), stream(Pattern::Stream, BYTES, 10)];
    let texts = cases.map(|case| case.to_string());
    let printed = parse(&Job::ranks(2, ["p2p-rank"])?.args(&texts).output(PART_TIMEOUT)?, &texts)?;
    let rows = [("latency/8", Measure::Time), ("rate/8", Measure::Rate), ("bandwidth/1048576", Measure::Bandwidth)];
    let mut values = Vec::new();
    for (((name, measure), case), micros) in rows.into_iter().zip(&cases).zip(&printed.micros()) {
        let value = measure.value(*micros, case.task.bytes);
        report.record(&format!("p2p/{name}"), "shm", 2, value, measure.unit(), measure.better())?;
        values.push(format!("{} {}", format_number(value), measure.unit()));
    }
    let detail = format!("2 processes: 8 bytes in {}; 64 outstanding, {}; 1 MiB, {}", values[0], values[1], values[2]);
    report.ok("speed", "shm", 2, &detail)
}

/// Runs a job of [`rank`]s and returns their engine.
fn engine_of(job: &Job) -> anyhow::Result<String> {
    let stdout = job.output(PART_TIMEOUT)?;
    let engine = stdout.lines().find_map(|line| line.strip_prefix("all checks passed on "));
    let Some(engine) = engine else {
        anyhow::bail!("{job} printed {:?}", treepie_bench::diagnostics::one_line(&stdout))
    };
    Ok(engine.to_owned())
}

/// One rank of the demo's jobs.
pub(crate) fn rank() -> anyhow::Result<ExitCode> {
    let world = treepie::init()?;
    ensure!(world.size() == RANKS as usize, "a world of {} ranks instead of {RANKS}", world.size());
    checks::run(&world)?;
    if world.rank() == 0 {
        say!("all checks passed on {}", world.engine());
    }
    Ok(ExitCode::SUCCESS)
}
