//! Interrupted writers of files: nothing partial is left, and an existing file is unchanged.
//!
//! This program is both the test and, started by the launcher, a rank: `interrupted rank FILE`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use treepie_base::{AtomicFile, hang_limit, hang_message};

/// How writing is interrupted: a signal to the launcher, to the writing rank, or to the supervisor between them.
#[derive(Clone, Copy, Debug)]
enum Interruption {
    Launcher(Signal),
    Writer,
    Supervisor,
}

const INTERRUPTIONS: [Interruption; 5] = [
    Interruption::Launcher(Signal::INT),
    Interruption::Launcher(Signal::TERM),
    Interruption::Launcher(Signal::KILL),
    Interruption::Writer,
    Interruption::Supervisor,
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, file] = &args[..]
        && role == "rank"
    {
        return rank_main(Path::new(file));
    }
    // Other arguments are the test runner's; there is nothing to select here.
    if args.iter().any(|argument| argument == "--list") {
        println!("interrupted: test");
        return ExitCode::SUCCESS;
    }
    for how in INTERRUPTIONS {
        for unnamed in ["on", "off"] {
            for before in [None, Some("old")] {
                in_the_middle(how, unnamed, before);
            }
            println!("test in the middle of a file, O_TMPFILE {unnamed}, {how:?} ... ok");
        }
    }
    for unnamed in ["on", "off"] {
        let scratch = Scratch::new();
        let whole = results(&scratch, None, unnamed);
        for how in INTERRUPTIONS {
            let found = results(&scratch, Some(how), unnamed);
            for (name, bytes) in &found {
                let is_whole = whole.get(name) == Some(bytes);
                assert!(is_whole, "{how:?} leaves {name} of {} bytes, O_TMPFILE {unnamed}", bytes.len());
            }
            println!("test --save and -o, O_TMPFILE {unnamed}, {how:?} ... ok ({} files were complete)", found.len());
        }
    }
    println!("\ntest result: ok");
    ExitCode::SUCCESS
}

/// Writes half of a file, prints a line, and waits to be killed.
fn rank_main(path: &Path) -> ExitCode {
    let world = treepie::init().expect("a rank of the launcher");
    let mut file = None;
    if world.rank() == 0 {
        let part = file.insert(AtomicFile::create(path).expect("it can be written"));
        part.write_all(&vec![7; 1 << 20]).expect("it is written");
        println!("half {}", std::process::id());
    }
    std::thread::sleep(hang_limit());
    ExitCode::FAILURE
}

fn in_the_middle(how: Interruption, unnamed: &str, before: Option<&str>) {
    let scratch = Scratch::new();
    let file = scratch.0.join("result");
    if let Some(text) = before {
        fs::write(&file, text).expect("it is written");
    }
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = treepie();
    command.args(["run", "-n", "2", "--label", "never"]).arg(program).arg("rank").arg(&file);
    command.env("TREEPIE_TMPFILE", unnamed).stdout(Stdio::piped());
    let mut launcher = Job(command.spawn().expect("the launcher starts"));
    let mut line = String::new();
    BufReader::new(launcher.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let writer = line.trim().strip_prefix("half ").and_then(|pid| pid.parse().ok()).expect("the rank's number");
    // Otherwise nothing would be tested.
    let parts = scratch.names().iter().filter(|name| name.ends_with(".part")).count();
    assert!(parts == 1 || unnamed == "on", "{:?}", scratch.names());
    interrupt(&launcher, writer, how);
    launcher.ends();
    // The launcher may be dead before its supervisor has cleaned up.
    let expected: Vec<String> = before.map(|_| "result".into()).into_iter().collect();
    wait(|| scratch.names() == expected, || format!("{how:?}, {unnamed}: {:?} are left", scratch.names()));
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), before, "{how:?}");
}

/// The files in the directory after the command has finished, or was interrupted as soon as it had a file open there.
fn results(scratch: &Scratch, how: Option<Interruption>, unnamed: &str) -> BTreeMap<String, Vec<u8>> {
    for name in scratch.names() {
        fs::remove_file(scratch.0.join(name)).expect("it is a file");
    }
    let mut command = treepie();
    command.args(["graph", "cc", "-n", "2", "--kronecker", "13", "--save"]).arg(scratch.0.join("graph.tpg"));
    command.arg("-o").arg(scratch.0.join("labels.csv")).env("TREEPIE_TMPFILE", unnamed);
    let mut launcher = Job(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the launcher starts"));
    if let Some(how) = how {
        let mut writer = None;
        let is_over = || launcher.0.try_wait().expect("it is a child").is_some();
        let mut is_over = is_over;
        wait(
            || {
                writer = writer_in(&scratch.0);
                writer.is_some() || is_over()
            },
            || "nothing is written".into(),
        );
        if let Some(writer) = writer {
            interrupt(&launcher, writer, how);
        }
    }
    launcher.ends();
    let is_part = |name: &String| name.ends_with(".part");
    wait(|| !scratch.names().iter().any(is_part), || format!("{how:?}, {unnamed}: {:?} are left", scratch.names()));
    let read = |name: String| (name.clone(), fs::read(scratch.0.join(name)).expect("it is there"));
    scratch.names().into_iter().map(read).collect()
}

/// A process that has a file in a directory open.
fn writer_in(directory: &Path) -> Option<i32> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|file| file.starts_with(directory))
    })
}

fn interrupt(launcher: &Job, writer: i32, how: Interruption) {
    let (pid, signal) = match how {
        Interruption::Launcher(signal) => (Pid::from_child(&launcher.0), signal),
        Interruption::Writer => (Pid::from_raw(writer).expect("a number"), Signal::KILL),
        // If it has ended meanwhile, with all ranks, there is nothing to kill.
        Interruption::Supervisor => match parent(writer) {
            Some(supervisor) => (supervisor, Signal::KILL),
            None => return,
        },
    };
    // The writer may have ended meanwhile, but it is not reaped unless the whole job is over.
    let _ = kill_process(pid, signal);
}

/// The parent process.
fn parent(pid: i32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let this = std::process::id() as i32;
    Pid::from_raw(parent).filter(|_| parent != this && parent > 1)
}

#[track_caller]
fn wait(mut until: impl FnMut() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < hang_limit(), "{}", hang_message(&what()));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The command, with default signal handling: background jobs of a script ignore SIGINT, and their children inherit
/// that.
fn treepie() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM").arg(env!("CARGO_BIN_EXE_treepie")).stdin(Stdio::null());
    command
}

/// A job that does not outlive the test.
struct Job(Child);

impl Job {
    fn ends(&mut self) {
        wait(|| self.0.try_wait().expect("it is a child").is_some(), || "the job does not end".into());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An empty temporary directory, removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("treepie-interrupted-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there").flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
