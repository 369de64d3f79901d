//! A running job: starts its ranks, sees how they end, and ends them.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::stdio;
use treepie_fabric::Life;

use super::descriptors::Descriptors;
use super::guardian::{Guardian, Streams};
use super::output::{Output, Stream};
use super::place::places;
use super::signals::{Signals, asks_to_end, stop_here};
use super::{End, Launch, LaunchError, Outcome};
use crate::Arena;

// Times since the job began to end. Everything has to be over two seconds after a failure.

/// Until then ranks can notice by themselves that a peer is lost, say so, and exit.
const ASK_AFTER: Duration = Duration::from_millis(300);
/// Whoever has not followed SIGTERM by then is killed.
const KILL_AFTER: Duration = Duration::from_millis(700);
/// The same if a rank that is the cause, as it has said that it failed, has not ended: it may be printing why.
const KILL_CAUSE_AFTER: Duration = Duration::from_millis(1600);
/// Then only output of ranks that have ended may still be waiting for somebody to take it.
const OVER_AFTER: Duration = Duration::from_millis(1900);
/// A killed process that has not ended by then is not going to.
const STUCK_AFTER: Duration = Duration::from_secs(10);
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
    // Dropped in this order: signals must still be handled while there is something to clean up.
    /// The parent of the ranks; nothing once it has ended, and all of them with it.
    guardian: Option<Guardian>,
    _descriptors: Descriptors,
    signals: Signals,
}

/// A rank that did not end well.
struct Failure {
    rank: u32,
    end: End,
    /// How it failed: the smaller, the rather it is the cause. 0: it was killed, or said itself that it failed; 1: it exited
    /// inside its world; 2: it exited after it had left, as those do who lost a peer.
    kind: u8,
    /// The smaller, the earlier it left its world: who fails because a peer left, leaves after it.
    left: u32,
}

impl Failure {
    /// Whether this is rather the cause of another failure than its consequence.
    fn precedes(&self, other: (u8, u32)) -> bool {
        (self.kind, self.left) < other
    }
}

/// Why and since when a job is being ended.
struct Ending {
    outcome: Outcome,
    /// Whether the outcome is known to be the cause, and not itself the consequence of another failure, and when that rank
    /// left.
    cause: (u8, u32),
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
        let output = Output::new(launch).map_err(LaunchError::system("prepare the ranks' output"))?;
        let descriptors = Descriptors::reserve(output.pipes_per_rank() * u64::from(launch.ranks));
        let guardian = Guardian::start(launch, arena.fd(), descriptors.of_ranks)
            .map_err(LaunchError::system("start the guardian process"))?;
        Ok(Self {
            launch,
            arena,
            started: Vec::with_capacity(launch.ranks as usize),
            living: Vec::with_capacity(launch.ranks as usize),
            ending: None,
            output,
            cores: places(launch.ranks, launch.pin),
            guardian: Some(guardian),
            _descriptors: descriptors,
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
    pub(super) fn finish(mut self) -> Result<Outcome, LaunchError> {
        self.end_guardian();
        let deadline = self.ending.as_ref().map(|ending| ending.since + OVER_AFTER);
        let interrupted = self.output.finish(&self.signals, deadline);
        match (&self.ending, interrupted) {
            (Some(ending), _) => Ok(ending.outcome),
            (None, Some(signal)) => Ok(Outcome::Interrupted { signal }),
            (None, None) => match self.output.failure() {
                Some(error) => Err(LaunchError::system("write the ranks' output")(error)),
                None => Ok(Outcome::Success),
            },
        }
    }

    fn start_rank(&mut self, rank: u32) -> Result<Pid, LaunchError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::NotFound { program: self.launch.program.clone() },
            _ => LaunchError::Start { program: self.launch.program.clone(), rank, source },
        };
        let nothing = File::open("/dev/null").map_err(LaunchError::system("open /dev/null"))?;
        let inherits = rank == 0 && !io::stdin().is_terminal();
        let out = self.output.pipe(rank, Stream::Out).map_err(refused)?;
        let err = self.output.pipe(rank, Stream::Err).map_err(refused)?;
        let streams = Streams {
            stdin: if inherits { stdio::stdin() } else { nothing.as_fd() },
            stdout: out.as_ref().map_or(stdio::stdout(), |pipe| pipe.as_fd()),
            stderr: err.as_ref().map_or(stdio::stderr(), |pipe| pipe.as_fd()),
        };
        let core = self.cores.as_ref().map(|cores| cores[rank as usize]);
        match &mut self.guardian {
            Some(guardian) => guardian.start_rank(rank, core, &streams).map_err(refused),
            None => Err(refused(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits for something to happen, not longer than `most`, and does what has to be done about it.
    fn attend(&mut self, most: Option<Duration>) -> Result<(), LaunchError> {
        let until_stage = self.until_next_stage();
        let timeout = match (most, until_stage) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut list = vec![PollFd::new(&self.signals, PollFlags::IN)];
        list.extend(self.guardian.as_ref().map(|guardian| PollFd::new(guardian, PollFlags::IN)));
        let own = list.len();
        self.output.awaited(&mut list);
        match poll(&mut list, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LaunchError::system("wait for the ranks")(error)),
        }
        // While there is much output nothing else is asked for in vain.
        let is_told = list[..own].iter().any(|descriptor| !descriptor.revents().is_empty());
        if is_told || most.is_some() {
            self.listen()?;
        }
        self.output.pass_on()?;
        self.next_stage();
        Ok(())
    }

    /// Does what signals and ends of ranks ask for.
    fn listen(&mut self) -> Result<(), LaunchError> {
        for signal in self.signals.take() {
            match signal {
                libc::SIGTSTP => self.suspend(),
                signal if asks_to_end(signal) => self.interrupt(signal),
                _ => {}
            }
        }
        self.note_ends()
    }

    /// Finds out who has ended, tells the others, and begins to end the job if somebody failed.
    fn note_ends(&mut self) -> Result<(), LaunchError> {
        let Some(guardian) = &mut self.guardian else { return Ok(()) };
        let ended = match guardian.ended() {
            Ok(ended) => ended,
            Err(error) => {
                // The kernel has killed the ranks. Their groups are killed at once: the kernel hands out numbers in turn, so
                // one that was freed a moment ago is not in use again.
                self.signal_all(Signal::KILL);
                self.started.clear();
                return Err(LaunchError::system("learn how a rank ended")(error));
            }
        };
        if ended.is_empty() {
            return Ok(());
        }
        let mut failure: Option<Failure> = None;
        for &(rank, end) in &ended {
            // A rank that panics says so before it ends, and others may hear of it and exit before it has. One that exits inside
            // its world says nothing, and others may find that its process is gone, and leave, before the launcher is told.
            let kind = match end {
                End::Killed(_) => 0,
                _ if self.arena.has_failed(rank) => 0,
                _ if self.arena.is_here(rank) => 1,
                End::Exited(_) => 2,
            };
            self.arena.report(rank, if end == End::Exited(0) { Life::Left } else { Life::Dead });
            let this = Failure { rank, end, kind, left: self.arena.left(rank) };
            let precedes = |first: &Failure| this.precedes((first.kind, first.left));
            if end != End::Exited(0) && failure.as_ref().is_none_or(precedes) {
                failure = Some(this);
            }
        }
        self.living.retain(|rank| ended.iter().all(|(ended, _)| ended != rank));
        if let Some(failure) = failure {
            let Failure { rank, end, kind, left } = failure;
            let outcome = Outcome::Failed { rank, end, others_ended: !self.living.is_empty() };
            match &mut self.ending {
                None => self.begin_to_end(outcome, (kind, left)),
                // Not the launcher's doing: nobody has been ended by it yet, or this one has exited by itself. So this was the
                // cause of the exit that was seen first.
                Some(ending)
                    if (ending.stage == Stage::Waiting || matches!(end, End::Exited(_)))
                        && failure.precedes(ending.cause) =>
                {
                    ending.outcome = match ending.outcome {
                        Outcome::Failed { .. } => Outcome::Failed { rank, end, others_ended: true },
                        _ => return Ok(()),
                    };
                    ending.cause = (kind, left);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn begin_to_end(&mut self, outcome: Outcome, cause: (u8, u32)) {
        self.ending = Some(Ending { outcome, cause, since: Instant::now(), stage: Stage::Waiting });
    }

    /// The launcher was asked to end: passes the signal on at once, then goes on as after a failure. A second Ctrl-C is
    /// impatience.
    fn interrupt(&mut self, signal: i32) {
        match &mut self.ending {
            None => {
                self.begin_to_end(Outcome::Interrupted { signal }, (0, 0));
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
        if self.until_next_stage().is_none_or(|until| !until.is_zero()) {
            return;
        }
        let Some(ending) = &mut self.ending else { return };
        if ending.stage == Stage::Waiting {
            ending.stage = Stage::Asked;
            let groups = self.started.iter().zip(0..).filter(|(_, rank)| !self.is_failing(*rank));
            groups.for_each(|(group, _)| self.signal(*group, Signal::TERM));
        } else {
            ending.stage = Stage::Killed;
            self.signal_all(Signal::KILL);
        }
    }

    /// How long the ranks have until they are asked to end, or killed.
    fn until_next_stage(&self) -> Option<Duration> {
        let ending = self.ending.as_ref()?;
        let next = match ending.stage {
            Stage::Waiting => ASK_AFTER,
            Stage::Asked if self.living.iter().any(|rank| self.arena.has_failed(*rank)) => KILL_CAUSE_AFTER,
            Stage::Asked => KILL_AFTER,
            Stage::Killed => STUCK_AFTER,
        };
        Some(next.saturating_sub(ending.since.elapsed()))
    }

    /// Whether a rank is about to end by itself because it has failed.
    fn is_failing(&self, rank: u32) -> bool {
        self.arena.has_failed(rank) && self.living.contains(&rank)
    }

    /// Ends the guardian, which leaves no rank and nothing that one started. From then on their numbers may be anybody's.
    fn end_guardian(&mut self) {
        self.guardian = None;
        self.started.clear();
    }

    /// Signals all process groups of the job, of ranks that have ended too.
    fn signal_all(&self, signal: Signal) {
        self.started.iter().for_each(|group| self.signal(*group, signal));
    }

    fn signal(&self, group: Pid, signal: Signal) {
        // The guardian has reaped no rank, so the group exists and is ours; a refusal would concern a member that has taken on
        // another user's rights, and there is nothing more to be done about it.
        let _ = kill_process_group(group, signal);
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.end_guardian();
    }
}
