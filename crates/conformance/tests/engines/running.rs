//! Runs of the suite, each in its own process, with as many at a time as there are cores for. A run has no time limit:
//! each case that starts or ends prints a line, and a run is killed only if no line comes for long.

use std::fmt::Display;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use treepie_base::{hang_limit, hang_message};

pub(crate) const SUITE: &str = env!("CARGO_BIN_EXE_conformance");

/// Engines, as options of the suite.
pub(crate) const THREADS: &str = "--threads";
pub(crate) const SHM: &str = "--shm";
pub(crate) const SIM: &str = "--sim";

/// The time between SIGTERM and SIGKILL for a run that hangs.
const GRACE: Duration = Duration::from_secs(5);

/// The cores that runs may use. Most runs keep both busy and run alone; of simulated ones, two run at a time.
static CORES: Cores = Cores { free: Mutex::new(NUM_CORES), released: Condvar::new() };
const NUM_CORES: usize = 2;

struct Cores {
    free: Mutex<usize>,
    released: Condvar,
}

impl Cores {
    /// Waits until `count` cores are free, and takes them.
    fn take(&self, count: usize) -> CoreGuard<'_> {
        let free = self.free.lock().expect("no thread panics while it holds the lock");
        let mut free =
            self.released.wait_while(free, |free| *free < count).expect("no thread panics while it holds the lock");
        *free -= count;
        CoreGuard { cores: self, count }
    }
}

struct CoreGuard<'a> {
    cores: &'a Cores,
    count: usize,
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        *self.cores.free.lock().expect("no thread panics while it holds the lock") += self.count;
        self.cores.released.notify_all();
    }
}

/// The number of cores that a run keeps busy: a single-threaded process takes one.
fn cores_of(command: &Command) -> usize {
    let is_parallel = command.get_program() != SUITE || command.get_args().any(|word| word == SHM || word == THREADS);
    if is_parallel { NUM_CORES } else { 1 }
}

/// Whether `TREEPIE_LONG` asks for runs that take minutes.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// Runs the cases that `filter` selects, or all, with these environment variables, on a number of ranks or a simulated network.
pub(crate) fn suite<'a>(
    engine: &str,
    ranks: impl Display,
    filter: impl Into<Option<&'a str>>,
    environment: &[(&str, &str)],
) {
    let filter = filter.into();
    let mut command = Command::new(SUITE);
    command.args([engine, &ranks.to_string()]).args(filter).envs(environment.iter().copied());
    let with: String = environment.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    passes(&format!("{} on {engine} {ranks}{with}", filter.unwrap_or("all cases")), &mut command);
}

/// Runs the suite and requires that every case that applies has passed.
pub(crate) fn passes(what: &str, command: &mut Command) {
    let _cores = CORES.take(cores_of(command));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // If a case hangs, its ranks report what they wait for.
    command.env("TREEPIE_STALL_SECS", "20").process_group(0);
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {command:?} does not start: {error}"));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let last_output = Arc::new(Mutex::new(begin));
    let updated = last_output.clone();
    let out = std::thread::spawn(move || {
        text(&mut out, |now| *updated.lock().expect("no thread panics while it holds the lock") = now)
    });
    // Ranks that hang keep reporting on standard error, which is no progress.
    let err = std::thread::spawn(move || text(&mut err, drop));
    let status = wait_unless(&mut child, || {
        last_output.lock().expect("no thread panics while it holds the lock").elapsed() > hang_limit()
    });
    let is_over = status.is_some();
    let status = status.unwrap_or_else(|| terminate(&mut child));
    let (out, err) = (out.join().expect("reads"), err.join().expect("reads"));
    let summary = out.lines().rev().find(|line| line.starts_with("conformance on ")).unwrap_or_default();
    let took = begin.elapsed().as_secs_f64();
    println!("{what}: {summary} ({took:.1} s)");
    assert!(is_over, "{}\n{out}\n{err}", hang_message(&format!("{what}, the next line of its output")));
    let how = status.code().map_or(format!("signal {:?}", status.signal()), |code| format!("status {code}"));
    assert!(status.success() && summary.contains(" 0 failed"), "{what}: {how}\n{out}\n{err}");
}

/// Reads all output; calls `on_output` whenever some arrives.
fn text(from: &mut impl Read, on_output: impl Fn(Instant)) -> String {
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    // Output before an error is still worth showing.
    while let Ok(count @ 1..) = from.read(&mut some) {
        bytes.extend_from_slice(&some[..count]);
        on_output(Instant::now());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The exit status of the process, or `None` once `is_hung` returns true.
fn wait_unless(child: &mut Child, mut is_hung: impl FnMut() -> bool) -> Option<ExitStatus> {
    loop {
        match child.try_wait().expect("it is a child of this process") {
            None if is_hung() => return None,
            None => std::thread::sleep(Duration::from_millis(10)),
            ended => return ended,
        }
    }
}

/// Sends SIGTERM to the process group, then SIGKILL. Launchers end their ranks on SIGTERM.
fn terminate(child: &mut Child) -> ExitStatus {
    let group = Pid::from_child(child);
    // An error means that the group has ended.
    let _ = kill_process_group(group, Signal::TERM);
    let since = Instant::now();
    let ended = wait_unless(child, || since.elapsed() > GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    ended.unwrap_or_else(|| child.wait().expect("it is a child of this process"))
}
