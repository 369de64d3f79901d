//! The suite on every engine, each run in a process of its own that is ended if it takes too long.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const SUITE: &str = env!("CARGO_BIN_EXE_conformance");

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a run that is asked to end may take for that.
const GRACE: Duration = Duration::from_secs(5);

/// One run at a time: each keeps all cores busy.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs the suite and requires that every case that applies has passed.
fn passes(what: &str, command: &mut Command) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // If a case hangs, its ranks say what they wait for.
    command.env("TREEPIE_STALL_SECS", "20").process_group(0);
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {command:?} does not start: {error}"));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || text(&mut out));
    let err = std::thread::spawn(move || text(&mut err));
    let status = wait(&mut child, begin + LIMIT);
    let in_time = status.is_some();
    let status = status.unwrap_or_else(|| end(&mut child));
    let (out, err) = (out.join().expect("reads"), err.join().expect("reads"));
    let summary = out.lines().rev().find(|line| line.starts_with("conformance on ")).unwrap_or_default();
    let took = begin.elapsed().as_secs_f64();
    println!("{what}: {summary} ({took:.1} s)");
    assert!(in_time, "{what}: not done after {} s, ended.\n{out}\n{err}", LIMIT.as_secs());
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

/// Without a launcher.
fn alone(ranks: usize) {
    passes(&format!("alone, {ranks} rank"), &mut Command::new(SUITE));
}

fn threads(ranks: usize) {
    passes(&format!("threads, {ranks} ranks"), Command::new(SUITE).args(["--threads", &ranks.to_string()]));
}

fn shm(ranks: usize) {
    passes(&format!("shm, {ranks} ranks"), Command::new(SUITE).args(["--shm", &ranks.to_string()]));
}

/// Large messages go through the rings.
fn shm_without_single_copy(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string()]).env("TREEPIE_SINGLE_COPY", "off");
    passes(&format!("shm without single copy, {ranks} ranks"), &mut command);
}

fn mpi(mpirun: &str, options: &[&str], ranks: usize) {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(mpirun).exists()));
    if !found {
        eprintln!("SKIPPED: {mpirun} is not installed, so the suite does not run under it on {ranks} ranks");
        return;
    }
    let mut command = Command::new(mpirun);
    command.args(options).args(["-n", &ranks.to_string(), SUITE]);
    passes(&format!("{mpirun}, {ranks} ranks"), &mut command);
}

fn openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"], ranks);
}

fn mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks);
}

/// A test per engine and number of ranks.
macro_rules! runs {
    ($($name:ident: $run:ident($ranks:literal);)+) => {
        $(#[test]
        fn $name() {
            $run($ranks);
        })+
    };
}

runs! {
    alone_1: alone(1);
    threads_1: threads(1);
    threads_2: threads(2);
    threads_3: threads(3);
    threads_4: threads(4);
    threads_5: threads(5);
    threads_7: threads(7);
    threads_8: threads(8);
    threads_16: threads(16);
    shm_1: shm(1);
    shm_2: shm(2);
    shm_3: shm(3);
    shm_5: shm(5);
    shm_8: shm(8);
    shm_16: shm(16);
    shm_without_single_copy_2: shm_without_single_copy(2);
    shm_without_single_copy_3: shm_without_single_copy(3);
    openmpi_2: openmpi(2);
    openmpi_3: openmpi(3);
    openmpi_4: openmpi(4);
    mpich_2: mpich(2);
    mpich_3: mpich(3);
    mpich_4: mpich(4);
}
