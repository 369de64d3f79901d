//! A running job: starts its ranks, sees how they end, and ends them.

use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, kill_process_group,
    set_parent_process_death_signal, setrlimit, test_kill_process_group, waitid,
};
use rustix::thread::sched_setaffinity;
use treepie_fabric::Life;

use super::descriptors::Descriptors;
use super::guardian::{Guardian, announce};
use super::output::{Output, Stream};
use super::place::{only, places};
use super::signals::{Signals, asks_to_end, stop_here};
use super::{End, Launch, LaunchError, Outcome};
use crate::{ARENA, Arena, RANK, SIZE};

// Times since the job began to end. Everything has to be over two seconds after a failure.

/// Until then ranks can notice by themselves that a peer is lost, say so, and exit.
const ASK_AFTER: Duration = Duration::from_millis(300);
/// Whoever has not followed SIGTERM by then is killed.
const KILL_AFTER: Duration = Duration::from_millis(700);
/// Then only output of ranks that have ended may still be waiting for somebody to take it.
const OVER_AFTER: Duration = Duration::from_millis(1900);
/// A killed process that has not ended by then is not going to.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How long to wait for ranks that were killed because the launcher itself failed.
const REAP_WITHIN: Duration = Duration::from_secs(2);
/// How long to wait for killed processes to vanish that ranks left behind. They die at once, but whoever inherits them
/// may take its time to reap them.
const VANISH_WITHIN: Duration = Duration::from_millis(100);
/// A fork that was going on has long ended.
const FORKED_WITHIN: Duration = Duration::from_millis(50);
/// Signals that come together are one press of Ctrl-C: some wrappers send it to the process and to its group.
const SAME_PRESS: Duration = Duration::from_millis(100);

/// The ranks that were started. Dropping it leaves none of them.
pub(super) struct Job<'a> {
    launch: &'a Launch,
    arena: &'a Arena,
    /// Process of each rank that was started; it leads the process group of the same number.
    started: Vec<Pid>,
    /// Ranks that have not ended.
    living: Vec<u32>,
    ending: Option<Ending>,
    output: Output,
    cores: Option<Vec<usize>>,
    // Dropped in this order, after the ranks: signals must still be handled while there is something to clean up.
    guardian: Option<Guardian>,
    descriptors: Descriptors,
    signals: Signals,
}

/// A rank that did not end well.
struct Failure {
    rank: u32,
    end: End,
    /// It was killed, or said itself that it failed; others exit because they lost a peer.
    is_cause: bool,
}

/// Why and since when a job is being ended.
struct Ending {
    outcome: Outcome,
    /// Whether the outcome is known to be the cause, and not itself the consequence of another failure.
    is_cause: bool,
    since: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The ranks may end by themselves.
    Waiting,
    /// They have got SIGTERM.
    Asked,
    /// They have got SIGKILL.
    Killed,
}

impl<'a> Job<'a> {
    /// Prepares everything but the ranks.
    pub(super) fn new(launch: &'a Launch, arena: &'a Arena) -> Result<Self, LaunchError> {
        let signals = Signals::install().map_err(LaunchError::system("listen to signals"))?;
        let guardian = Guardian::start(launch.ranks).map_err(LaunchError::system("start the guardian process"))?;
        let output = Output::new(launch.label).map_err(LaunchError::system("prepare the ranks' output"))?;
        Ok(Self {
            launch,
            arena,
            started: Vec::with_capacity(launch.ranks as usize),
            living: Vec::with_capacity(launch.ranks as usize),
            ending: None,
            descriptors: Descriptors::reserve(output.pipes_per_rank() * u64::from(launch.ranks)),
            output,
            cores: places(launch.ranks, launch.pin),
            guardian: Some(guardian),
            signals,
        })
    }

    /// Starts the ranks, or some of them if the job begins to end meanwhile.
    ///
    /// Ranks that outnumber the cores are held until all have been started. Otherwise, where each computes, every
    /// further one would have to wait for its share of a core before it could even begin, the 500th for minutes.
    /// Only the ranks are held and not what they may have started already: SIGCONT to a group soon after SIGSTOP does
    /// not reach a process that is just being forked, and it would be stopped for ever.
    pub(super) fn start(&mut self) -> Result<(), LaunchError> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let hold = self.launch.ranks as usize > cores;
        for rank in 0..self.launch.ranks {
            let pid = self.start_rank(rank)?;
            self.started.push(pid);
            self.living.push(rank);
            if hold {
                let _ = kill_process(pid, Signal::STOP);
            }
            self.attend(Some(Duration::ZERO))?;
            if self.ending.is_some() {
                break;
            }
        }
        if hold {
            for &pid in &self.started {
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        Ok(())
    }

    /// Waits until no rank is alive, and ends them when it has to be.
    pub(super) fn watch(&mut self) -> Result<(), LaunchError> {
        while let Some(&rank) = self.living.first() {
            if let Some(ending) = &self.ending
                && ending.since.elapsed() >= STUCK_AFTER
            {
                return Err(LaunchError::Stuck { rank, pid: self.started[rank as usize].as_raw_nonzero().get() });
            }
            self.attend(None)?;
        }
        Ok(())
    }

    /// Ends what the ranks left behind, and passes on their last output.
    pub(super) fn finish(mut self) -> Outcome {
        self.signal_all(Signal::KILL);
        let deadline = self.ending.as_ref().map(|ending| ending.since + OVER_AFTER);
        let interrupted = self.output.finish(&self.signals, deadline);
        match (&self.ending, interrupted) {
            (Some(ending), _) => ending.outcome,
            (None, Some(signal)) => Outcome::Interrupted { signal },
            (None, None) => Outcome::Success,
        }
    }

    fn start_rank(&mut self, rank: u32) -> Result<Pid, LaunchError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::NotFound { program: self.launch.program.clone() },
            _ => LaunchError::Start { program: self.launch.program.clone(), rank, source },
        };
        let stdin = if rank == 0 && !io::stdin().is_terminal() { Stdio::inherit() } else { Stdio::null() };
        let mut command = Command::new(&self.launch.program);
        command
            .args(&self.launch.args)
            .envs(self.launch.env.iter().map(|(name, value)| (name, value)))
            .env(RANK, rank.to_string())
            .env(SIZE, self.launch.ranks.to_string())
            .env(ARENA, self.arena.fd().as_raw_fd().to_string())
            .process_group(0)
            .stdin(stdin);
        if let Some(pipe) = self.output.pipe(rank, Stream::Out).map_err(refused)? {
            command.stdout(pipe);
        }
        if let Some(pipe) = self.output.pipe(rank, Stream::Err).map_err(refused)? {
            command.stderr(pipe);
        }
        let launcher = getpid();
        let arena = self.arena.fd().as_raw_fd();
        let line = self.guardian.as_ref().map(|guardian| guardian.line().as_raw_fd());
        let core = self.cores.as_ref().map(|cores| only(cores[rank as usize]));
        let descriptors = self.descriptors.of_ranks;
        let prepare = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(launcher) {
                // The launcher died before the kernel knew that this is to follow it.
                return Err(Errno::SRCH.into());
            }
            if let Some(line) = line {
                // SAFETY: the launcher keeps it open while it starts ranks, and this process has inherited it.
                announce(unsafe { BorrowedFd::borrow_raw(line) });
            }
            // SAFETY: as above.
            fcntl_setfd(unsafe { BorrowedFd::borrow_raw(arena) }, FdFlags::empty())?;
            if let Some(core) = &core {
                // Cores may have been taken away meanwhile; a rank that runs elsewhere is better than none.
                let _ = sched_setaffinity(None, core);
            }
            if let Some(descriptors) = descriptors {
                setrlimit(Resource::Nofile, descriptors)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec it only makes system calls: no allocation, no lock.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn().map_err(refused)?;
        Ok(Pid::from_child(&child))
    }

    /// Waits for something to happen, not longer than `most`, and does what has to be done about it.
    fn attend(&mut self, most: Option<Duration>) -> Result<(), LaunchError> {
        let until_stage = self.ending.as_ref().map(Ending::until_next_stage);
        let timeout = match (most, until_stage) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut list = vec![PollFd::new(&self.signals, PollFlags::IN)];
        self.output.awaited(&mut list);
        match poll(&mut list, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LaunchError::system("wait for the ranks")(error)),
        }
        let mut someone_ended = false;
        for signal in self.signals.take() {
            match signal {
                libc::SIGCHLD => someone_ended = true,
                libc::SIGTSTP => self.suspend(),
                signal if asks_to_end(signal) => self.interrupt(signal),
                _ => {}
            }
        }
        if someone_ended {
            self.note_ends().map_err(LaunchError::system("learn how a rank ended"))?;
        }
        self.output.pass_on().map_err(LaunchError::system("read the ranks' output"))?;
        self.next_stage();
        Ok(())
    }

    /// Finds out who has ended, tells the others, and begins to end the job if somebody failed.
    fn note_ends(&mut self) -> io::Result<()> {
        let mut failure: Option<Failure> = None;
        let mut still = Vec::with_capacity(self.living.capacity());
        for &rank in &self.living {
            let Some(end) = how_ended(self.started[rank as usize])? else {
                still.push(rank);
                continue;
            };
            // A rank that panics says so before it ends, and others may hear of it and exit before it has.
            let is_cause = matches!(end, End::Killed(_)) || self.arena.has_failed(rank);
            self.arena.report(rank, if end == End::Exited(0) { Life::Left } else { Life::Dead });
            if end != End::Exited(0) && failure.as_ref().is_none_or(|first| is_cause && !first.is_cause) {
                failure = Some(Failure { rank, end, is_cause });
            }
        }
        self.living = still;
        if let Some(Failure { rank, end, is_cause }) = failure {
            let outcome = Outcome::Failed { rank, end, others_ended: !self.living.is_empty() };
            match &mut self.ending {
                None => self.begin_to_end(outcome, is_cause),
                // Nobody has been ended by the launcher yet, so this was the cause of the exit that was seen first.
                Some(ending) if is_cause && !ending.is_cause && ending.stage == Stage::Waiting => {
                    ending.outcome = match ending.outcome {
                        Outcome::Failed { .. } => Outcome::Failed { rank, end, others_ended: true },
                        _ => return Ok(()),
                    };
                    ending.is_cause = true;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn begin_to_end(&mut self, outcome: Outcome, is_cause: bool) {
        self.ending = Some(Ending { outcome, is_cause, since: Instant::now(), stage: Stage::Waiting });
    }

    /// The launcher was asked to end: passes the signal on at once, then goes on as after a failure. A second Ctrl-C is
    /// impatience.
    fn interrupt(&mut self, signal: i32) {
        match &mut self.ending {
            None => {
                self.begin_to_end(Outcome::Interrupted { signal }, true);
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal_all(signal);
                }
            }
            Some(ending) => {
                if signal == libc::SIGINT && ending.since.elapsed() >= SAME_PRESS {
                    ending.stage = Stage::Killed;
                    self.signal_all(Signal::KILL);
                }
            }
        }
    }

    /// Ctrl-Z: the ranks are in groups of their own, so the terminal stops the launcher alone, and the launcher has to
    /// stop them.
    fn suspend(&self) {
        self.signal_all(Signal::STOP);
        stop_here();
        // It may have been for no time at all, and then SIGCONT would come too soon; see `start`.
        std::thread::sleep(FORKED_WITHIN);
        self.signal_all(Signal::CONT);
    }

    /// Goes from asking to killing as time passes.
    fn next_stage(&mut self) {
        let Some(ending) = &mut self.ending else { return };
        if !ending.until_next_stage().is_zero() {
            return;
        }
        let (stage, signal) = match ending.stage {
            Stage::Waiting => (Stage::Asked, Signal::TERM),
            Stage::Asked | Stage::Killed => (Stage::Killed, Signal::KILL),
        };
        ending.stage = stage;
        self.signal_all(signal);
    }

    /// Signals all process groups of the job, of ranks that have ended too.
    fn signal_all(&self, signal: Signal) {
        for &group in &self.started {
            // No rank has been reaped, so the group exists and is ours; a refusal would concern a member that has
            // taken on another user's rights, and there is nothing more to be done about it.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Ending {
    fn until_next_stage(&self) -> Duration {
        let next = match self.stage {
            Stage::Waiting => ASK_AFTER,
            Stage::Asked => KILL_AFTER,
            Stage::Killed => STUCK_AFTER,
        };
        next.saturating_sub(self.since.elapsed())
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
        // From here on numbers become free; see the guardian.
        self.guardian = None;
        let since = Instant::now();
        for &pid in &self.started {
            while !reap(pid) && since.elapsed() < REAP_WITHIN {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // What a rank started has been killed, and should be gone when the job is. To ask does no harm, even if a
        // number should name another group by now.
        let left = |group: &Pid| test_kill_process_group(*group).is_ok();
        while self.started.iter().any(left) && since.elapsed() < VANISH_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How a rank ended, or nothing if it has not. It stays a zombie.
fn how_ended(pid: Pid) -> io::Result<Option<End>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(status) = waitid(WaitId::Pid(pid), options)? else { return Ok(None) };
    Ok(Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => End::Exited(status),
        (None, signal) => End::Killed(signal.unwrap_or(0)),
    }))
}

/// Whether a rank has ended and is now gone for good.
fn reap(pid: Pid) -> bool {
    !matches!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None) | Err(Errno::INTR))
}
