//! Measures cases among the ranks of a world. `am_peer.c` does the same with MPI in bulk; whoever changes one changes the
//! other.
//!
//! A batch is an epoch of updates or questions, after a barrier. Each rank takes its own time, and the longest counts. After
//! it what came is compared with what was sent. Programs that do the same take turns, batch by batch: what disturbs the
//! machine disturbs all of them.

use std::io::Write;
use std::ops::Add;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use treepie::am::{ActiveMessages, TypeStatistics};
use treepie::{Comm, Sum};

use super::super::{batches, output};
use super::case::{Case, What};
use super::gather::Gathers;
use super::latency::{Epochs, Pings};
use super::stream::Keys;
use super::updates::Updates;

/// One rank of the benchmark of active messages.
#[derive(clap::Args)]
pub(crate) struct AmRank {
    /// Make a world of so many threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    cases: Vec<Case>,
}

impl AmRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        batches::on_ranks(self.threads, |world| {
            let measured = measure(&world, &self.cases)?;
            if world.rank() == 0 { print(&world, &self.cases, &measured) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Programs that do the same task.
pub(super) trait Programs {
    /// The time of this rank for a batch of one of them.
    fn batch(&mut self, place: usize, turn: usize) -> anyhow::Result<Duration>;

    /// What was sent in a batch, as a sum over all ranks, after it has been compared with what came.
    fn check(&mut self, place: usize, turn: usize) -> anyhow::Result<u64>;

    /// What has been done by one of them on this rank so far.
    fn counted(&self, place: usize) -> Counted;
}

/// Of one rank or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Messages that were sent,
    pub(super) sent: u64,
    /// passed on by others than who sent them,
    pub(super) forwarded: u64,
    /// looked for in a cache,
    pub(super) looked_up: u64,
    /// and found there.
    pub(super) combined: u64,
}

impl Counted {
    pub(super) fn of<S>(messages: &ActiveMessages<S>) -> Self {
        messages.statistics().iter().fold(Self::default(), |sum, of_type| {
            let TypeStatistics { sent, forwarded, looked_up, combined, .. } = *of_type;
            sum + Self { sent, forwarded, looked_up, combined }
        })
    }
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            forwarded: self.forwarded + other.forwarded,
            looked_up: self.looked_up + other.looked_up,
            combined: self.combined + other.combined,
        }
    }
}

/// The time of this rank, which begins with all others.
pub(super) fn timed<T>(world: &Comm, what: impl FnOnce() -> treepie::Result<T>) -> anyhow::Result<(T, Duration)> {
    world.barrier()?;
    let begun = Instant::now();
    let done = what()?;
    Ok((done, begun.elapsed()))
}

/// What was seen of a case, on rank 0.
struct Measured {
    /// Microseconds per operation, one for each batch.
    times: Vec<f64>,
    /// What was sent in the first batch.
    sent: u64,
    /// Of all ranks.
    counted: Counted,
}

/// Measures each case; those that follow each other with the same task take turns.
fn measure(world: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for group in cases.chunk_by(|a, b| a.task == b.task) {
        measured.extend(measure_group(world, group).with_context(|| group[0].task.to_string())?);
    }
    Ok(measured)
}

fn measure_group(world: &Comm, group: &[Case]) -> anyhow::Result<Vec<Measured>> {
    let task = &group[0].task;
    let mut programs: Box<dyn Programs> = match task.what {
        What::Update => Box::new(Updates::new(world, group)?),
        What::Gather => Box::new(Gathers::new(world, group)?),
        What::Ping => Box::new(Pings::new(world, group)?),
        What::Epoch => Box::new(Epochs::new(world, group)?),
    };
    let operations = match task.what {
        What::Update | What::Gather => task.count * world.size(),
        What::Ping | What::Epoch => task.count,
    };
    let mut turn = 0;
    let mut sent = vec![0; group.len()];
    let turns = batches::repeat_several(world, task.batches, group.len() as u32, || {
        let mut times = vec![0.0; group.len()];
        for place in batches::order(turn, group.len()) {
            let mine = programs.batch(place, turn).with_context(|| group[place].to_string())?;
            times[place] = batches::slowest(world, mine.as_secs_f64() * 1e6)? / operations as f64;
            let came = programs.check(place, turn).with_context(|| group[place].to_string())?;
            if turn == 0 {
                sent[place] = came;
            }
        }
        turn += 1;
        Ok(times)
    })?;
    let of_program = |place: usize| {
        let Counted { sent: messages, forwarded, looked_up, combined } = programs.counted(place);
        let sums = world.all_reduce(&[messages, forwarded, looked_up, combined], Sum)?;
        let counted = Counted { sent: sums[0], forwarded: sums[1], looked_up: sums[2], combined: sums[3] };
        Ok(Measured { times: turns.iter().map(|times| times[place]).collect(), sent: sent[place], counted })
    };
    (0..group.len()).map(of_program).collect()
}

/// The lines of all benchmarks; then, for each case, how many of its messages were forwarded, looked up and found, and for
/// each task what was sent in its first batch.
fn print(world: &Comm, cases: &[Case], measured: &[Measured]) -> anyhow::Result<()> {
    let times: Vec<Vec<f64>> = measured.iter().map(|measured| measured.times.clone()).collect();
    output::print(world.engine(), cases, &times)?;
    let mut out = std::io::stdout().lock();
    for (case, Measured { counted, .. }) in cases.iter().zip(measured) {
        let Counted { sent, forwarded, looked_up, combined } = counted;
        writeln!(out, "about {case} {sent} {forwarded} {looked_up} {combined}")?;
    }
    let all: Vec<(&Case, &Measured)> = cases.iter().zip(measured).collect();
    for group in all.chunk_by(|(a, _), (b, _)| a.task == b.task) {
        // Those with other keys send something else.
        let mut uniform = group.iter().filter(|(case, _)| case.program.keys == Keys::Uniform);
        let Some((case, Measured { sent, .. })) = uniform.next() else { continue };
        ensure!(uniform.all(|(_, other)| other.sent == *sent), "not all programs of {} sent the same", case.task);
        writeln!(out, "sent {} {sent}", case.task)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ranks: usize, texts: &[&str]) -> Vec<Measured> {
        let cases: Vec<Case> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut all = treepie::launch(ranks, |world| measure(&world, &cases).unwrap()).unwrap();
        let first = all.swap_remove(0);
        for (case, Measured { times, .. }) in cases.iter().zip(&first) {
            assert_eq!(times.len(), case.task.batches, "{case}");
            assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
        }
        first
    }

    #[test]
    fn every_form_is_measured_and_checked() {
        let forms = ["one", "touch", "batch", "empty", "combine", "one-huge", "touch-huge", "touch/work=20"];
        let forms = forms.map(|form| format!("update:64:1000:2@{form}"));
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        for ranks in [1, 2, 4] {
            let first = measured(ranks, &forms);
            let sent: Vec<u64> = first.iter().map(|measured| measured.sent).collect();
            assert!(sent[0] > 0 && sent.iter().all(|other| *other == sent[0]), "{sent:?}");
            assert!(first.iter().all(|measured| measured.counted.sent == 3 * 1000 * ranks as u64));
        }
    }

    #[test]
    fn a_plain_loop_does_the_same_updates() {
        let alone = measured(1, &["update:64:1000:2@one", "update:64:1000:2@local"]);
        assert_eq!(alone[0].sent, alone[1].sent);
    }

    #[test]
    fn questions_pings_and_epochs_are_measured() {
        for ranks in [1, 2, 4] {
            let texts = ["gather:64:1000:2@touch", "epoch:1:10:2@one", "ping:1:10:2@one"];
            measured(ranks, if ranks == 1 { &texts[..2] } else { &texts });
        }
    }

    #[test]
    fn messages_that_are_forwarded_looked_up_and_found_are_counted() {
        let texts = [
            "update:64:1000:2@touch",
            "update:64:1000:2@touch/routing=rook",
            "update:64:1000:2@touch/routing=hypercube",
            "update:64:1000:2@combine/reductions=off",
            "update:64:1000:2@combine/reductions=64",
            "update:64:1000:2@combine/skewed/reductions=64",
        ];
        let counted: Vec<Counted> = measured(4, &texts).iter().map(|measured| measured.counted).collect();
        assert_eq!(counted[0].forwarded, 0);
        // One of four destinations is two hops away.
        for routed in &counted[1..3] {
            let share = routed.forwarded as f64 / routed.sent as f64;
            assert!((0.2..0.3).contains(&share), "{counted:?}");
        }
        assert_eq!((counted[3].looked_up, counted[3].combined), (0, 0));
        assert!(counted[4].looked_up > 0 && counted[4].combined > 0, "{counted:?}");
        assert!(counted[5].combined > counted[4].combined, "{counted:?}");
    }
}
