//! Active messages among the ranks of a world. `peer.c` does the same with MPI in bulk; keep both in step.
//!
//! A batch is an epoch of updates or requests, after a barrier. The time of the slowest rank counts. After a batch, the
//! data received is checked against the data sent.

use std::ops::Add;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use treepie::am::{ActiveMessages, TypeStatistics};
use treepie::{Comm, Sum};

use super::gather::IndexGather;
use super::latency::{Epochs, PingPong};
use super::stream::Keys;
use super::task::{Program, Task, TaskKind};
use super::updates::RandomUpdates;
use crate::harness::case::Case;
use crate::harness::output;
use crate::harness::rank::Benchmark;

pub(super) type AmCase = Case<Task, Program>;

/// A rank and the programs of the current group.
pub(crate) struct AmPrograms {
    world: Comm,
    programs: Option<Box<dyn Programs>>,
    /// Checksums of the data sent in the first batch of each program.
    sent: Vec<u64>,
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

impl Benchmark for AmPrograms {
    type Task = Task;
    type Program = Program;
    const TIMES_SLOWEST_RANK: bool = true;

    fn new(world: &Comm, _: &[AmCase]) -> anyhow::Result<Self> {
        Ok(Self { world: world.clone(), programs: None, sent: Vec::new() })
    }

    fn prepare(&mut self, group: &[AmCase]) -> anyhow::Result<()> {
        // First, as the tables of both may not fit into memory.
        self.programs = None;
        self.programs = Some(match group[0].task.kind {
            TaskKind::Update => Box::new(RandomUpdates::new(&self.world, group)?),
            TaskKind::Gather => Box::new(IndexGather::new(&self.world, group)?),
            TaskKind::Ping => Box::new(PingPong::new(&self.world, group)?),
            TaskKind::Epoch => Box::new(Epochs::new(&self.world, group)?),
        });
        self.sent = vec![0; group.len()];
        Ok(())
    }

    fn batch(&mut self, _: &AmCase, index: usize, turn: usize) -> anyhow::Result<Duration> {
        let programs = self.programs.as_mut().context("they are prepared first")?;
        let time = programs.run_batch(index, turn)?;
        let checksum = programs.check(index, turn)?;
        if turn == 0 {
            self.sent[index] = checksum;
        }
        Ok(time)
    }

    fn operations(case: &AmCase, ranks: usize) -> usize {
        match case.task.kind {
            TaskKind::Update | TaskKind::Gather => case.count * ranks,
            TaskKind::Ping | TaskKind::Epoch => case.count,
        }
    }

    /// For each case, its message counters; for the task, the checksum of its first batch.
    fn describe(&self, group: &[AmCase]) -> anyhow::Result<Vec<String>> {
        let programs = self.programs.as_ref().context("they are prepared first")?;
        let mut lines = Vec::new();
        for (index, case) in group.iter().enumerate() {
            let MessageCounters { sent, forwarded, lookups, hits } = programs.counters(index);
            let sums = self.world.allreduce(&[sent, forwarded, lookups, hits], Sum)?;
            lines.push(format!("about {case} {} {} {} {}", sums[0], sums[1], sums[2], sums[3]));
        }
        // Programs with skewed keys send other data.
        let all = group.iter().zip(&self.sent);
        let mut uniform = all.filter(|(case, _)| case.program.keys == Keys::Uniform);
        if let Some((case, sent)) = uniform.next() {
            ensure!(uniform.all(|(_, other)| other == sent), "not all programs sent the same");
            lines.push(format!("sent {} {sent}", case.of_peer()));
        }
        Ok(lines)
    }
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

    /// Those of a case in the output of a job, summed over ranks.
    pub(super) fn parse(output: &str, case: &str) -> anyhow::Result<Self> {
        let numbers = output::find(output, "about", case)?.map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [sent, forwarded, lookups, hits] = numbers[..] else {
            anyhow::bail!("expected four numbers for {case}: {numbers:?}")
        };
        Ok(Self { sent, forwarded, lookups, hits })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::launch::on_threads;
    use crate::harness::testing::measured;

    /// Measures them and returns the output and the counters.
    fn counted(ranks: u32, texts: &[&str]) -> (String, Vec<MessageCounters>) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let printed = measured::<AmPrograms>(ranks, &texts);
        let counters = texts.iter().map(|text| MessageCounters::parse(&printed, text).unwrap()).collect();
        (printed, counters)
    }

    #[test]
    fn every_handler_is_measured_and_checked() {
        let forms = ["one", "touch", "batch", "empty", "combine", "one-huge", "touch-huge", "touch/work=20"];
        let forms = forms.map(|form| format!("update:64:1000:2@{form}"));
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        for ranks in [1, 2, 4] {
            let (printed, counters) = counted(ranks, &forms);
            // All have sent the same, or there would be an error.
            let sent: Vec<&str> = output::find(&printed, "sent", "update:64:1000:2").unwrap().collect();
            assert!(sent.len() == 1 && sent[0].parse::<u64>().unwrap() > 0, "{sent:?}");
            assert!(counters.iter().all(|counters| counters.sent == 3 * 1000 * u64::from(ranks)));
        }
    }

    #[test]
    fn a_plain_loop_does_the_same_updates() {
        counted(1, &["update:64:1000:2@one", "update:64:1000:2@local"]);
    }

    #[test]
    fn programs_that_send_different_data_are_found() {
        let error = on_threads(1, |world| {
            let cases = ["one", "touch"].map(|program| format!("update:64:1000:2@{program}").parse().unwrap());
            let mut programs = AmPrograms::new(world, &cases)?;
            programs.prepare(&cases)?;
            programs.sent = vec![1, 2];
            Ok(programs.describe(&cases).unwrap_err().to_string())
        });
        assert!(error.unwrap()[0].contains("not all programs"));
    }

    #[test]
    fn gathers_pings_and_epochs_are_measured() {
        for ranks in [1, 2, 4] {
            let texts = ["gather:64:1000:2@touch", "epoch:1:10:2@one", "ping:1:10:2@one"];
            counted(ranks, if ranks == 1 { &texts[..2] } else { &texts });
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
        let (_, counted) = counted(4, &texts);
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
