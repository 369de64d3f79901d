//! Runs of the suite, each in a process of its own that is ended if it does not get on, and as many at a time as there are cores
//! for. How long a run takes is nobody's concern: each case that begins or ends is a line, and what counts is that one comes.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use treepie_base::{hang_limit, hang_message};

pub(crate) const SUITE: &str = env!("CARGO_BIN_EXE_conformance");

/// How long a run that hangs and is asked to end may take for that, before it is killed.
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
    let _cores = CORES.take(cores_of(command));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // If a case hangs, its ranks say what they wait for.
    command.env("TREEPIE_STALL_SECS", "20").process_group(0);
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {command:?} does not start: {error}"));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let heard = Arc::new(Mutex::new(begin));
    let also = heard.clone();
    let out = std::thread::spawn(move || text(&mut out, |now| *also.lock().expect("nobody panics with it") = now));
    // Ranks that hang go on saying so there, which is no progress.
    let err = std::thread::spawn(move || text(&mut err, drop));
    let status = wait(&mut child, || heard.lock().expect("nobody panics with it").elapsed() > hang_limit());
    let is_over = status.is_some();
    let status = status.unwrap_or_else(|| end(&mut child));
    let (out, err) = (out.join().expect("reads"), err.join().expect("reads"));
    let summary = out.lines().rev().find(|line| line.starts_with("conformance on ")).unwrap_or_default();
    let took = begin.elapsed().as_secs_f64();
    println!("{what}: {summary} ({took:.1} s)");
    assert!(is_over, "{}\n{out}\n{err}", hang_message(&format!("{what}, the next line of its output")));
    let how = status.code().map_or(format!("signal {:?}", status.signal()), |code| format!("status {code}"));
    assert!(status.success() && summary.contains(" 0 failed"), "{what}: {how}\n{out}\n{err}");
}

/// All that comes; `heard` is told when something does.
fn text(from: &mut impl Read, heard: impl Fn(Instant)) -> String {
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    // What was read before an error is still worth showing.
    while let Ok(count @ 1..) = from.read(&mut some) {
        bytes.extend_from_slice(&some[..count]);
        heard(Instant::now());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How the process ended, unless it is given up before.
fn wait(child: &mut Child, mut give_up: impl FnMut() -> bool) -> Option<ExitStatus> {
    loop {
        match child.try_wait().expect("it is a child of this process") {
            None if give_up() => return None,
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
    let since = Instant::now();
    let ended = wait(child, || since.elapsed() > GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    ended.unwrap_or_else(|| child.wait().expect("it is a child of this process"))
}
