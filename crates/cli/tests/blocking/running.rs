//! Runs a row on threads, on the simulator, on processes and under MPI, and injects a fault into one rank.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Output, Stdio, Termination};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use treepie::simulate::{LogGP, Noise, Settings};
use treepie::{Comm, Network};
use treepie_base::{HangGuard, hang_limit, hang_message};

use crate::hierarchical;
use crate::table::{Call, Outcome, RANKS, Stop, Trial, VICTIM, table};

/// The text of panics and errors that are injected.
const FAULT: &str = "the fault that this test is about";

/// What happens to the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed,
    Leaves,
    Panics,
    ReturnsErr,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Killed, Self::Leaves, Self::Panics, Self::ReturnsErr];

    pub(crate) fn inject(self) {
        match self {
            Self::Killed => {
                let kill = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
                unreachable!("still running after {kill:?}");
            }
            Self::Panics => panic!("{FAULT}"),
            Self::Leaves | Self::ReturnsErr => {}
        }
    }

    /// The exit status of the job.
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

fn run_call(world: &Comm, fault: Fault, call: &Call) -> Outcome {
    // Faults are injected only after all ranks have started.
    world.barrier()?;
    (call.run)(&Trial { world, fault: &|| fault.inject(), failed: Cell::new(0) })
}

/// Runs a rank of a job: `FAULT CALL`.
pub(crate) fn rank_main(fault: &str, name: &str) -> ExitCode {
    let fault = Fault::ALL.into_iter().find(|known| known.to_string() == fault).expect("a known fault");
    let call = table().into_iter().find(|call| call.name() == name);
    let world = treepie::init().expect("a rank of the launcher");
    println!("pid {}", std::process::id());
    let outcome = match call {
        Some(call) => run_call(&world, fault, &call),
        None => hierarchical::rank_trial(&world, name, fault).expect("a known call"),
    };
    match outcome {
        Ok(()) => println!("rank {} done", world.rank()),
        // As if `main` returned it.
        Err(Stop::Left) if fault == Fault::ReturnsErr => {
            return treepie::Result::<()>::Err(FAULT.into()).report();
        }
        Err(Stop::Left) => {}
        Err(Stop::Wrong(why)) => println!("rank {} WRONG {why}", world.rank()),
    }
    ExitCode::SUCCESS
}

/// Failures reported by the ranks of this process.
#[derive(Default)]
pub(crate) struct Failures(Mutex<Vec<String>>);

impl Failures {
    /// What the rank returns.
    pub(crate) fn record(&self, fault: Fault, outcome: Outcome) -> treepie::Result<()> {
        match outcome {
            Err(Stop::Left) if fault == Fault::ReturnsErr => return Err(FAULT.into()),
            Err(Stop::Wrong(why)) => self.0.lock().expect("not poisoned").push(why),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn verdict(self) -> Result<(), String> {
        let wrong = self.0.into_inner().expect("not poisoned");
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// The current row, for the report of a hang.
pub(crate) static CURRENT_ROW: Mutex<String> = Mutex::new(String::new());

/// Runs something in which a rank may panic on purpose, silently. Any other panic is an error.
pub(crate) fn with_expected_panic<R>(run: impl FnOnce() -> R) -> Result<Option<R>, String> {
    let _guard = HangGuard::new(&CURRENT_ROW.lock().expect("not poisoned"));
    let hook = std::panic::take_hook();
    let other = std::sync::Arc::new(Mutex::new(None));
    let recorded = other.clone();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.to_string();
        if !text.contains(FAULT) {
            recorded.lock().expect("only this locks it").get_or_insert(text);
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(run));
    std::panic::set_hook(hook);
    match other.lock().expect("all have ended").take() {
        Some(text) => Err(text),
        None => Ok(result.ok()),
    }
}

/// Of ranks in one process, an injected error is returned with its rank, and nothing else fails.
pub(crate) fn check_error<T>(fault: Fault, run: Option<treepie::Result<T>>) -> Result<(), String> {
    let expected = (fault == Fault::ReturnsErr).then(|| format!("rank {VICTIM}: {FAULT}"));
    match run.map(|run| run.err().map(|error| error.to_string())) {
        // It panicked.
        None => Ok(()),
        Some(error) if error == expected => Ok(()),
        Some(error) => Err(format!("the world ended with {error:?} instead of {expected:?}")),
    }
}

pub(crate) fn threads(fault: Fault, call: &Call) -> Result<(), String> {
    let failures = Failures::default();
    let launched =
        with_expected_panic(|| treepie::launch(RANKS, |world| failures.record(fault, run_call(&world, fault, call))))?;
    check_error(fault, launched)?;
    failures.verdict()
}

/// A network whose message times vary with the seed.
pub(crate) fn settings(seed: u64) -> Settings {
    let noise = Noise { seed, jitter: 20.0, ..Noise::default() };
    Settings { noise, ..LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 }.into() }
}

/// Whether simulated ranks run now.
static IS_SIMULATING: AtomicBool = AtomicBool::new(false);

/// Lets other ranks run. Simulated ranks switch anyway, and on a busy machine a yield would cost the core for
/// milliseconds.
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
        let failures = Failures::default();
        let settings = Settings { barrier_time: barrier, ..settings(7) };
        let body = |world: Comm| failures.record(fault, run_call(&world, fault, call));
        let simulated = with_expected_panic(|| treepie::simulate(&Network::flat(RANKS as u32), &settings, body))?;
        check_error(fault, simulated)?;
        failures.verdict()?;
    }
    Ok(())
}

/// The output of a job, which is terminated if it hangs.
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

/// The output of a job whose ranks run this program.
pub(crate) fn job(launcher: &mut Command, fault: Fault, call: &str) -> Result<Output, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    output(launcher.arg(program).args(["rank", &fault.to_string(), call]))
}

/// No rank has reported a wrong outcome, and no process is left.
pub(crate) fn check(output: &Output) -> Result<(), String> {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fail = |why: &str| Err(format!("{why} ({})\n{stdout}{stderr}", output.status));
    if stdout.contains("WRONG") {
        return fail("a call did not end as it must");
    }
    let mut pids = stdout.lines().filter_map(|line| line.split("pid ").nth(1));
    match pids.find(|pid| is_running(pid.trim())) {
        Some(pid) => fail(&format!("process {pid} is left")),
        None => Ok(()),
    }
}

/// Whether a process keeps running. MPI launchers return right after they have sent the signal that ends it, and the
/// status of an orphan cannot be waited for.
fn is_running(pid: &str) -> bool {
    let begin = Instant::now();
    let is_alive = || {
        let stat = std::fs::read_to_string(std::path::Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    while is_alive() {
        if begin.elapsed() > hang_limit() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The job of Treepie's launcher has ended as the fault demands, and the rank that failed is named.
pub(crate) fn check_status(output: &Output, fault: Fault, victim: usize) -> Result<(), String> {
    check(output)?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() != Some(fault.status()) {
        return Err(format!("{}, not {}\n{stdout}{stderr}", output.status, fault.status()));
    }
    if fault != Fault::Leaves && !stderr.contains(&format!("rank {victim} ")) {
        return Err(format!("the rank is not named\n{stdout}{stderr}"));
    }
    Ok(())
}

pub(crate) fn processes(fault: Fault, call: &Call) -> Result<(), String> {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_treepie"));
    let output = job(launcher.args(["run", "-n", &RANKS.to_string()]), fault, call.name())?;
    check_status(&output, fault, VICTIM)?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Survivors report that they are done. Where a rank has failed, the launcher may end them first.
    if fault == Fault::Leaves && stdout.matches(" done").count() != RANKS - 1 {
        return Err(format!("not all other ranks have finished\n{stdout}{stderr}"));
    }
    Ok(())
}

/// Whether this launcher is installed.
pub(crate) fn has_launcher(launcher: &str) -> bool {
    let found = Command::new(launcher).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The command that starts ranks under MPI.
pub(crate) fn mpi_launcher(launcher: &str, ranks: usize) -> Command {
    let mut command = Command::new(launcher);
    if launcher.contains("openmpi") {
        command.args(treepie_mpi::OPENMPI_TEST_OPTIONS);
    }
    command.args(["-n", &ranks.to_string()]);
    command
}

/// Under MPI the job ends when a process dies, and the launcher names it: Open MPI's by rank, MPICH's by process. A
/// rank that fails prints its error, and one that leaves is detected as on other engines.
pub(crate) fn mpi(launcher: &str, fault: Fault, call: &Call) -> Result<(), String> {
    let output = job(&mut mpi_launcher(launcher, RANKS), fault, call.name())?;
    check(&output)?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    match fault {
        Fault::Leaves if !output.status.success() || stdout.matches(" done").count() != RANKS - 1 => {
            Err(format!("{}\n{stdout}{stderr}", output.status))
        }
        Fault::Leaves => Ok(()),
        _ if output.status.success() => Err(format!("a job with a rank that failed succeeded\n{stdout}{stderr}")),
        _ => {
            let is_named = if fault == Fault::Killed && launcher.contains("mpich") {
                stdout.contains("RUNNING AT") && stdout.contains("signal 9")
            } else {
                stderr.contains(&format!("rank {VICTIM}"))
            };
            if is_named { Ok(()) } else { Err(format!("the rank is not named\n{stdout}{stderr}")) }
        }
    }
}
