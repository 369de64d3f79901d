//! `testbed/run`: its hosts and links, and that nothing of it is left, however it ends.
//!
//! This program is the test and, started on the hosts with a role, what runs there: `testbed pings`, for instance.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use treepie::SplitType;
use treepie_base::{hang_limit, hang_message};

/// Exit status of `testbed/run` if the machine lacks something that it needs.
const MISSING: i32 = 77;

/// What the metered part of the test sends. At 1 MB/s, its headers not counted, a byte takes a microsecond.
const SENT_BYTES: u64 = 500_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("pings") => pings(),
        Some("slower") => slower(),
        Some("waits") => waits(),
        Some("rank") => rank(),
        // Other arguments are the test runner's; there is nothing to select here.
        _ if args.iter().any(|argument| argument == "--list") => println!("testbed: test"),
        _ => test(),
    }
    ExitCode::SUCCESS
}

fn test() {
    bad_options_are_refused();
    a_missing_command_is_named();
    let first = output(&mut run(&["--launcher", "none", "--", "sh", "-c", "exit 3"]));
    if first.status.code() == Some(MISSING) {
        // Straight to standard error, which shows although the test passes.
        eprintln!("SKIPPED: hosts of testbed/run: {}", String::from_utf8_lossy(&first.stderr).trim());
        return;
    }
    assert_eq!(first.status.code(), Some(3), "the program's status: {first:?}");
    links_delay_and_meter();
    links_change();
    for end in END {
        nothing_is_left(end, &["--launcher", "none", "--hosts", "3"], "waits", 3);
    }
    if !is_installed("mpirun.openmpi") || !is_installed("mpicc.openmpi") {
        eprintln!("SKIPPED: Open MPI is not installed, so no ranks run on the hosts of testbed/run");
        return;
    }
    for end in [End::Program, End::Signal(Signal::KILL)] {
        nothing_is_left(end, &["--hosts", "2", "--per-host", "2"], "rank", 4);
    }
    println!("test result: ok");
}

fn bad_options_are_refused() {
    for options in [
        "--hosts 0 -- true",
        "--hosts 33 -- true",
        "--hosts",
        "--per-host x -- true",
        "--wan 10/1 -- true",
        "--wan 10ms/0MBps -- true",
        "--link 0-2=1ms/1MBps -- true",
        "--link 1-1=1ms/1MBps -- true",
        "--change 0-1=1ms/1MBps -- true",
        "--queue 1 -- true",
        "--window 1B -- true",
        "--congestion none -- true",
        "--launcher ssh -- true",
        "--launcher ssh --version",
        "--launcher none --version",
        "--unknown 1 -- true",
        "--hosts 2",
        "true",
    ] {
        let refused = output(&mut run(&options.split(' ').collect::<Vec<_>>()));
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && text.lines().count() == 1, "{options}: {}, {text}", refused.status);
    }
    println!("test bad options ... ok");
}

/// It has to name what is missing, also where the user is not root or the device is missing, which come first.
fn a_missing_command_is_named() {
    let scratch = Scratch::new();
    let path = std::env::var_os("PATH").expect("a path");
    for name in ["bash", "cat", "dirname", "id"] {
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.exists());
        std::os::unix::fs::symlink(found.expect("it is installed"), scratch.0.join(name)).expect("a link");
    }
    let ended = output(run(&["--", "true"]).env("PATH", &scratch.0));
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(MISSING) && text.lines().count() == 1, "{}, {text}", ended.status);
    println!("test a missing command ... ok");
}

/// Only lower bounds of times, as a busy machine is slower. The link of hosts 1 and 2 has another latency.
fn links_delay_and_meter() {
    let mut command = run(&["--launcher", "none", "--hosts", "3", "--wan", "10ms/1MBps", "--link", "2-1=30ms/1MBps"]);
    passes(command.args(["--stats", "--"]).arg(program()).arg("pings"));
    println!("test links delay and meter ... ok");
}

fn links_change() {
    let mut command = run(&["--launcher", "none", "--wan", "1ms/1MBps", "--change", "0.1:0-1=50ms/1MBps", "--"]);
    passes(command.arg(program()).arg("slower"));
    println!("test links change ... ok");
}

/// Host 1 is connected to hosts 0 and 2, and measures.
fn pings() {
    if host() != 1 {
        return echo();
    }
    for (peer, latency) in [(0, 20), (2, 40)] {
        let mut stream = connect(peer);
        for _ in 0..5 {
            let took = round_trip(&mut stream);
            assert!(took >= Duration::from_millis(latency), "a round trip to host {peer} took {took:?}");
        }
        let start = Instant::now();
        stream.write_all(&vec![0; SENT_BYTES as usize - 1]).expect("it is sent");
        stream.write_all(&[1]).expect("it is sent");
        stream.read_exact(&mut [0]).expect("an answer");
        let took = start.elapsed();
        let shortest = Duration::from_micros(SENT_BYTES) + Duration::from_millis(latency);
        assert!(took >= shortest, "{SENT_BYTES} bytes to host {peer} took {took:?}, not {shortest:?} or more");
    }
}

/// Round trips take 2 ms, and from some time on 51 ms.
fn slower() {
    if host() == 0 {
        return echo();
    }
    let mut stream = connect(0);
    let is_slow = |took: Duration| took >= Duration::from_millis(51);
    // In a row, as single ones are slow on a busy machine.
    wait(|| (0..10).all(|_| is_slow(round_trip(&mut stream))), || "the link does not change".into());
}

fn round_trip(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    stream.write_all(&[1]).expect("it is sent");
    stream.read_exact(&mut [0]).expect("an answer");
    start.elapsed()
}

/// Answers each byte 1 of one connection.
fn echo() {
    let listener = TcpListener::bind(address(host())).expect("a free port");
    let mut stream = listener.accept().expect("a connection").0;
    stream.set_nodelay(true).expect("an option");
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes).expect("bytes") {
            0 => return,
            length => bytes[..length].iter().filter(|byte| **byte == 1).for_each(|_| {
                // The peer has ended if this fails.
                let _ = stream.write_all(&[1]);
            }),
        }
    }
}

fn connect(peer: u8) -> TcpStream {
    let mut stream = None;
    wait(
        || match TcpStream::connect(address(peer)) {
            Ok(connected) => stream.replace(connected).is_none(),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => false,
            Err(error) => panic!("host {peer}: {error}"),
        },
        || format!("host {peer} does not listen"),
    );
    let stream = stream.expect("it is connected");
    stream.set_nodelay(true).expect("an option");
    stream
}

fn address(host: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, 0, host + 1), 5000).into()
}

fn host() -> u8 {
    std::env::var("TESTBED_HOST").ok().and_then(|text| text.parse().ok()).expect("the number of the host")
}

/// Starts a process that leaves its session and outlives its parent, says so, and ends when standard input does.
fn waits() {
    let mut orphan = Command::new("setsid");
    let seconds = hang_limit().as_secs().to_string();
    let _ = orphan.args(["--fork", "sleep", &seconds]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    println!("up");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A rank of two on each of two hosts.
fn rank() {
    let world = treepie::init().expect("MPI");
    assert_eq!((world.engine(), world.size()), ("mpi", 4));
    let neighbors = world.split_type(SplitType::Host, 0).expect("a communicator");
    assert_eq!((neighbors.size(), neighbors.rank()), (2, world.rank() % 2), "ranks of a host");
    if world.rank().is_multiple_of(2) {
        let (peer, start) = (2 - world.rank(), Instant::now());
        if peer == 2 {
            world.send(&[1u8], peer, 0).expect("it is sent");
        }
        world.recv(&mut [0u8], peer, 0).expect("it is received");
        if peer == 0 {
            world.send(&[1u8], peer, 0).expect("it is sent");
        } else {
            assert!(start.elapsed() >= Duration::from_millis(20), "a round trip took {:?}", start.elapsed());
        }
    }
    world.barrier().expect("all ranks");
    println!("up");
    if world.rank() == 0 {
        let _ = std::io::stdin().read(&mut [0]);
    }
    world.barrier().expect("all ranks");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Program,
    Signal(Signal),
}

const END: [End; 4] = [End::Program, End::Signal(Signal::INT), End::Signal(Signal::TERM), End::Signal(Signal::KILL)];

/// Starts processes on hosts and ends them; then there is no process, no namespace and no file of the run.
fn nothing_is_left(end: End, options: &[&str], role: &str, count: usize) {
    let files_before = files_of_hosts();
    let scratch = Scratch::new();
    let mut command = run(options);
    command.arg("--").arg(program()).arg(role).env("TMPDIR", &scratch.0);
    let mut job = Job(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the script starts"));
    let mut lines = BufReader::new(job.0.stdout.take().expect("a pipe")).lines();
    for _ in 0..count {
        assert_eq!(lines.next().expect("all processes start").expect("a line"), "up", "{end:?}");
    }
    let script = Pid::from_child(&job.0);
    let started = descendants(script.as_raw_nonzero().get());
    let own = namespace("self");
    let namespaces: BTreeSet<PathBuf> = started
        .iter()
        .filter_map(|process| namespace(&process.0.to_string()))
        .filter(|of| Some(of) != own.as_ref())
        .collect();
    // Otherwise nothing would be tested.
    assert!(started.len() > 2 * count && namespaces.len() >= 2, "{started:?} in {namespaces:?}");
    match end {
        End::Program => drop(job.0.stdin.take()),
        End::Signal(signal) => kill_process(script, signal).expect("it runs"),
    }
    wait(|| job.0.try_wait().expect("it is a child").is_some(), || format!("{end:?}: the script does not end"));
    let status = job.0.wait().expect("it has ended");
    assert_eq!(status.success(), end == End::Program, "{end:?}: {status}");
    // After SIGKILL, the script is dead before its processes are.
    let left = || started.iter().filter(|process| start_time(process.0).as_ref() == Some(&process.1)).count();
    wait(|| left() == 0, || format!("{end:?}: {} processes are left", left()));
    let in_namespaces =
        || processes().filter(|pid| namespace(&pid.to_string()).is_some_and(|of| namespaces.contains(&of)));
    wait(|| in_namespaces().count() == 0, || format!("{end:?}: processes are left in {namespaces:?}"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for namespace in &namespaces {
        assert!(!mounts.contains(&*namespace.to_string_lossy()), "{end:?}: {namespace:?} is mounted");
    }
    assert_eq!(names_in(&scratch.0), [""; 0], "{end:?}: files are left");
    let left: Vec<_> = files_of_hosts().difference(&files_before).cloned().collect();
    assert!(left.is_empty(), "{end:?}: files are left: {left:?}");
    println!("test nothing is left, {role}, {end:?} ... ok");
}

/// What could be files of hosts, a run's or somebody else's.
fn files_of_hosts() -> BTreeSet<PathBuf> {
    let files = ["/tmp", "/dev/shm"].into_iter().flat_map(|folder| {
        let of_hosts = |name: &String| name.contains(".host0.") || name == "testbed";
        names_in(Path::new(folder)).into_iter().filter(of_hosts).map(move |name| Path::new(folder).join(name))
    });
    files.collect()
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").expect("processes").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The network namespace of a process: `net:[4026531840]`.
fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Parent and start time from `/proc/PID/stat`; the name before them may contain anything.
fn parent_and_start(pid: i32) -> Option<(i32, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, (*fields.get(19)?).to_owned()))
}

fn start_time(pid: i32) -> Option<String> {
    parent_and_start(pid).map(|(_, start)| start)
}

/// The processes below one, with their start times, by which a later process of the same number is told apart.
fn descendants(pid: i32) -> Vec<(i32, String)> {
    let all: Vec<(i32, i32, String)> =
        processes().filter_map(|pid| parent_and_start(pid).map(|(parent, start)| (pid, parent, start))).collect();
    let mut found: Vec<(i32, String)> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for (child, _, start) in all.iter().filter(|process| process.1 == parent) {
            found.push((*child, start.clone()));
            parents.push(*child);
        }
    }
    found
}

/// The script, with default signal handling: background jobs of a script ignore SIGINT, and their children inherit
/// that.
fn run(options: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=INT,TERM").arg(root.join("testbed/run")).args(options).stdin(Stdio::null());
    command
}

fn program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the script starts")
}

fn passes(command: &mut Command) {
    let ended = output(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{stdout}\n{stderr}", ended.status);
}

fn is_installed(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()))
}

#[track_caller]
fn wait(mut until: impl FnMut() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < hang_limit(), "{}", hang_message(&what()));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there").flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A script that does not outlive the test.
struct Job(Child);

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
        let path = std::env::temp_dir().join(format!("treepie-test-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
