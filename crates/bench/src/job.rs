//! Subprocesses whose output is captured: Treepie's ranks under its launcher, or MPI's under mpirun.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Characters of a failed command's standard error that are repeated.
const MAX_ERROR_CHARACTERS: usize = 300;

/// Time from SIGTERM to SIGKILL for a command that takes too long.
const GRACE: Duration = Duration::from_secs(3);

/// Time after which a job counts as hung, even on a busy machine.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(600);

/// A command without input whose output is captured.
#[derive(Clone, Debug)]
pub struct Job {
    command: Vec<OsString>,
    env: Vec<(&'static str, String)>,
}

impl Job {
    /// This program as ranks of its launcher.
    pub fn ranks<S: AsRef<OsStr>>(ranks: u32, arguments: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        Ok(Self::ranks_of(&own_path()?, ranks, arguments))
    }

    /// A build of this program as ranks of its launcher.
    pub(crate) fn ranks_of<S: AsRef<OsStr>>(
        program: &OsStr,
        ranks: u32,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let launcher = Self::new([program]).args(["run", "--label", "never", "-n", &ranks.to_string()]);
        launcher.args([program]).args(arguments)
    }

    /// A command and its arguments.
    pub fn new<S: AsRef<OsStr>>(command: impl IntoIterator<Item = S>) -> Self {
        Self { command: Vec::new(), env: Vec::new() }.args(command)
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Starts it with its standard streams connected as `connect` says.
    pub(crate) fn spawn(&self, connect: impl FnOnce(&mut Command)) -> anyhow::Result<Child> {
        let (program, arguments) = self.command.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        // If this process is a rank, the job's ranks must not inherit its identity.
        for name in [treepie_shm::RANK_VAR, treepie_shm::SIZE_VAR, treepie_shm::ARENA_VAR] {
            command.env_remove(name);
        }
        command.args(arguments).envs(self.env.iter().map(|(name, value)| (name, value)));
        connect(&mut command);
        command.spawn().with_context(|| format!("cannot run {}", program.display()))
    }

    /// Runs it and returns its standard output. A command that takes longer than `limit` is terminated.
    pub fn output(&self, limit: Duration) -> anyhow::Result<String> {
        let name = self.to_string();
        let streams = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        };
        let mut child = self.spawn(streams)?;
        let (done, watched) = channel::<()>();
        let (stdout, stderr, timed_out) = std::thread::scope(|threads| {
            let pipe = child.stderr.take();
            let stderr = threads.spawn(|| read(pipe));
            let pid = Pid::from_child(&child);
            let timed_out = threads.spawn(move || kill_after(pid, limit, &watched));
            let stdout = read(child.stdout.take());
            let stderr = stderr.join().unwrap_or_default();
            // The child is not reaped yet, so its pid is still valid for the watchdog.
            drop(done);
            (stdout, stderr, timed_out.join().unwrap_or(false))
        });
        let status = child.wait().with_context(|| format!("cannot get the exit status of {name}"))?;
        if timed_out {
            bail!("{name} took longer than {} s and was terminated", limit.as_secs());
        }
        if !status.success() {
            bail!("{name} failed ({status}): {}", shorten_error(&stderr));
        }
        Ok(stdout)
    }
}

/// The path of this program.
pub(crate) fn own_path() -> anyhow::Result<OsString> {
    Ok(std::env::current_exe().context("cannot find the path of this program")?.into())
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // After a read error, the bytes read so far are used.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Terminates the process after `limit` unless the job is done; returns whether it did.
fn kill_after(pid: Pid, limit: Duration, done: &Receiver<()>) -> bool {
    let mut timed_out = false;
    for (wait, signal) in [(limit, Signal::TERM), (GRACE, Signal::KILL)] {
        if done.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        timed_out = true;
        // The process may just have exited.
        let _ = kill_process(pid, signal);
    }
    timed_out
}

/// A failed command's standard error as one line, without separator lines.
fn shorten_error(stderr: &str) -> String {
    let has_text = |line: &&str| line.chars().any(char::is_alphanumeric);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(has_text).collect();
    let text = crate::diagnostics::one_line(&lines.join(" | "));
    match text.char_indices().nth(MAX_ERROR_CHARACTERS) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None if text.is_empty() => "no error output".to_owned(),
        None => text,
    }
}

/// The command line, as typed in a shell.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let this_program = own_path().ok();
        for (name, value) in &self.env {
            write!(f, "{name}={value} ")?;
        }
        for (index, word) in self.command.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let word = if this_program.as_ref() == Some(word) { "treepie".into() } else { word.to_string_lossy() };
            let quote = if word.contains(char::is_whitespace) { "'" } else { "" };
            write!(f, "{space}{quote}{word}{quote}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_returned_and_failures_are_one_line() {
        let shell = |script: &str| Job::new(["sh", "-c", script]);
        let limit = treepie_base::hang_limit();
        assert_eq!(shell("echo $X").env("X", "here").output(limit).unwrap(), "here\n");
        let failure = shell("echo ----- >&2; echo 'no luck' >&2; echo today >&2; exit 3").output(limit).unwrap_err();
        let failure = format!("{failure:#}");
        assert!(failure.ends_with("(exit status: 3): no luck | today"), "{failure}");
        assert!(Job::new(["/nowhere/at/all"]).output(limit).is_err());
    }

    #[test]
    fn a_command_that_takes_too_long_is_terminated() {
        let late = Job::new(["sleep", "60"]).output(Duration::from_millis(50)).unwrap_err().to_string();
        assert!(late.contains("took longer"), "{late}");
    }
}
