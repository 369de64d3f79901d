//! Latencies: ping-pong of a message, and empty epochs.

use std::time::Duration;

use anyhow::ensure;
use treepie::Comm;
use treepie::am::{ActiveMessages, Port};

use super::rank::{AmCase, MessageCounters, Programs, timed};
use super::task::HandlerKind;

/// Ping-pong between ranks 0 and 1: their handlers return one message until the count is reached.
pub(super) struct PingPong {
    world: Comm,
    count: usize,
    programs: Vec<(ActiveMessages<u64>, Port<u64>)>,
    /// Messages received here; the state of the handlers.
    received: u64,
}

impl PingPong {
    pub(super) fn new(world: &Comm, group: &[AmCase]) -> anyhow::Result<Self> {
        ensure!(world.size() > 1, "ping needs at least two ranks");
        let start = |case: &AmCase| {
            let mut build = ActiveMessages::<u64>::builder(world);
            let ping = build.port("ping");
            build.on(ping, move |received: &mut u64, cx, left: u64| {
                *received += 1;
                if left > 0 {
                    cx.send(ping, 1 - cx.rank(), left - 1);
                }
            });
            build.configure(ping, case.program.config.clone());
            Ok((build.start()?, ping))
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { world: world.clone(), count: group[0].count, programs, received: 0 })
    }
}

impl Programs for PingPong {
    fn run_batch(&mut self, program: usize, _: usize) -> anyhow::Result<Duration> {
        let (am, ping) = &mut self.programs[program];
        let ping = *ping;
        let first = (self.world.rank() == 0).then_some(self.count as u64 - 1);
        let received = &mut self.received;
        let (_, time) = timed(&self.world, || am.epoch_for(received, first, |cx, _, left| cx.send(ping, 1, left)))?;
        Ok(time)
    }

    fn check(&mut self, _: usize, _: usize) -> anyhow::Result<u64> {
        let count = self.count as u64;
        let right = [count / 2, count.div_ceil(2)].get(self.world.rank()).copied().unwrap_or(0);
        let received = std::mem::take(&mut self.received);
        ensure!(received == right, "received {received} messages instead of {right}");
        Ok(0)
    }

    fn counters(&self, program: usize) -> MessageCounters {
        MessageCounters::from_runtime(&self.programs[program].0)
    }
}

/// Epochs back to back.
pub(super) struct Epochs {
    world: Comm,
    count: usize,
    /// Each with what a rank adds to the epoch's sum: 0 for an empty epoch.
    programs: Vec<(ActiveMessages<()>, u64)>,
    /// Sum over all epochs of a batch.
    sum: u64,
}

impl Epochs {
    pub(super) fn new(world: &Comm, group: &[AmCase]) -> anyhow::Result<Self> {
        let start = |case: &AmCase| {
            let mut build = ActiveMessages::<()>::builder(world);
            let nothing = build.port("nothing");
            build.on(nothing, |(), _, _: u64| ());
            build.configure(nothing, case.program.config.clone());
            Ok((build.start()?, u64::from(case.program.handler != HandlerKind::Empty)))
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { world: world.clone(), count: group[0].count, programs, sum: 0 })
    }
}

impl Programs for Epochs {
    fn run_batch(&mut self, program: usize, _: usize) -> anyhow::Result<Duration> {
        let (am, adds) = &mut self.programs[program];
        let (sum, time) = timed(&self.world, || {
            (0..self.count).try_fold(0, |sum, _| {
                Ok(sum
                    + am.epoch(&mut (), |epoch| {
                        epoch.context().add_to_sum(*adds);
                        Ok(())
                    })?)
            })
        })?;
        self.sum = sum;
        Ok(time)
    }

    fn check(&mut self, program: usize, _: usize) -> anyhow::Result<u64> {
        let right = self.programs[program].1 * (self.count * self.world.size()) as u64;
        ensure!(self.sum == right, "epochs summed up to {} instead of {right}", self.sum);
        Ok(0)
    }

    fn counters(&self, program: usize) -> MessageCounters {
        MessageCounters::from_runtime(&self.programs[program].0)
    }
}
