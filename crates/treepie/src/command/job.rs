//! Commands that are run for their output: ranks of Treepie by its own launcher, or of MPI by mpirun.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How much of a failed command's complaint is repeated.
const COMPLAINT_CHARACTERS: usize = 300;

/// From asking a command that takes too long to end until it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// What takes longer hangs, on a machine that is busy with something else too.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(600);

/// A command that gets no input, ends by itself, and whose output is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    command: Vec<OsString>,
    env: Vec<(&'static str, &'static str)>,
}

impl Job {
    /// This very program as ranks of its own launcher.
    pub(crate) fn ranks<S: AsRef<OsStr>>(ranks: u32, arguments: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let launcher = Self::own(["run", "--label", "never", "-n", &ranks.to_string()])?;
        Ok(launcher.with([own_path()?]).with(arguments))
    }

    /// This very program.
    pub(crate) fn own<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        Ok(Self::new([own_path()?]).with(arguments))
    }

    pub(crate) fn new<S: AsRef<OsStr>>(command: impl IntoIterator<Item = S>) -> Self {
        Self { command: Vec::new(), env: Vec::new() }.with(command)
    }

    /// With more arguments.
    pub(crate) fn with<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// With a variable in its environment.
    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// Runs it and returns what it wrote to standard output. A command that takes longer than `limit` is ended.
    pub(crate) fn output(&self, limit: Duration) -> anyhow::Result<String> {
        let name = self.to_string();
        let (program, arguments) = self.command.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        // Ranks of the job must not take this process's place, should it be a rank itself.
        for name in [treepie_shm::RANK, treepie_shm::SIZE, treepie_shm::ARENA] {
            command.env_remove(name);
        }
        command.args(arguments).envs(self.env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let (over, watched) = channel::<()>();
        let (output, complaint, late) = std::thread::scope(|threads| {
            let errors = child.stderr.take();
            let complaint = threads.spawn(|| read(errors));
            let pid = Pid::from_child(&child);
            let late = threads.spawn(move || watch(pid, limit, &watched));
            let output = read(child.stdout.take());
            let complaint = complaint.join().unwrap_or_default();
            // Not reaped yet, so the number that the watch has is still the child's.
            drop(over);
            (output, complaint, late.join().unwrap_or(false))
        });
        let status = child.wait().with_context(|| format!("cannot learn how {name} ended"))?;
        if late {
            bail!("{name} took longer than {} s and was ended", limit.as_secs());
        }
        if !status.success() {
            bail!("{name} failed ({status}): {}", shortened(&complaint));
        }
        Ok(output)
    }
}

fn own_path() -> anyhow::Result<OsString> {
    Ok(std::env::current_exe().context("cannot find this program's own file")?.into())
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What could be read before an error is what there is.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ends the process if the job is not over in time; true if it had to be.
fn watch(pid: Pid, limit: Duration, over: &Receiver<()>) -> bool {
    let mut late = false;
    for (wait, signal) in [(limit, Signal::TERM), (GRACE, Signal::KILL)] {
        if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        late = true;
        // It may have ended by itself just now.
        let _ = kill_process(pid, signal);
    }
    late
}

/// What a failed command said, without ornaments and in one line.
fn shortened(complaint: &str) -> String {
    let says_something = |line: &&str| line.chars().any(char::is_alphanumeric);
    let said: Vec<&str> = complaint.lines().map(str::trim).filter(says_something).collect();
    let said = super::one_line(&said.join(" | "));
    match said.char_indices().nth(COMPLAINT_CHARACTERS) {
        Some((end, _)) => format!("{} ...", &said[..end]),
        None if said.is_empty() => "it said nothing".to_owned(),
        None => said,
    }
}

/// As one would type it.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = own_path().ok();
        for (name, value) in &self.env {
            write!(f, "{name}={value} ")?;
        }
        for (place, word) in self.command.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            let word = if own.as_ref() == Some(word) { "treepie".into() } else { word.to_string_lossy() };
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
    fn output_is_returned_and_failures_are_told_in_one_line() {
        let shell = |script: &str| Job::new(["sh", "-c", script]);
        let limit = treepie_base::hang_limit();
        assert_eq!(shell("echo $X").env("X", "here").output(limit).unwrap(), "here\n");
        let failure = shell("echo ----- >&2; echo 'no luck' >&2; echo today >&2; exit 3").output(limit).unwrap_err();
        let failure = format!("{failure:#}");
        assert!(failure.ends_with("(exit status: 3): no luck | today"), "{failure}");
        assert!(Job::new(["/nowhere/at/all"]).output(limit).is_err());
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let late = Job::new(["sleep", "60"]).output(Duration::from_millis(50)).unwrap_err().to_string();
        assert!(late.contains("took longer"), "{late}");
    }
}
