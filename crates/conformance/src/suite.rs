//! Running cases, and agreeing about how they ended.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use treepie::{Comm, Error, Request};

use crate::check::Failure;

/// One thing that must hold.
#[derive(Clone, Copy)]
pub struct Case {
    /// As `module/what-holds`.
    pub name: &'static str,
    /// It says nothing about fewer ranks than this, and is not run there.
    pub min_ranks: usize,
    /// Called by all ranks, with a communicator that no other case uses, or with that of the world.
    pub run: fn(&Comm) -> Result<(), Failure>,
    /// Whether it is about the communicator of the world: engines may treat that in a special way.
    pub of_world: bool,
    /// Whether it runs after all others: what it does to the world may last.
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

    /// Whether its name contains one of the filter's words, which have commas between them.
    pub fn is_chosen_by(&self, filter: &str) -> bool {
        filter.split(',').any(|word| self.name.contains(word))
    }
}

/// How a case ended, the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On all ranks.
    Passed,
    /// What differed, one line per rank that saw it.
    Failed(Vec<String>),
    /// It needs this many ranks.
    NotApplicable(usize),
}

/// A case and how it ended.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The case's name.
    pub name: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// How long this rank was busy with it.
    pub took: Duration,
}

/// How all cases ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The engine that they ran on.
    pub engine: &'static str,
    /// How many ranks it had.
    pub ranks: usize,
    /// The cases, in order.
    pub entries: Vec<Entry>,
    /// Why the rest was not run: a rank was lost.
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
/// A rank that fails leaves the case at once. The others come out of it too as long as they do not wait for what it
/// did not do; if they do, it gives them a minute and then panics, so that they get `PeerLost` instead of waiting
/// for ever. A case that passes knows no such limit.
pub fn run_all(world: &Comm, filter: Option<&str>) -> Summary {
    let mut cases = crate::cases();
    cases.retain(|case| case.is_chosen_by(filter.unwrap_or_default()));
    cases.sort_by_key(|case| case.last);
    run(world, &cases, HOPE)
}

#[doc(hidden)]
pub fn run(world: &Comm, cases: &[Case], hope: Duration) -> Summary {
    let mut summary = Summary { engine: world.engine(), ranks: world.size(), entries: Vec::new(), broken: None };
    if let Err(error) = run_into(&mut summary, world, cases, hope) {
        summary.broken = Some(error);
    }
    summary
}

fn run_into(summary: &mut Summary, world: &Comm, cases: &[Case], hope: Duration) -> Result<(), Error> {
    let speaks = world.rank() == 0;
    let control = world.dup()?;
    for case in cases {
        if speaks {
            // Before it runs: so that the one that hangs can be seen.
            print!("{:<75} ", case.name);
            let _ = std::io::stdout().flush();
        }
        let begin = Instant::now();
        let verdict = if world.size() < case.min_ranks {
            Verdict::NotApplicable(case.min_ranks)
        } else {
            let own = if case.of_world { world.clone() } else { control.dup()? };
            let failure = (case.run)(&own).err().map(|failure| format!("rank {}: {failure}", world.rank()));
            match agree(&control, case.name, failure, hope)? {
                failures if failures.is_empty() => Verdict::Passed,
                failures => Verdict::Failed(failures),
            }
        };
        let entry = Entry { name: case.name, verdict, took: begin.elapsed() };
        if speaks {
            print_verdict(&entry);
        }
        summary.entries.push(entry);
    }
    Ok(())
}

fn print_verdict(entry: &Entry) {
    match &entry.verdict {
        Verdict::Passed => println!("ok {:>5} ms", entry.took.as_millis()),
        Verdict::NotApplicable(ranks) => println!("not applicable: needs {ranks} ranks"),
        Verdict::Failed(failures) => {
            println!("FAILED");
            failures.iter().for_each(|failure| println!("    {failure}"));
        }
    }
}

/// How long a rank that has failed waits for the others to end the case.
const HOPE: Duration = Duration::from_secs(60);

/// Lets all ranks know what each of them says: rank 0 collects it and tells everybody.
fn agree(control: &Comm, case: &str, failure: Option<String>, hope: Duration) -> Result<Vec<String>, Error> {
    let hope = Hope { case, failure: failure.clone(), until: Instant::now() + hope };
    let mut lines: Vec<String> = failure.into_iter().collect();
    if control.rank() != 0 {
        let said = control.isend(lines.join("\n").into_bytes(), 0, 0)?;
        let (all, _) = hope.wait(control.irecv_vec::<u8>(0, 0)?)?;
        said.wait()?;
        return Ok(lines_of(&all));
    }
    for rank in 1..control.size() {
        let (said, _) = hope.wait(control.irecv_vec::<u8>(rank, 0)?)?;
        lines.extend(lines_of(&said));
    }
    for rank in 1..control.size() {
        control.isend(lines.join("\n").into_bytes(), rank, 0)?.wait()?;
    }
    Ok(lines)
}

fn lines_of(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

/// What a rank that may have failed expects of the others.
struct Hope<'a> {
    case: &'a str,
    failure: Option<String>,
    until: Instant,
}

impl Hope<'_> {
    /// Waits as long as there is hope: for ever, unless this rank has failed.
    fn wait<T>(&self, mut request: Request<'_, T>) -> Result<T, Error> {
        let Some(failure) = &self.failure else { return request.wait() };
        loop {
            if let Some(result) = request.test() {
                return result;
            }
            if Instant::now() > self.until {
                panic!("case {} failed, and other ranks did not come to its end. {failure}", self.case);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
