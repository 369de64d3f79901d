//! The loop in which the ranks of a world measure cases. `peer.h` does the same with MPI; keep both in step.
//!
//! Adjacent cases of the same task alternate, batch by batch, so that noise affects all of them. The order changes, as
//! a batch may depend on what the one before has left behind. The first batch of a case is a warm-up.
//! Before each batch, rank 0 tells the others whether there is another: a case that takes long, as on a busy machine,
//! ends early.

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use treepie::{Comm, Max};
use treepie_base::monotonic_nanos;

use super::case::Case;
use super::launch::on_ranks;
use super::output;

/// A benchmark on a rank: it runs batches of its cases.
pub(crate) trait Benchmark: Sized {
    /// What both sides do.
    type Task: Text;
    /// How Treepie does it.
    type Program: Text;
    /// Whether the time of the slowest rank counts, not that of rank 0.
    const TIMES_SLOWEST_RANK: bool;

    /// Allocates what all cases use.
    fn new(world: &Comm, cases: &[CaseOf<Self>]) -> anyhow::Result<Self>;

    /// Prepares cases of the same task.
    fn prepare(&mut self, _group: &[CaseOf<Self>]) -> anyhow::Result<()> {
        Ok(())
    }

    /// Runs a batch of a case and checks the data that it received. Returns this rank's time. `index` is that of the
    /// case in its group, and `turn` counts the batches of the group.
    fn batch(&mut self, case: &CaseOf<Self>, index: usize, turn: usize) -> anyhow::Result<Duration>;

    /// Operations of a batch that are timed, of all ranks together.
    fn operations(case: &CaseOf<Self>, _ranks: usize) -> usize {
        case.count
    }

    /// Further lines of output about a group that was measured. Collective; those of rank 0 are printed.
    fn describe(&self, _group: &[CaseOf<Self>]) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// A case of a benchmark.
pub(crate) type CaseOf<B> = Case<<B as Benchmark>::Task, <B as Benchmark>::Program>;

/// What is passed to ranks as text.
pub(crate) trait Text: Display + FromStr + PartialEq + Send + Sync {}

impl<T: Display + FromStr + PartialEq + Send + Sync> Text for T {}

/// The arguments of a rank.
#[derive(clap::Args)]
pub struct RankArguments {
    /// Launch a world of this number of threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<u32>,
    cases: Vec<String>,
}

impl RankArguments {
    /// Measures the cases; rank 0 prints the results.
    pub(crate) fn run<B: Benchmark>(&self) -> anyhow::Result<ExitCode> {
        let cases: Vec<CaseOf<B>> = parse_cases(&self.cases)?;
        on_ranks(self.threads, |world| {
            let measured = measure::<B>(world, &cases)?;
            if world.rank() == 0 { output::print(world.engine(), &self.cases, &measured) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn parse_cases<T: Text, P: Text>(texts: &[String]) -> anyhow::Result<Vec<Case<T, P>>> {
    texts.iter().map(|text| text.parse().map_err(|error: String| anyhow!(error))).collect()
}

/// The results of all cases.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// For each case microseconds per operation, one for each batch; on rank 0.
    pub(crate) times: Vec<Vec<f64>>,
    /// Further lines of output.
    pub(crate) lines: Vec<String>,
}

/// Measures each case.
pub(crate) fn measure<B: Benchmark>(world: &Comm, cases: &[CaseOf<B>]) -> anyhow::Result<Measured> {
    let mut benchmark = B::new(world, cases)?;
    let mut measured = Measured::default();
    for group in cases.chunk_by(Case::is_same_task) {
        benchmark.prepare(group).with_context(|| group[0].to_string())?;
        let operations = B::operations(&group[0], world.size()) as f64;
        let mut turn = 0;
        let turns = repeat(world, group[0].batches, group.len() as u32, || {
            let mut times = vec![0.0; group.len()];
            for index in balanced_order(turn, group.len()) {
                let time = benchmark.batch(&group[index], index, turn).with_context(|| group[index].to_string())?;
                let micros = time.as_secs_f64() * 1e6;
                let micros = if B::TIMES_SLOWEST_RANK { max_time(world, micros)? } else { micros };
                times[index] = micros / operations;
            }
            turn += 1;
            Ok(times)
        })?;
        let times_of = |index: usize| turns.iter().map(|times| times[index]).collect();
        measured.times.extend((0..group.len()).map(times_of));
        measured.lines.extend(benchmark.describe(group).with_context(|| group[0].to_string())?);
    }
    Ok(measured)
}

/// The time of `count` operations, back to back, after one that is not timed.
#[inline]
pub(crate) fn time_operations(
    count: usize,
    mut operation: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let mut start = Instant::now();
    for number in 0..=count {
        if number == 1 {
            start = Instant::now();
        }
        operation(number)?;
    }
    Ok(start.elapsed())
}

/// Waits until the clock of this machine has reached a time that all ranks know, and returns it: all ranks begin
/// together. After a barrier over slow links, they begin up to its time apart. Collective.
pub(crate) fn begin_together(comm: &Comm) -> treepie::Result<u64> {
    let begin = monotonic_nanos();
    comm.barrier()?;
    let mut margin = comm.allreduce(&[monotonic_nanos() - begin], Max)?[0];
    loop {
        // An allreduce tells the time, and another one that a third of the margin is left on all ranks.
        margin = 3 * margin + 5_000_000;
        let start = comm.allreduce(&[monotonic_nanos() + margin], Max)?[0];
        // A rank that gets the answer late, on a busy machine, is rare and shows in the spread.
        if !comm.any(monotonic_nanos() + margin / 3 >= start)? || margin > LONGEST_MARGIN {
            std::thread::sleep(Duration::from_nanos(start.saturating_sub(monotonic_nanos())));
            return Ok(start);
        }
    }
}

/// The time since a [`begin_together`].
pub(crate) fn time_since(start: u64) -> Duration {
    Duration::from_nanos(monotonic_nanos().saturating_sub(start))
}

/// Runs something on all ranks after a barrier; returns the seconds of the slowest rank too, by the engine's clock.
/// Collective.
pub(crate) fn time_slowest<T, E: From<treepie::Error>>(
    world: &Comm,
    run: impl FnOnce() -> Result<T, E>,
) -> Result<(T, f64), E> {
    world.barrier()?;
    let start = world.now();
    let result = run()?;
    let seconds = world.allreduce(&[(world.now() - start).as_secs_f64()], Max)?[0];
    Ok((result, seconds))
}

/// Ranks wait at most about this long to begin together, in nanoseconds.
const LONGEST_MARGIN: u64 = 10_000_000_000;

/// A group that has taken this long for each case ends after the minimum number of batches.
const LONG_CASE: Duration = Duration::from_millis(300);
const MIN_BATCHES: usize = 3;

const CONTINUE_TAG: u32 = 3;
const TIME_TAG: u32 = 4;

/// Repeats a batch of each of `cases` cases. Rank 0 returns its results without warm-up; the others return none.
fn repeat<T>(
    comm: &Comm,
    batches: usize,
    cases: u32,
    mut batch: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut times = Vec::new();
    if comm.rank() != 0 {
        while comm.recv_vec::<u64>(0, CONTINUE_TAG)?.0 == [1] {
            batch()?;
        }
        return Ok(times);
    }
    let start = Instant::now();
    for number in 0..=batches {
        if times.len() >= MIN_BATCHES && start.elapsed() > LONG_CASE * cases {
            break;
        }
        send_continue(comm, 1)?;
        let time = batch()?;
        if number > 0 {
            times.push(time);
        }
    }
    send_continue(comm, 0)?;
    Ok(times)
}

fn send_continue(comm: &Comm, go_on: u64) -> anyhow::Result<()> {
    for rank in 1..comm.size() {
        comm.send(&[go_on], rank, CONTINUE_TAG)?;
    }
    Ok(())
}

/// The order of `count` cases in a turn: a balanced Latin square. In `count` turns, each is once at each position and
/// once after each other one; if `count` is odd, twice in twice as many turns, every other of them backwards.
/// [Williams 1949]
pub(crate) fn balanced_order(turn: usize, count: usize) -> impl Iterator<Item = usize> {
    let (shift, backwards) = if count.is_multiple_of(2) { (turn, false) } else { (turn / 2, turn % 2 == 1) };
    let base = move |position: usize| if position % 2 == 1 { position.div_ceil(2) } else { count - position / 2 };
    (0..count)
        .map(move |position| if backwards { count - 1 - position } else { position })
        .map(move |position| (base(position) + shift) % count)
}

/// The time of the slowest rank, on rank 0.
fn max_time(comm: &Comm, local: f64) -> anyhow::Result<f64> {
    if comm.rank() != 0 {
        comm.send(&[local], 0, TIME_TAG)?;
        return Ok(local);
    }
    let mut slowest = local;
    for rank in 1..comm.size() {
        let mut time = [0.0];
        comm.recv(&mut time, rank, TIME_TAG)?;
        slowest = slowest.max(time[0]);
    }
    Ok(slowest)
}

#[cfg(test)]
mod tests {
    use super::super::launch::on_threads;
    use super::*;

    #[test]
    fn a_case_that_takes_long_ends_early() {
        let slow = || {
            std::thread::sleep(LONG_CASE / 4);
            Ok(1.0)
        };
        let times = on_threads(2, |comm| repeat(comm, 9, 1, slow)).unwrap();
        assert!((MIN_BATCHES..9).contains(&times[0].len()), "{times:?}");
        assert!(times[1].is_empty());
        let quick = on_threads(3, |comm| repeat(comm, 4, 1, || Ok(2.0))).unwrap();
        assert_eq!(quick[0].len(), 4);
    }

    #[test]
    fn the_order_is_balanced() {
        for count in [1, 2, 3, 7, 8] {
            let times = 1 + count % 2;
            let turns: Vec<Vec<usize>> = (0..times * count).map(|turn| balanced_order(turn, count).collect()).collect();
            let mut followed: Vec<(usize, usize)> =
                turns.iter().flat_map(|turn| turn.windows(2).map(|pair| (pair[0], pair[1]))).collect();
            followed.sort_unstable();
            let all = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
            assert_eq!(followed, all.flat_map(|pair| vec![pair; times]).collect::<Vec<_>>());
        }
        let mut seven: Vec<usize> = balanced_order(3, 7).collect();
        seven.sort_unstable();
        assert_eq!(seven, [0, 1, 2, 3, 4, 5, 6]);
    }
}
