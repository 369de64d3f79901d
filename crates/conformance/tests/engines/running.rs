//! Runs of the suite, each in a process of its own that is ended if it takes too long, and as many at a time as there are cores for.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

pub(crate) const SUITE: &str = env!("CARGO_BIN_EXE_conformance");

/// How long one run may take. Sixteen ranks on two cores take more than a minute for the whole suite if nothing else runs, and
/// were not done after two where something did.
const LIMIT: Duration = Duration::from_secs(300);
const LONG_LIMIT: Duration = Duration::from_secs(400);

/// How long a run that is asked to end may take for that.
const GRACE: Duration = Duration::from_secs(5);

/// The cores that runs may use. Most runs keep both busy and go alone; simulated ones keep one, so that two go at a time.
static CORES: Cores = Cores { free: Mutex::new(BOTH), given_back: Condvar::new() };
const BOTH: usize = 2;

struct Cores {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Cores {
    /// Waits until so many are free.
    fn take(&self, count: usize) -> Taken<'_> {
        let free = self.free.lock().expect("nobody panics with it");
        let mut free = self.given_back.wait_while(free, |free| *free < count).expect("nobody panics with it");
        *free -= count;
        Taken { cores: self, count }
    }
}

struct Taken<'a> {
    cores: &'a Cores,
    count: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.cores.free.lock().expect("nobody panics with it") += self.count;
        self.cores.given_back.notify_all();
    }
}

/// How many cores a run keeps busy: one process without threads of its own takes one.
fn cores_of(command: &Command) -> usize {
    let many = command.get_program() != SUITE || command.get_args().any(|word| word == "--shm" || word == "--threads");
    if many { BOTH } else { 1 }
}

/// Whether runs that take minutes are wanted.
pub(crate) fn is_long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// Runs the suite and requires that every case that applies has passed.
pub(crate) fn passes(what: &str, command: &mut Command) {
    let limit = if is_long() { LONG_LIMIT } else { LIMIT };
    let _cores = CORES.take(cores_of(command));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // If a case hangs, its ranks say what they wait for.
    command.env("TREEPIE_STALL_SECS", "20").process_group(0);
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {command:?} does not start: {error}"));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || text(&mut out));
    let err = std::thread::spawn(move || text(&mut err));
    let status = wait(&mut child, begin + limit);
    let in_time = status.is_some();
    let status = status.unwrap_or_else(|| end(&mut child));
    let (out, err) = (out.join().expect("reads"), err.join().expect("reads"));
    let summary = out.lines().rev().find(|line| line.starts_with("conformance on ")).unwrap_or_default();
    let took = begin.elapsed().as_secs_f64();
    println!("{what}: {summary} ({took:.1} s)");
    assert!(in_time, "{what}: not done after {} s, ended.\n{out}\n{err}", limit.as_secs());
    let how = status.code().map_or(format!("signal {:?}", status.signal()), |code| format!("status {code}"));
    assert!(status.success() && summary.contains(" 0 failed"), "{what}: {how}\n{out}\n{err}");
}

fn text(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is still worth showing.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How the process ended, unless it has not by then.
fn wait(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait().expect("it is a child of this process") {
            None if Instant::now() > until => return None,
            None => std::thread::sleep(Duration::from_millis(10)),
            ended => return ended,
        }
    }
}

/// Asks the process and its group to end, then kills what is left. Launchers end their ranks when they are asked to.
fn end(child: &mut Child) -> ExitStatus {
    let group = Pid::from_child(child);
    // The group may be gone by now; then there is nothing to do.
    let _ = kill_process_group(group, Signal::TERM);
    let ended = wait(child, Instant::now() + GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    ended.unwrap_or_else(|| child.wait().expect("it is a child of this process"))
}
