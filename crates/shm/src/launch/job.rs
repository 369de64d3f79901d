//! A running job: starts its ranks, handles their exits, and shuts them down.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::stdio;
use treepie_fabric::Liveness;

use super::fd_limit::FdLimit;
use super::output::{OutputForwarder, Stream};
use super::pinning::assign_cores;
use super::signals::{Signals, is_termination_request, stop_self};
use super::supervisor::{StdioFds, Supervisor};
use super::{JobOutcome, Launch, LaunchError, RankExit};
use crate::Arena;

// Times since the shutdown began. Everything must have ended two seconds after a failure.

/// Until then ranks can detect by themselves that a peer is lost, report it, and exit.
const SIGTERM_AFTER: Duration = Duration::from_millis(300);
/// Ranks that have not exited on SIGTERM by then are killed.
const SIGKILL_AFTER: Duration = Duration::from_millis(700);
/// The same if the failed rank that is the cause has not exited: it may be printing its error.
const SIGKILL_CAUSE_AFTER: Duration = Duration::from_millis(1600);
/// Then only the output of exited ranks may still be unwritten.
const OUTPUT_AFTER: Duration = Duration::from_millis(1900);
/// A killed process that has not exited by then will not.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// By then a fork that was in progress has ended.
const FORK_TIME: Duration = Duration::from_millis(50);
/// Signals that come together are one press of Ctrl-C: some wrappers send it to the process and to its group.
const SIGINT_DEBOUNCE: Duration = Duration::from_millis(100);

impl Launch {
    /// Starts the ranks and returns when all have ended.
    ///
    /// The job continues while ranks exit with status 0. The first that fails, or SIGINT, SIGTERM or SIGHUP to this
    /// process, ends it: the others have a moment to exit by themselves, then they get SIGTERM, then SIGKILL, all
    /// within two seconds. Processes that a rank started end with the job, whatever session they are in.
    ///
    /// During the call this process handles these signals (those that it does not ignore) and SIGTSTP; afterwards their
    /// previous actions are restored.
    pub fn run(&self) -> Result<JobOutcome, LaunchError> {
        if self.ranks == 0 {
            return Err(LaunchError::NoRanks);
        }
        // What this process has printed so far belongs before what the ranks print. If the flush fails, the ranks'
        // output may still be written.
        let _ = io::stdout().flush();
        let arena = Arena::create_for_processes(self.ranks)
            .map_err(LaunchError::system("create the shared memory of the ranks"))?;
        let mut job = Job::new(self, &arena)?;
        job.start()?;
        job.wait()?;
        job.finish()
    }
}

/// A job and its ranks. Dropping it ends all of them.
pub(super) struct Job<'a> {
    launch: &'a Launch,
    arena: &'a Arena,
    /// Process of each rank that was started; it leads the process group of the same number.
    started: Vec<Pid>,
    /// Ranks that are still running.
    alive: Vec<u32>,
    shutdown: Option<Shutdown>,
    output: OutputForwarder,
    cores: Option<Vec<usize>>,
    // Dropped in this order: signals must still be handled while there is something to clean up.
    /// The parent of the ranks; none once it has exited, and all of them with it.
    supervisor: Option<Supervisor>,
    _fd_limit: FdLimit,
    signals: Signals,
}

/// A rank that failed.
struct Failure {
    rank: u32,
    end: RankExit,
    /// The smaller, the more likely it is the cause. 0: it was killed, or panicked; 1: it exited without finalizing; 2:
    /// it exited after finalizing or after an error, as ranks do that lost a peer.
    precedence: u8,
    /// The smaller, the earlier it departed: a rank that fails because a peer departed, departs after it.
    departure_number: u32,
}

impl Failure {
    /// Whether this is more likely the cause of another failure than its consequence.
    fn precedes(&self, other: (u8, u32)) -> bool {
        (self.precedence, self.departure_number) < other
    }
}

/// The reason, the start and the stage of a job's shutdown.
struct Shutdown {
    outcome: JobOutcome,
    /// Precedence and departure number of the failure that is the outcome.
    cause: (u8, u32),
    since: Instant,
    stage: ShutdownStage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ShutdownStage {
    /// The ranks may end by themselves.
    Waiting,
    /// They have been sent SIGTERM.
    Terminated,
    /// They have been sent SIGKILL.
    Killed,
}

impl<'a> Job<'a> {
    /// Prepares everything but the ranks.
    pub(super) fn new(launch: &'a Launch, arena: &'a Arena) -> Result<Self, LaunchError> {
        let signals = Signals::install().map_err(LaunchError::system("install signal handlers"))?;
        let output = OutputForwarder::new(launch).map_err(LaunchError::system("prepare the ranks' output"))?;
        let fd_limit = FdLimit::reserve(output.pipes_per_rank() * u64::from(launch.ranks));
        let supervisor = Supervisor::start(launch, arena.fd(), fd_limit.rank_limit)
            .map_err(LaunchError::system("start the supervisor process"))?;
        Ok(Self {
            launch,
            arena,
            started: Vec::with_capacity(launch.ranks as usize),
            alive: Vec::with_capacity(launch.ranks as usize),
            shutdown: None,
            output,
            cores: assign_cores(launch.ranks, launch.pin),
            supervisor: Some(supervisor),
            _fd_limit: fd_limit,
            signals,
        })
    }

    /// Starts the ranks, or only some if the shutdown begins meanwhile.
    ///
    /// Ranks that outnumber the cores are stopped until all have been started. Otherwise, where each computes, every
    /// further one would have to wait for its share of a core before it could even begin, the 500th for minutes. Only
    /// the ranks are stopped and not what they may have started already: SIGCONT to a group soon after SIGSTOP does not
    /// reach a process that is just being forked, and it would be stopped for ever.
    pub(super) fn start(&mut self) -> Result<(), LaunchError> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let hold = self.launch.ranks as usize > cores;
        for rank in 0..self.launch.ranks {
            let pid = self.start_rank(rank)?;
            self.started.push(pid);
            self.alive.push(rank);
            if hold {
                let _ = kill_process(pid, Signal::STOP);
            }
            self.poll_events(Some(Duration::ZERO))?;
            if self.shutdown.is_some() {
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

    /// Waits until no rank is alive, and shuts the job down when necessary.
    pub(super) fn wait(&mut self) -> Result<(), LaunchError> {
        while let Some(&rank) = self.alive.first() {
            if let Some(shutdown) = &self.shutdown
                && shutdown.since.elapsed() >= STUCK_AFTER
            {
                return Err(LaunchError::Stuck { rank, pid: self.started[rank as usize].as_raw_nonzero().get() });
            }
            self.poll_events(None)?;
        }
        Ok(())
    }

    /// Ends the remaining processes of the job and forwards the last output.
    pub(super) fn finish(mut self) -> Result<JobOutcome, LaunchError> {
        self.stop_supervisor();
        let deadline = self.shutdown.as_ref().map(|shutdown| shutdown.since + OUTPUT_AFTER);
        let interrupted = self.output.finish(&self.signals, deadline);
        match (&self.shutdown, interrupted) {
            (Some(shutdown), _) => Ok(shutdown.outcome),
            (None, Some(signal)) => Ok(JobOutcome::Interrupted { signal }),
            (None, None) => match self.output.failure() {
                Some(error) => Err(LaunchError::system("write the ranks' output")(error)),
                None => Ok(JobOutcome::Success),
            },
        }
    }

    fn start_rank(&mut self, rank: u32) -> Result<Pid, LaunchError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::NotFound { program: self.launch.program.clone() },
            _ => LaunchError::Start { program: self.launch.program.clone(), rank, source },
        };
        let dev_null = File::open("/dev/null").map_err(LaunchError::system("open /dev/null"))?;
        let inherits = rank == 0 && !io::stdin().is_terminal();
        let out = self.output.pipe(rank, Stream::Out).map_err(refused)?;
        let err = self.output.pipe(rank, Stream::Err).map_err(refused)?;
        let streams = StdioFds {
            stdin: if inherits { stdio::stdin() } else { dev_null.as_fd() },
            stdout: out.as_ref().map_or(stdio::stdout(), |pipe| pipe.as_fd()),
            stderr: err.as_ref().map_or(stdio::stderr(), |pipe| pipe.as_fd()),
        };
        let core = self.cores.as_ref().map(|cores| cores[rank as usize]);
        match &mut self.supervisor {
            Some(supervisor) => supervisor.start_rank(rank, core, &streams).map_err(refused),
            None => Err(refused(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits for an event, at most `most`, and handles it.
    fn poll_events(&mut self, most: Option<Duration>) -> Result<(), LaunchError> {
        let until_stage = self.until_next_stage();
        let timeout = match (most, until_stage) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut list = vec![PollFd::new(&self.signals, PollFlags::IN)];
        list.extend(self.supervisor.as_ref().map(|supervisor| PollFd::new(supervisor, PollFlags::IN)));
        let num_control = list.len();
        self.output.push_poll_fds(&mut list);
        match poll(&mut list, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LaunchError::system("wait for the ranks")(error)),
        }
        // With only output ready, skip the other checks.
        let has_events = list[..num_control].iter().any(|descriptor| !descriptor.revents().is_empty());
        if has_events || most.is_some() {
            self.handle_events()?;
        }
        self.output.forward()?;
        self.advance_stage();
        Ok(())
    }

    /// Handles signals and exits of ranks.
    fn handle_events(&mut self) -> Result<(), LaunchError> {
        for signal in self.signals.take() {
            match signal {
                libc::SIGTSTP => self.suspend(),
                signal if is_termination_request(signal) => self.interrupt(signal),
                _ => {}
            }
        }
        self.handle_exits()
    }

    /// Handles exits: reports them to the other ranks and begins the shutdown if a rank failed.
    fn handle_exits(&mut self) -> Result<(), LaunchError> {
        let Some(supervisor) = &mut self.supervisor else { return Ok(()) };
        let exits = match supervisor.take_exits() {
            Ok(exits) => exits,
            Err(error) => {
                // The kernel has killed the ranks. Their groups are killed at once: the kernel assigns pids in turn, so
                // one that was freed a moment ago is not in use again.
                self.signal_all(Signal::KILL);
                self.started.clear();
                return Err(LaunchError::system("learn how a rank ended")(error));
            }
        };
        if exits.is_empty() {
            return Ok(());
        }
        let mut failure: Option<Failure> = None;
        for &(rank, end) in &exits {
            // A rank that panics announces it before it exits, and others may see that and exit before it has. One that
            // exits without finalizing announces nothing, and others may find its process gone, and leave, before the
            // launcher is notified.
            let precedence = match end {
                RankExit::Killed(_) => 0,
                _ if self.arena.has_failed(rank) && !self.arena.has_returned_error(rank) => 0,
                _ if self.arena.is_here(rank) => 1,
                RankExit::Exited(_) => 2,
            };
            self.arena.report(rank, if end == RankExit::Exited(0) { Liveness::Finalized } else { Liveness::Failed });
            let this = Failure { rank, end, precedence, departure_number: self.arena.departure_number(rank) };
            let precedes = |first: &Failure| this.precedes((first.precedence, first.departure_number));
            if end != RankExit::Exited(0) && failure.as_ref().is_none_or(precedes) {
                failure = Some(this);
            }
        }
        self.alive.retain(|rank| exits.iter().all(|(exited, _)| exited != rank));
        if let Some(failure) = failure {
            let Failure { rank, end, precedence, departure_number } = failure;
            let outcome = JobOutcome::Failed { rank, end, others_terminated: !self.alive.is_empty() };
            match &mut self.shutdown {
                None => self.begin_shutdown(outcome, (precedence, departure_number)),
                // Not caused by the launcher: it has signalled nobody yet, or this rank has exited by itself. So this
                // was the cause of the exit that was seen first.
                Some(shutdown)
                    if (shutdown.stage == ShutdownStage::Waiting || matches!(end, RankExit::Exited(_)))
                        && failure.precedes(shutdown.cause) =>
                {
                    shutdown.outcome = match shutdown.outcome {
                        JobOutcome::Failed { .. } => JobOutcome::Failed { rank, end, others_terminated: true },
                        _ => return Ok(()),
                    };
                    shutdown.cause = (precedence, departure_number);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn begin_shutdown(&mut self, outcome: JobOutcome, cause: (u8, u32)) {
        self.shutdown = Some(Shutdown { outcome, cause, since: Instant::now(), stage: ShutdownStage::Waiting });
    }

    /// Handles a termination signal: forwards it at once, then continues as after a failure. A second Ctrl-C kills.
    fn interrupt(&mut self, signal: i32) {
        match &mut self.shutdown {
            None => {
                self.begin_shutdown(JobOutcome::Interrupted { signal }, (0, 0));
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal_all(signal);
                }
            }
            Some(shutdown) => {
                if signal == libc::SIGINT && shutdown.since.elapsed() >= SIGINT_DEBOUNCE {
                    shutdown.stage = ShutdownStage::Killed;
                    self.signal_all(Signal::KILL);
                }
            }
        }
    }

    /// Handles Ctrl-Z: the ranks are in groups of their own, so the terminal stops the launcher alone, and the launcher
    /// has to stop them.
    fn suspend(&self) {
        self.signal_all(Signal::STOP);
        stop_self();
        // The stop may have lasted no time at all, and then SIGCONT would come too soon; see `start`.
        std::thread::sleep(FORK_TIME);
        self.signal_all(Signal::CONT);
    }

    /// Advances from waiting to SIGTERM to SIGKILL as time passes.
    fn advance_stage(&mut self) {
        if self.until_next_stage().is_none_or(|until| !until.is_zero()) {
            return;
        }
        let Some(shutdown) = &mut self.shutdown else { return };
        if shutdown.stage == ShutdownStage::Waiting {
            shutdown.stage = ShutdownStage::Terminated;
            let groups = self.started.iter().zip(0..).filter(|(_, rank)| !self.is_failing(*rank));
            groups.for_each(|(group, _)| self.signal(*group, Signal::TERM));
        } else {
            shutdown.stage = ShutdownStage::Killed;
            self.signal_all(Signal::KILL);
        }
    }

    /// Time until the next stage.
    fn until_next_stage(&self) -> Option<Duration> {
        let shutdown = self.shutdown.as_ref()?;
        let next = match shutdown.stage {
            ShutdownStage::Waiting => SIGTERM_AFTER,
            ShutdownStage::Terminated if self.alive.iter().any(|rank| self.arena.has_failed(*rank)) => {
                SIGKILL_CAUSE_AFTER
            }
            ShutdownStage::Terminated => SIGKILL_AFTER,
            ShutdownStage::Killed => STUCK_AFTER,
        };
        Some(next.saturating_sub(shutdown.since.elapsed()))
    }

    /// Whether a rank has failed and is about to exit by itself.
    fn is_failing(&self, rank: u32) -> bool {
        self.arena.has_failed(rank) && self.alive.contains(&rank)
    }

    /// Stops the supervisor, which kills the ranks and all that they started. From then on their pids may be reused.
    fn stop_supervisor(&mut self) {
        self.supervisor = None;
        self.started.clear();
    }

    /// Signals all process groups of the job, also those of exited ranks.
    fn signal_all(&self, signal: Signal) {
        self.started.iter().for_each(|group| self.signal(*group, signal));
    }

    fn signal(&self, group: Pid, signal: Signal) {
        // The supervisor has reaped no rank, so the group exists and is ours. An error would concern a member that runs
        // as another user, which cannot be helped.
        let _ = kill_process_group(group, signal);
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.stop_supervisor();
    }
}
