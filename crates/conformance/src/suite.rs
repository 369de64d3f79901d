//! Runs cases, and makes all ranks agree on the verdicts.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use treepie::{Comm, Error, Request};

use crate::check::Failure;

/// A case: one property that must hold.
#[derive(Clone, Copy)]
pub struct Case {
    /// As `module/what-holds`.
    pub name: &'static str,
    /// The least number of ranks; it is not run with fewer.
    pub min_ranks: usize,
    /// Called by all ranks, with a communicator that no other case uses, or with the world.
    pub run: fn(&Comm) -> Result<(), Failure>,
    /// Whether it runs on the world itself, for which engines may have faster transports.
    pub of_world: bool,
    /// Whether it runs after all others, as it may disable a transport of the world.
    pub last: bool,
}

impl Case {
    /// A case that needs at least `min_ranks` ranks.
    pub const fn new(name: &'static str, min_ranks: usize, run: fn(&Comm) -> Result<(), Failure>) -> Self {
        Self { name, min_ranks, run, of_world: false, last: false }
    }

    pub(crate) const fn of_world(self) -> Self {
        Self { of_world: true, ..self }
    }

    pub(crate) const fn last(self) -> Self {
        Self { last: true, ..self }
    }

    /// Whether its name contains one of the comma-separated words of the filter, if there are any, and none of those
    /// that follow a `!`.
    pub fn is_chosen_by(&self, filter: &str) -> bool {
        let words = || filter.split(',').filter(|word| !word.is_empty());
        let is_excluded = words().filter_map(|word| word.strip_prefix('!')).any(|word| self.name.contains(word));
        let mut wanted = words().filter(|word| !word.starts_with('!')).peekable();
        !is_excluded && (wanted.peek().is_none() || wanted.any(|word| self.name.contains(word)))
    }
}

/// The verdict on a case, the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passed on all ranks.
    Passed,
    /// Failed: one line per rank that failed.
    Failed(Vec<String>),
    /// It needs this many ranks.
    NotApplicable(usize),
}

/// A case and its verdict.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The case's name.
    pub name: &'static str,
    /// Its verdict.
    pub verdict: Verdict,
    /// The time that this rank spent in it.
    pub elapsed: Duration,
}

/// The verdicts on all cases.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The engine.
    pub engine: &'static str,
    /// The number of ranks.
    pub ranks: usize,
    /// The cases, in order.
    pub entries: Vec<Entry>,
    /// Why the remaining cases were not run, if a rank failed.
    pub broken: Option<Error>,
}

impl Summary {
    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.broken.is_none() && self.count(|verdict| matches!(verdict, Verdict::Failed(_))) == 0
    }

    fn count(&self, which: impl Fn(&Verdict) -> bool) -> usize {
        self.entries.iter().filter(|entry| which(&entry.verdict)).count()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = if self.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", self.ranks) };
        let passed = self.count(|verdict| *verdict == Verdict::Passed);
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let other = self.count(|verdict| matches!(verdict, Verdict::NotApplicable(_)));
        write!(f, "conformance on {}, {ranks}: {passed} passed, {failed} failed, {other} not applicable", self.engine)?;
        match &self.broken {
            Some(error) => write!(f, "; stopped: {error}"),
            None => Ok(()),
        }
    }
}

/// Runs all cases, or those that `filter` chooses. All ranks of `world` call it; rank 0 prints a line per case.
///
/// A rank that fails returns from the case at once. The others return too unless they wait for it; then it panics after
/// a minute, so that they get `PeerLost` instead of hanging. A case that passes has no such limit.
pub fn run_all(world: &Comm, filter: Option<&str>) -> Summary {
    let mut cases = crate::cases();
    cases.retain(|case| case.is_chosen_by(filter.unwrap_or_default()));
    cases.sort_by_key(|case| case.last);
    run(world, &cases, FAILURE_TIMEOUT)
}

#[doc(hidden)]
pub fn run(world: &Comm, cases: &[Case], timeout: Duration) -> Summary {
    let mut summary = Summary { engine: world.engine(), ranks: world.size(), entries: Vec::new(), broken: None };
    if let Err(error) = run_into(&mut summary, world, cases, timeout) {
        summary.broken = Some(error);
    }
    summary
}

fn run_into(summary: &mut Summary, world: &Comm, cases: &[Case], timeout: Duration) -> Result<(), Error> {
    let prints = world.rank() == 0;
    let control = world.dup()?;
    for case in cases {
        if prints {
            // Printed before it runs, so that a case that hangs can be seen.
            print!("{:<75} ", case.name);
            let _ = std::io::stdout().flush();
        }
        let begin = Instant::now();
        let verdict = if world.size() < case.min_ranks {
            Verdict::NotApplicable(case.min_ranks)
        } else {
            let comm = if case.of_world { world.clone() } else { control.dup()? };
            let failure = (case.run)(&comm).err().map(|failure| format!("rank {}: {failure}", world.rank()));
            match agree(&control, case.name, failure, timeout)? {
                failures if failures.is_empty() => Verdict::Passed,
                failures => Verdict::Failed(failures),
            }
        };
        let entry = Entry { name: case.name, verdict, elapsed: begin.elapsed() };
        if prints {
            print_verdict(&entry);
        }
        summary.entries.push(entry);
    }
    Ok(())
}

fn print_verdict(entry: &Entry) {
    match &entry.verdict {
        Verdict::Passed => println!("ok {:>5} ms", entry.elapsed.as_millis()),
        Verdict::NotApplicable(ranks) => println!("not applicable: needs {ranks} ranks"),
        Verdict::Failed(failures) => {
            println!("FAILED");
            failures.iter().for_each(|failure| println!("    {failure}"));
        }
    }
}

/// How long a rank that has failed waits for the others to return from the case.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(60);

/// Gathers the failures of all ranks at rank 0, and sends them to all.
fn agree(control: &Comm, case: &str, failure: Option<String>, timeout: Duration) -> Result<Vec<String>, Error> {
    let deadline = FailureDeadline { case, failure: failure.clone(), deadline: Instant::now() + timeout };
    let mut lines: Vec<String> = failure.into_iter().collect();
    if control.rank() != 0 {
        let sent = control.isend(lines.join("\n").into_bytes(), 0, 0)?;
        let (all, _) = deadline.wait(control.irecv_vec::<u8>(0, 0)?)?;
        sent.wait()?;
        return Ok(lines_of(&all));
    }
    for rank in 1..control.size() {
        let (received, _) = deadline.wait(control.irecv_vec::<u8>(rank, 0)?)?;
        lines.extend(lines_of(&received));
    }
    for rank in 1..control.size() {
        control.isend(lines.join("\n").into_bytes(), rank, 0)?.wait()?;
    }
    Ok(lines)
}

fn lines_of(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

/// The deadline of a rank that has failed for the others to return.
struct FailureDeadline<'a> {
    case: &'a str,
    failure: Option<String>,
    deadline: Instant,
}

impl FailureDeadline<'_> {
    /// Waits without limit, or until the deadline if this rank has failed.
    fn wait<T>(&self, mut request: Request<'_, T>) -> Result<T, Error> {
        let Some(failure) = &self.failure else { return request.wait() };
        loop {
            if let Some(result) = request.test() {
                return result;
            }
            if Instant::now() > self.deadline {
                panic!("case {} failed, and other ranks did not return from it. {failure}", self.case);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
