//! Jobs of small shell programs: what ranks see, how jobs end, and that no process outlives them.
//!
//! Programs that must be killed would sleep for 9999 seconds, far longer than the hang limit of a test: a test that
//! passes has not waited for them.
//!
//! Where the launcher itself has to be a process (to be killed, or to have its output read), this test program is
//! started again as the launcher; see `as_launcher`.

#[path = "launch/descendants.rs"]
mod descendants;
#[path = "launch/streams.rs"]
mod streams;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use treepie_base::{HangGuard, hang_limit, hang_message};
use treepie_shm::launch::{CorePinning, JobOutcome, LabelMode, Launch, LaunchError, RankExit};

const MARK: &str = "LAUNCH_TEST_MARK";
const RANKS: &str = "LAUNCH_TEST_RANKS";
const SCRIPT: &str = "LAUNCH_TEST_SCRIPT";
const LABEL: &str = "LAUNCH_TEST_LABEL";
const TIMES: &str = "LAUNCH_TEST_TIMES";
const UNBUFFERED: &str = "LAUNCH_TEST_UNBUFFERED";

/// Finds the processes of one job, the supervisor and what ranks start too, by a variable in their environment. A test
/// that has one is ended if it hangs.
struct Mark(String, #[expect(dead_code, reason = "it watches until it is dropped")] HangGuard);

impl Mark {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = thread::current().name().unwrap_or_default().to_owned();
        Self(format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)), HangGuard::new(&name))
    }

    fn processes(&self) -> Vec<i32> {
        let wanted = format!("{MARK}={}", self.0);
        let is_marked = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
    }

    #[track_caller]
    fn assert_gone(&self) {
        wait_for("the job's processes to be gone", || self.processes().is_empty());
    }
}

#[track_caller]
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < hang_limit(), "{}", hang_message(what));
        thread::sleep(Duration::from_millis(5));
    }
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A process's state as in /proc: T is stopped, Z has exited and is not reaped.
fn state(pid: i32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or_default().to_owned()
}

fn all_in_state(pids: &[i32], wanted: &str) -> bool {
    pids.iter().all(|&pid| state(pid) == wanted)
}

fn shell(ranks: u32, script: &str) -> (Launch, Mark) {
    let mark = Mark::new();
    let mut launch = Launch::new(ranks, "sh");
    launch.args = vec!["-c".into(), script.into()];
    launch.env = vec![(MARK.into(), mark.0.clone().into())];
    (launch, mark)
}

/// Not a test: the launcher process of `launcher`.
#[test]
fn as_launcher() {
    let (Ok(ranks), Ok(script)) = (env::var(RANKS), env::var(SCRIPT)) else { return };
    let mut launch = Launch::new(ranks.parse().unwrap(), "sh");
    launch.args = vec!["-c".into(), script.into()];
    launch.label = if env::var_os(LABEL).is_some() { LabelMode::Always } else { LabelMode::Auto };
    launch.unbuffered = env::var_os(UNBUFFERED).is_some();
    if let Ok(times) = env::var(TIMES) {
        let before = process_resources();
        for _ in 0..times.parse().unwrap() {
            launch.run().unwrap();
        }
        assert_eq!(process_resources(), before);
        std::process::exit(0);
    }
    let outcome = launch.run().unwrap();
    eprintln!("{outcome}");
    std::process::exit(outcome.status());
}

/// The resources that a job could leak: descriptors, children, handled and blocked signals, limits.
fn process_resources() -> (usize, String, Vec<String>, String) {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_signal_set = |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| line.starts_with(name));
    let signals = status.lines().filter(is_signal_set).map(str::to_owned).collect();
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    (fs::read_dir("/proc/self/fd").unwrap().count(), children, signals, limits)
}

/// A launcher of `ranks` shells, with its output to be read.
fn launcher(ranks: u32, script: &str) -> (Command, Mark) {
    let mark = Mark::new();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["as_launcher", "--exact", "--nocapture", "--quiet"]).env(MARK, &mark.0);
    command.env(RANKS, ranks.to_string()).env(SCRIPT, script);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The tests may run in the background of a script, where some signals are ignored.
    // SAFETY: system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    (command, mark)
}

/// What the launcher's ranks wrote to standard output, its exit status, and standard error. The test runner's own first
/// lines are left out.
fn run(mut command: Command) -> (Vec<String>, i32, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && *line != "running 1 test").map(str::to_owned).collect();
    (lines, output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

/// Numbers that the ranks of a launcher print, one each.
fn read_numbers(launcher: &mut Child, count: usize) -> Vec<i32> {
    let lines = BufReader::new(launcher.stdout.as_mut().unwrap()).lines();
    lines.filter_map(|line| line.unwrap().parse().ok()).take(count).collect()
}

#[test]
fn ranks_find_their_number_and_the_arena() {
    let (command, _) = launcher(3, "test -e /proc/$$/fd/$TREEPIE_ARENA && echo $TREEPIE_RANK of $TREEPIE_SIZE");
    let (mut lines, status, _) = run(command);
    lines.sort();
    assert_eq!(lines, ["0 of 3", "1 of 3", "2 of 3"]);
    assert_eq!(status, 0);
}

#[test]
fn a_program_is_found_by_its_name_and_gets_its_arguments() {
    let mut launch = Launch::new(2, "test");
    launch.args = vec!["a b".into(), "=".into(), "a b".into()];
    assert_eq!(launch.run().unwrap(), JobOutcome::Success);
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    assert!(matches!(Launch::new(0, "true").run(), Err(LaunchError::NoRanks)));
    let error = Launch::new(3, "no-such-program-anywhere").run().unwrap_err();
    assert_eq!(error.to_string(), "program `no-such-program-anywhere` was not found");
    let error = Launch::new(3, "/etc/passwd").run().unwrap_err();
    assert!(matches!(error, LaunchError::Start { rank: 0, .. }), "{error}");
}

#[test]
fn many_ranks() {
    assert_eq!(Launch::new(200, "true").run().unwrap(), JobOutcome::Success);
}

#[test]
fn an_exit_status_ends_the_job_and_is_reported() {
    let (launch, mark) = shell(4, "test $TREEPIE_RANK = 2 && exit 3; exec sleep 9999");
    let outcome = launch.run().unwrap();
    assert_eq!(outcome, JobOutcome::Failed { rank: 2, end: RankExit::Exited(3), others_terminated: true });
    assert_eq!(outcome.to_string(), "rank 2 exited with status 3; the other ranks were ended");
    assert_eq!(outcome.status(), 3);
    mark.assert_gone();
}

#[test]
fn a_signal_ends_the_job_though_others_are_stubborn() {
    let (launch, mark) = shell(4, "trap '' TERM; test $TREEPIE_RANK = 3 && kill -9 $$; sleep 9999; sleep 9999");
    let outcome = launch.run().unwrap();
    assert_eq!(outcome.to_string(), "rank 3 was killed by signal 9 (SIGKILL); the other ranks were ended");
    assert_eq!(outcome.status(), 137);
    mark.assert_gone();
}

#[test]
fn ranks_may_end_at_different_times() {
    let (launch, _) = shell(3, "test $TREEPIE_RANK = 0 || sleep 0.$TREEPIE_RANK");
    assert_eq!(launch.run().unwrap(), JobOutcome::Success);
}

#[test]
fn of_failures_seen_together_the_killed_rank_is_the_cause() {
    let (mut command, mark) = launcher(2, "echo $$; kill -STOP $$; test $TREEPIE_RANK = 0 && exit 1; kill -SEGV $$");
    let mut launcher = command.spawn().unwrap();
    let ranks = read_numbers(&mut launcher, 2);
    let pid = launcher.id() as i32;
    wait_for("the ranks to stop", || all_in_state(&ranks, "T"));
    signal(pid, Signal::STOP);
    wait_for("the launcher to stop", || all_in_state(&[pid], "T"));
    ranks.iter().for_each(|&rank| signal(rank, Signal::CONT));
    wait_for("the ranks to end", || all_in_state(&ranks, "Z"));
    signal(pid, Signal::CONT);
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap().trim_end(), "rank 1 was killed by signal 11 (SIGSEGV)");
    assert_eq!(output.status.code(), Some(128 + 11));
    mark.assert_gone();
}

#[test]
fn what_ranks_leave_behind_ends_with_the_job() {
    let (launch, mark) = shell(3, "sleep 9999 & (trap '' TERM HUP; sleep 9999; sleep 9999) & exit 0");
    assert_eq!(launch.run().unwrap(), JobOutcome::Success);
    mark.assert_gone();

    let (launch, mark) = shell(3, "(trap '' TERM; sleep 9999; sleep 9999) & test $TREEPIE_RANK = 1 && exit 1; wait");
    assert_eq!(launch.run().unwrap().status(), 1);
    mark.assert_gone();
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let (mut command, mark) =
        launcher(3, "trap '' TERM HUP; sleep 9999 & (sleep 9999; sleep 9999) & echo $$; sleep 9999; sleep 9999");
    let mut launcher = command.spawn().unwrap();
    let ranks = read_numbers(&mut launcher, 3);
    let before = mark.processes();
    assert!(ranks.iter().all(|rank| before.contains(rank)));
    assert!(before.len() >= 5, "launcher, supervisor, 3 ranks and their children: {before:?}");
    launcher.kill().unwrap();
    assert_eq!(launcher.wait().unwrap().signal(), Some(9));
    mark.assert_gone();
}

#[test]
fn signals_to_the_launcher_end_the_job() {
    for (sent, script) in [
        (Signal::INT, "echo $$; exec sleep 9999"),
        (Signal::TERM, "trap '' INT TERM HUP; sleep 9999 & echo $$; sleep 9999; sleep 9999"),
        (Signal::HUP, "echo $$; sleep 9999; sleep 9999"),
    ] {
        let (mut command, mark) = launcher(3, script);
        let mut launcher = command.spawn().unwrap();
        read_numbers(&mut launcher, 3);
        signal(launcher.id() as i32, sent);
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + sent.as_raw()));
        assert!(String::from_utf8(output.stderr).unwrap().contains("interrupted by signal"));
        mark.assert_gone();
    }
}

#[test]
fn the_signal_itself_is_passed_on_first() {
    // Ranks that ignore both signals are killed, but not soon.
    let script = "trap '' TERM; trap 'echo got it; exit 0' INT; echo $$; while :; do sleep 0.05; done";
    let (mut command, mark) = launcher(2, script);
    let mut launcher = command.spawn().unwrap();
    read_numbers(&mut launcher, 2);
    signal(launcher.id() as i32, Signal::INT);
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches("got it").count(), 2);
    assert_eq!(output.status.code(), Some(130));
    mark.assert_gone();
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let (command, _) =
        launcher(1, "kill -HUP $(cut -d' ' -f4 /proc/$PPID/stat); kill -HUP $$; sleep 0.2; echo still here");
    let mut nohup = Command::new("sh");
    nohup.arg("-c").arg("trap '' HUP; exec \"$0\" \"$@\"").arg(command.get_program()).args(command.get_args());
    nohup.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (lines, status, _) = run(nohup);
    assert_eq!((lines, status), (vec!["still here".to_owned()], 0));
}

#[test]
fn lines_carry_labels() {
    let script = "echo one; printf 'two '; sleep 0.1; printf 'three\\n\\nlast'; echo problem >&2";
    let (mut command, _) = launcher(2, script);
    command.env(LABEL, "1");
    let (lines, status, errors) = run(command);
    for rank in 0..2 {
        let label = format!("[{rank}] ");
        let of_rank: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(&label)).collect();
        assert_eq!(of_rank, ["one", "two three", "", "last"]);
        assert!(errors.contains(&format!("[{rank}] problem\n")));
    }
    assert_eq!((lines.len(), status), (8, 0));
}

#[test]
fn long_lines_and_much_output_arrive_whole() {
    let script = "head -c 300000 /dev/zero | tr '\\0' x; echo; seq 1 20000 >&2; seq 1 20000";
    let (mut command, _) = launcher(3, script);
    // Both streams into one pipe, as on a terminal.
    command.env(LABEL, "1").stderr(Stdio::null());
    let program = command.get_program().to_owned();
    let mut both = Command::new("sh");
    both.arg("-c").arg("exec \"$0\" \"$@\" 2>&1").arg(program).args(command.get_args());
    both.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (lines, status, _) = run(both);
    assert_eq!(status, 0);
    for rank in 0..3 {
        let label = format!("[{rank}] ");
        let of_rank: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(&label)).collect();
        assert_eq!(of_rank.len(), 1 + 2 * 20000);
        assert_eq!(of_rank.iter().filter(|line| line.len() == 300_000).count(), 1);
        assert_eq!(of_rank.iter().filter_map(|line| line.parse::<u64>().ok()).sum::<u64>(), 2 * 20000 * 20001 / 2);
    }
}

#[test]
fn a_reader_that_takes_nothing_does_not_keep_a_job_alive() {
    let (mut command, mark) = launcher(2, "test $TREEPIE_RANK = 1 && sleep 0.3 && exit 3; yes");
    let mut launcher = command.env(LABEL, "1").spawn().unwrap();
    wait_for("the launcher to end", || state(launcher.id() as i32) == "Z");
    assert_eq!(launcher.wait().unwrap().code(), Some(3));
    mark.assert_gone();
}

#[test]
fn a_reader_that_is_gone_ends_the_writers() {
    let (mut command, mark) = launcher(2, "echo $$; exec yes");
    let mut launcher = command.env(LABEL, "1").spawn().unwrap();
    let mut some = [0; 100];
    launcher.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + libc::SIGPIPE));
    mark.assert_gone();
}

#[test]
fn rank_0_reads_standard_input_and_the_others_nothing() {
    let (mut command, _) = launcher(3, "while read line; do echo $TREEPIE_RANK got $line; done");
    let mut launcher = command.stdin(Stdio::piped()).spawn().unwrap();
    launcher.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let text = String::from_utf8(launcher.wait_with_output().unwrap().stdout).unwrap();
    let got: Vec<_> = text.lines().filter(|line| line.contains("got")).collect();
    assert_eq!(got, ["0 got one", "0 got two"]);
}

#[test]
fn ranks_are_pinned_when_there_are_cores_enough_or_they_share_them_evenly() {
    let cores = rustix::thread::sched_getaffinity(None).unwrap().count() as usize;
    let script = "sed -n 's/^Cpus_allowed_list:\\s*//p' /proc/self/status";
    let affinities = |ranks: usize| run(launcher(ranks as u32, script).0).0;
    let pinned: BTreeSet<u32> = affinities(cores).iter().map(|list| list.parse().expect("one core")).collect();
    assert_eq!(pinned.len(), cores);
    let mut shared: Vec<u32> = affinities(2 * cores).iter().map(|list| list.parse().expect("one core")).collect();
    shared.sort_unstable();
    assert!(
        shared.chunks(2).all(|pair| pair[0] == pair[1]) && shared.iter().copied().collect::<BTreeSet<_>>() == pinned
    );
    let free: BTreeSet<String> = affinities(2 * cores + 1).into_iter().collect();
    assert_eq!(free.len(), 1, "all ranks may use the same cores");

    let (mut launch, _) = shell(1, &format!("test \"$({script})\" = \"{}\"", free.first().unwrap()));
    launch.pin = CorePinning::Never;
    assert_eq!(launch.run().unwrap(), JobOutcome::Success);
}

#[test]
fn pipes_of_many_ranks_fit_a_small_limit_of_descriptors() {
    let (mut command, _) = launcher(100, "ulimit -Sn");
    command.env(LABEL, "1");
    // SAFETY: a system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            limit.current = Some(64);
            Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?)
        });
    }
    let (lines, status, _) = run(command);
    assert_eq!((lines.len(), status), (100, 0));
    assert!(lines.iter().all(|line| line.ends_with("] 64")), "{lines:?}");
}

#[test]
fn a_job_can_be_stopped_and_continued() {
    let (mut command, mark) = launcher(2, "echo $$; exec sleep 9999");
    // In a group of its own whose parent could continue it, as a shell's job.
    let mut launcher = command.process_group(0).spawn().unwrap();
    let mut job = read_numbers(&mut launcher, 2);
    job.push(launcher.id() as i32);
    signal(launcher.id() as i32, Signal::TSTP);
    wait_for("the job to stop", || all_in_state(&job, "T"));
    signal(launcher.id() as i32, Signal::CONT);
    wait_for("the job to go on", || job.iter().all(|pid| state(*pid) != "T"));
    signal(launcher.id() as i32, Signal::TERM);
    assert_eq!(launcher.wait().unwrap().code(), Some(128 + libc::SIGTERM));
    mark.assert_gone();
}

#[test]
fn on_a_terminal() {
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the two descriptors are written, the optional arguments are left out, and each descriptor gets one owner.
    let (master, slave) = unsafe {
        assert_eq!(libc::openpty(&mut master, &mut slave, none, none as _, none as _), 0);
        (fs::File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    };
    // Programs of other tests must not inherit them and keep the terminal open.
    fcntl_setfd(&master, FdFlags::CLOEXEC).unwrap();
    fcntl_setfd(&slave, FdFlags::CLOEXEC).unwrap();
    let script = "cat; echo rank $TREEPIE_RANK; echo and error >&2; while :; do sleep 0.05; done";
    let (mut command, mark) = launcher(2, script);
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    // SAFETY: system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut launcher = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(master.try_clone().unwrap()).lines();
    let mut expected = BTreeSet::from(["[0] rank 0", "[1] rank 1", "[0] and error", "[1] and error"]);
    while !expected.is_empty() {
        let line = lines.next().unwrap().unwrap();
        expected.remove(line.trim_end());
    }
    // No shell could continue the job, so Ctrl-Z must not stop it; Ctrl-C ends it.
    (&master).write_all(b"\x1a").unwrap();
    thread::sleep(Duration::from_millis(100));
    (&master).write_all(b"\x03").unwrap();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("interrupted by signal 2 (SIGINT)")));
    assert_eq!(launcher.wait().unwrap().code(), Some(130));
    mark.assert_gone();
}

#[test]
fn jobs_leak_nothing_in_the_launcher() {
    let (mut command, _) = launcher(3, "exit $((TREEPIE_RANK % 2))");
    let output = command.env(TIMES, "5").env(LABEL, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
