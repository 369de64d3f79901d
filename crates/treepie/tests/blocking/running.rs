//! Ranks as threads, simulated, as processes and under MPI, one of which is lost.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Output, Stdio, Termination};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use treepie::simulate::{LogGP, Noise, Settings};
use treepie::{Comm, Error, Network};
use treepie_base::{HangGuard, hang_limit, hang_message};

use crate::table::{Call, Outcome, RANKS, Stop, Trial, VICTIM, table};

/// What becomes of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed,
    Leaves,
    Panics,
    ReturnsErr,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Killed, Self::Leaves, Self::Panics, Self::ReturnsErr];

    fn happen(self) {
        match self {
            Self::Killed => {
                let kill = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
                unreachable!("still there after {kill:?}");
            }
            Self::Panics => panic!("the fault that this test is about"),
            Self::Leaves | Self::ReturnsErr => {}
        }
    }

    /// The status with which a job ends.
    fn status(self) -> i32 {
        match self {
            Self::Killed => 128 + 9,
            Self::Leaves => 0,
            Self::Panics => 101,
            Self::ReturnsErr => 1,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

fn take_part(world: &Comm, fault: Fault, call: &Call) -> Outcome {
    // All are there.
    world.barrier()?;
    (call.run)(&Trial { world, fault: &|| fault.happen(), failed: Cell::new(0) })
}

/// Runs a rank of a job: `FAULT CALL`.
pub(crate) fn be_rank(fault: &str, name: &str) -> ExitCode {
    let fault = Fault::ALL.into_iter().find(|known| known.to_string() == fault).expect("a fault that is known");
    let call = table().into_iter().find(|call| call.name() == name).expect("a call that is known");
    let world = treepie::init().expect("a rank of the launcher");
    println!("pid {}", std::process::id());
    match take_part(&world, fault, &call) {
        Ok(()) => println!("rank {} done", world.rank()),
        // As if `main` returned it.
        Err(Stop::Left) if fault == Fault::ReturnsErr => {
            return treepie::Result::<()>::Err(Error::Algorithm("the fault that this test is about".into())).report();
        }
        Err(Stop::Left) => {}
        Err(Stop::Wrong(why)) => println!("rank {} WRONG {why}", world.rank()),
    }
    ExitCode::SUCCESS
}

/// What ranks of this process said.
struct Said(Mutex<Vec<String>>);

impl Said {
    fn note(&self, outcome: Outcome) {
        if let Err(Stop::Wrong(why)) = outcome {
            self.0.lock().expect("nobody panics with it").push(why);
        }
    }

    fn verdict(self) -> Result<(), String> {
        let wrong = self.0.into_inner().expect("nobody panics with it");
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// The row that is being run, which a hang is reported with.
pub(crate) static ROW: Mutex<String> = Mutex::new(String::new());

/// Runs something in which a rank may panic without saying so. A panic that is not that one is told.
pub(crate) fn quietly<R>(run: impl FnOnce() -> R) -> Result<Option<R>, String> {
    let _guard = HangGuard::new(&ROW.lock().expect("nobody panics with it"));
    let hook = std::panic::take_hook();
    let other = std::sync::Arc::new(Mutex::new(None));
    let noted = other.clone();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.to_string();
        if !text.contains("the fault that this test is about") {
            noted.lock().expect("only this locks it").get_or_insert(text);
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(run));
    std::panic::set_hook(hook);
    match other.lock().expect("all have ended").take() {
        Some(text) => Err(text),
        None => Ok(result.ok()),
    }
}

pub(crate) fn threads(fault: Fault, call: &Call) -> Result<(), String> {
    let said = Said(Mutex::default());
    let launched = quietly(|| treepie::launch(RANKS, |world| said.note(take_part(&world, fault, call))))?;
    if let Some(Err(error)) = launched {
        return Err(format!("the launch failed: {error}"));
    }
    said.verdict()
}

/// Messages that take their time, and another time with each seed.
pub(crate) fn settings(seed: u64) -> Settings {
    let noise = Noise { seed, jitter: 20.0, ..Noise::default() };
    Settings { noise, ..LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 }.into() }
}

/// Whether simulated ranks run now.
static IS_SIMULATING: AtomicBool = AtomicBool::new(false);

/// Lets other ranks run. Simulated ones do anyway, and on a busy machine the core would be gone for milliseconds each time.
pub(crate) fn yield_turn() {
    if !IS_SIMULATING.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

pub(crate) fn simulated(fault: Fault, call: &Call) -> Result<(), String> {
    IS_SIMULATING.store(true, Ordering::Relaxed);
    let result = simulate(fault, call);
    IS_SIMULATING.store(false, Ordering::Relaxed);
    result
}

fn simulate(fault: Fault, call: &Call) -> Result<(), String> {
    for barrier in [0.0, 3.0] {
        let said = Said(Mutex::default());
        let settings = Settings { barrier, ..settings(7) };
        let body = |world: Comm| said.note(take_part(&world, fault, call));
        let simulated = quietly(|| treepie::simulate(&Network::flat(RANKS as u32), &settings, body))?;
        if let Some(Err(error)) = simulated {
            return Err(format!("the simulation failed: {error}"));
        }
        said.verdict()?;
    }
    Ok(())
}

/// The output of a job, which is ended if it hangs.
fn output(command: &mut Command) -> Result<Output, String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child: Child = command.spawn().map_err(|error| error.to_string())?;
    let (pid, done) = (child.id(), std::sync::Arc::new(AtomicBool::new(false)));
    let is_done = done.clone();
    let watch = std::thread::spawn(move || {
        let begin = Instant::now();
        while !is_done.load(Ordering::Acquire) {
            if begin.elapsed() > hang_limit() {
                let _ = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        false
    });
    let output = child.wait_with_output().map_err(|error| error.to_string());
    done.store(true, Ordering::Release);
    watch.thread().unpark();
    if watch.join().expect("it does not panic") {
        return Err(format!("{}; {output:?}", hang_message("the end of a job")));
    }
    output
}

fn job(launcher: &mut Command, fault: Fault, call: &Call) -> Result<Output, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    output(launcher.arg(own).args(["rank", &fault.to_string(), call.name()]))
}

/// Nothing wrong was said, and nobody is left.
fn check(output: &Output) -> Result<(), String> {
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fail = |why: &str| Err(format!("{why} ({})\n{said}{errors}", output.status));
    if said.contains("WRONG") {
        return fail("a call did not end as it must");
    }
    let mut pids = said.lines().filter_map(|line| line.split("pid ").nth(1));
    match pids.find(|pid| is_left(pid.trim())) {
        Some(pid) => fail(&format!("process {pid} is left")),
        None => Ok(()),
    }
}

/// Whether a process goes on. Launchers of MPI return right after they have sent the signal that ends it, and nobody may
/// ask for the status of what they leave.
fn is_left(pid: &str) -> bool {
    let begin = Instant::now();
    let goes_on = || {
        let stat = std::fs::read_to_string(std::path::Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    while goes_on() {
        if begin.elapsed() > hang_limit() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub(crate) fn processes(fault: Fault, call: &Call) -> Result<(), String> {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_treepie"));
    let output = job(launcher.args(["run", "-n", &RANKS.to_string()]), fault, call)?;
    check(&output)?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() != Some(fault.status()) {
        return Err(format!("{}, not {}\n{said}{errors}", output.status, fault.status()));
    }
    if fault != Fault::Leaves && !errors.contains(&format!("rank {VICTIM} ")) {
        return Err(format!("the rank is not named\n{said}{errors}"));
    }
    // Those who live on say so; they may be ended first where a rank has failed.
    if fault == Fault::Leaves && said.matches(" done").count() != RANKS - 1 {
        return Err(format!("not all others have come to their end\n{said}{errors}"));
    }
    Ok(())
}

/// Whether there is such a command.
pub(crate) fn has(launcher: &str) -> bool {
    let found = Command::new(launcher).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Under MPI the job ends when a process dies, and the MPI's launcher says which: Open MPI's the rank, MPICH's its process. A rank
/// that fails says so itself, and one that leaves is noticed as elsewhere.
pub(crate) fn mpi(launcher: &str, fault: Fault, call: &Call) -> Result<(), String> {
    let mut command = Command::new(launcher);
    if launcher.contains("openmpi") {
        command.args(treepie_mpi::OPENMPI_TEST_OPTIONS);
    }
    let output = job(command.args(["-n", &RANKS.to_string()]), fault, call)?;
    check(&output)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    match fault {
        Fault::Leaves if !output.status.success() || said.matches(" done").count() != RANKS - 1 => {
            Err(format!("{}\n{said}{errors}", output.status))
        }
        Fault::Leaves => Ok(()),
        _ if output.status.success() => Err(format!("a job with a rank that failed succeeded\n{said}{errors}")),
        _ => {
            let is_named = if fault == Fault::Killed && launcher.contains("mpich") {
                said.contains("RUNNING AT") && said.contains("signal 9")
            } else {
                errors.contains(&format!("rank {VICTIM}"))
            };
            if is_named { Ok(()) } else { Err(format!("the rank is not named\n{said}{errors}")) }
        }
    }
}
