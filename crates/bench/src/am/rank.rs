//! Measures cases among the ranks of a world. `am_peer.c` does the same with MPI in bulk; keep both in step.
//!
//! A batch is an epoch of updates or requests, after a barrier. The time of the slowest rank counts. After a batch, the
//! data received is checked against the data sent. Programs for the same task alternate, batch by batch, so that noise
//! of the machine affects all of them.

use std::io::Write;
use std::ops::Add;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use treepie::am::{ActiveMessages, TypeStatistics};
use treepie::{Comm, Sum};

use super::super::{batches, output};
use super::case::{Case, TaskKind};
use super::gather::IndexGather;
use super::latency::{Epochs, PingPong};
use super::stream::Keys;
use super::updates::RandomUpdates;

/// One rank of the active-message benchmark.
#[derive(clap::Args)]
pub struct AmRank {
    /// Launch a world of this number of threads instead of joining one.
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

/// Programs for the same task.
pub(super) trait Programs {
    /// Runs a batch of one program and returns this rank's time.
    fn run_batch(&mut self, program: usize, turn: usize) -> anyhow::Result<Duration>;

    /// Checks the data received in a batch, and returns a checksum of the data that all ranks sent.
    fn check(&mut self, program: usize, turn: usize) -> anyhow::Result<u64>;

    /// The counters of one program on this rank so far.
    fn counters(&self, program: usize) -> MessageCounters;
}

/// Message counters, of one rank or summed over all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MessageCounters {
    /// Messages sent,
    pub(super) sent: u64,
    /// forwarded by other ranks than their senders,
    pub(super) forwarded: u64,
    /// looked up in a reduction cache,
    pub(super) lookups: u64,
    /// and found there.
    pub(super) hits: u64,
}

impl MessageCounters {
    pub(super) fn from_runtime<S>(am: &ActiveMessages<S>) -> Self {
        am.statistics().iter().fold(Self::default(), |sum, of_type| {
            let TypeStatistics { sent, forwarded, cache_lookups: lookups, combined: hits, .. } = *of_type;
            sum + Self { sent, forwarded, lookups, hits }
        })
    }
}

impl Add for MessageCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            forwarded: self.forwarded + other.forwarded,
            lookups: self.lookups + other.lookups,
            hits: self.hits + other.hits,
        }
    }
}

/// Runs something after a barrier and returns this rank's time.
pub(super) fn timed<T>(world: &Comm, what: impl FnOnce() -> treepie::Result<T>) -> anyhow::Result<(T, Duration)> {
    world.barrier()?;
    let start = Instant::now();
    let result = what()?;
    Ok((result, start.elapsed()))
}

/// The measurement of a case, on rank 0.
struct Measurement {
    /// Microseconds per operation, one for each batch.
    times: Vec<f64>,
    /// Checksum of the data sent in the first batch.
    sent: u64,
    /// Summed over all ranks.
    counters: MessageCounters,
}

/// Measures each case; adjacent cases of the same task alternate.
fn measure(world: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Measurement>> {
    let mut measured = Vec::new();
    for group in cases.chunk_by(|a, b| a.task == b.task) {
        measured.extend(measure_group(world, group).with_context(|| group[0].task.to_string())?);
    }
    Ok(measured)
}

fn measure_group(world: &Comm, group: &[Case]) -> anyhow::Result<Vec<Measurement>> {
    let task = &group[0].task;
    let mut programs: Box<dyn Programs> = match task.kind {
        TaskKind::Update => Box::new(RandomUpdates::new(world, group)?),
        TaskKind::Gather => Box::new(IndexGather::new(world, group)?),
        TaskKind::Ping => Box::new(PingPong::new(world, group)?),
        TaskKind::Epoch => Box::new(Epochs::new(world, group)?),
    };
    let operations = match task.kind {
        TaskKind::Update | TaskKind::Gather => task.count * world.size(),
        TaskKind::Ping | TaskKind::Epoch => task.count,
    };
    let mut turn = 0;
    let mut sent = vec![0; group.len()];
    let turns = batches::repeat_several(world, task.batches, group.len() as u32, || {
        let mut times = vec![0.0; group.len()];
        for program in batches::balanced_order(turn, group.len()) {
            let time = programs.run_batch(program, turn).with_context(|| group[program].to_string())?;
            times[program] = batches::max_time(world, time.as_secs_f64() * 1e6)? / operations as f64;
            let checksum = programs.check(program, turn).with_context(|| group[program].to_string())?;
            if turn == 0 {
                sent[program] = checksum;
            }
        }
        turn += 1;
        Ok(times)
    })?;
    let measurement = |program: usize| {
        let MessageCounters { sent: messages, forwarded, lookups, hits } = programs.counters(program);
        let sums = world.allreduce(&[messages, forwarded, lookups, hits], Sum)?;
        let counters = MessageCounters { sent: sums[0], forwarded: sums[1], lookups: sums[2], hits: sums[3] };
        Ok(Measurement { times: turns.iter().map(|times| times[program]).collect(), sent: sent[program], counters })
    };
    (0..group.len()).map(measurement).collect()
}

/// Prints the common lines; then, for each case, its message counters, and for each task the checksum of its first
/// batch.
fn print(world: &Comm, cases: &[Case], measured: &[Measurement]) -> anyhow::Result<()> {
    let times: Vec<Vec<f64>> = measured.iter().map(|measured| measured.times.clone()).collect();
    output::print(world.engine(), cases, &times)?;
    let mut out = std::io::stdout().lock();
    for (case, Measurement { counters, .. }) in cases.iter().zip(measured) {
        let MessageCounters { sent, forwarded, lookups, hits } = counters;
        writeln!(out, "about {case} {sent} {forwarded} {lookups} {hits}")?;
    }
    let all: Vec<(&Case, &Measurement)> = cases.iter().zip(measured).collect();
    for group in all.chunk_by(|(a, _), (b, _)| a.task == b.task) {
        // Programs with skewed keys send other data.
        let mut uniform = group.iter().filter(|(case, _)| case.program.keys == Keys::Uniform);
        let Some((case, Measurement { sent, .. })) = uniform.next() else { continue };
        ensure!(uniform.all(|(_, other)| other.sent == *sent), "not all programs of {} sent the same", case.task);
        writeln!(out, "sent {} {sent}", case.task)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ranks: usize, texts: &[&str]) -> Vec<Measurement> {
        let cases: Vec<Case> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut all = treepie::launch(ranks, |world| Ok(measure(&world, &cases).unwrap())).unwrap();
        let first = all.swap_remove(0);
        for (case, Measurement { times, .. }) in cases.iter().zip(&first) {
            assert_eq!(times.len(), case.task.batches, "{case}");
            assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
        }
        first
    }

    #[test]
    fn every_handler_is_measured_and_checked() {
        let forms = ["one", "touch", "batch", "empty", "combine", "one-huge", "touch-huge", "touch/work=20"];
        let forms = forms.map(|form| format!("update:64:1000:2@{form}"));
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        for ranks in [1, 2, 4] {
            let first = measured(ranks, &forms);
            let sent: Vec<u64> = first.iter().map(|measured| measured.sent).collect();
            assert!(sent[0] > 0 && sent.iter().all(|other| *other == sent[0]), "{sent:?}");
            assert!(first.iter().all(|measured| measured.counters.sent == 3 * 1000 * ranks as u64));
        }
    }

    #[test]
    fn a_plain_loop_does_the_same_updates() {
        let alone = measured(1, &["update:64:1000:2@one", "update:64:1000:2@local"]);
        assert_eq!(alone[0].sent, alone[1].sent);
    }

    #[test]
    fn gathers_pings_and_epochs_are_measured() {
        for ranks in [1, 2, 4] {
            let texts = ["gather:64:1000:2@touch", "epoch:1:10:2@one", "ping:1:10:2@one"];
            measured(ranks, if ranks == 1 { &texts[..2] } else { &texts });
        }
    }

    #[test]
    fn forwards_lookups_and_hits_are_counted() {
        let texts = [
            "update:64:1000:2@touch",
            "update:64:1000:2@touch/routing=rook",
            "update:64:1000:2@touch/routing=hypercube",
            "update:64:1000:2@combine/reductions=off",
            "update:64:1000:2@combine/reductions=64",
            "update:64:1000:2@combine/skewed/reductions=64",
        ];
        let counted: Vec<MessageCounters> = measured(4, &texts).iter().map(|measured| measured.counters).collect();
        assert_eq!(counted[0].forwarded, 0);
        // One of four destinations is two hops away.
        for routed in &counted[1..3] {
            let share = routed.forwarded as f64 / routed.sent as f64;
            assert!((0.2..0.3).contains(&share), "{counted:?}");
        }
        assert_eq!((counted[3].lookups, counted[3].hits), (0, 0));
        assert!(counted[4].lookups > 0 && counted[4].hits > 0, "{counted:?}");
        assert!(counted[5].hits > counted[4].hits, "{counted:?}");
    }
}
