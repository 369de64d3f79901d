//! What waits for others: a message that goes to and fro, and epochs in which nothing is sent.

use std::time::Duration;

use anyhow::ensure;
use treepie::Comm;
use treepie::am::{ActiveMessages, Port};

use super::case::{Case, Form};
use super::rank::{Counted, Programs, timed};

/// Ranks 0 and 1 send each other one message, which their handlers send back until it has gone often enough.
pub(super) struct Pings<'a> {
    world: &'a Comm,
    count: usize,
    programs: Vec<(ActiveMessages<u64>, Port<u64>)>,
    /// How many messages came here; the state of handlers.
    came: u64,
}

impl<'a> Pings<'a> {
    pub(super) fn new(world: &'a Comm, group: &[Case]) -> anyhow::Result<Self> {
        ensure!(world.size() > 1, "one rank has nobody to send a message to");
        let start = |case: &Case| {
            let mut build = ActiveMessages::<u64>::builder(world);
            let ping = build.port("ping");
            build.on(ping, move |came: &mut u64, cx, left: u64| {
                *came += 1;
                if left > 0 {
                    cx.send(ping, 1 - cx.rank(), left - 1);
                }
            });
            build.configure(ping, case.program.config.clone());
            Ok((build.start()?, ping))
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { world, count: group[0].task.count, programs, came: 0 })
    }
}

impl Programs for Pings<'_> {
    fn batch(&mut self, place: usize, _: usize) -> anyhow::Result<Duration> {
        let (am, ping) = &mut self.programs[place];
        let ping = *ping;
        let first = (self.world.rank() == 0).then_some(self.count as u64 - 1);
        let came = &mut self.came;
        let (_, time) = timed(self.world, || am.epoch_for(came, first, |cx, _, left| cx.send(ping, 1, left)))?;
        Ok(time)
    }

    fn check(&mut self, _: usize, _: usize) -> anyhow::Result<u64> {
        let count = self.count as u64;
        let right = [count / 2, count.div_ceil(2)].get(self.world.rank()).copied().unwrap_or(0);
        let came = std::mem::take(&mut self.came);
        ensure!(came == right, "{came} messages came instead of {right}");
        Ok(0)
    }

    fn counted(&self, place: usize) -> Counted {
        Counted::of(&self.programs[place].0)
    }
}

/// Epochs back to back.
pub(super) struct Epochs<'a> {
    world: &'a Comm,
    count: usize,
    /// With what each rank adds to the sum: nothing, if the epoch is quite empty.
    programs: Vec<(ActiveMessages<()>, u64)>,
    /// Of all epochs of a batch.
    sum: u64,
}

impl<'a> Epochs<'a> {
    pub(super) fn new(world: &'a Comm, group: &[Case]) -> anyhow::Result<Self> {
        let start = |case: &Case| {
            let mut build = ActiveMessages::<()>::builder(world);
            let nothing = build.port("nothing");
            build.on(nothing, |(), _, _: u64| ());
            build.configure(nothing, case.program.config.clone());
            Ok((build.start()?, u64::from(case.program.form != Form::Empty)))
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { world, count: group[0].task.count, programs, sum: 0 })
    }
}

impl Programs for Epochs<'_> {
    fn batch(&mut self, place: usize, _: usize) -> anyhow::Result<Duration> {
        let (am, adds) = &mut self.programs[place];
        let (sum, time) = timed(self.world, || {
            (0..self.count).try_fold(0, |sum, _| {
                Ok(sum
                    + am.epoch(&mut (), |epoch| {
                        epoch.context().add(*adds);
                        Ok(())
                    })?)
            })
        })?;
        self.sum = sum;
        Ok(time)
    }

    fn check(&mut self, place: usize, _: usize) -> anyhow::Result<u64> {
        let right = self.programs[place].1 * (self.count * self.world.size()) as u64;
        ensure!(self.sum == right, "epochs summed up to {} instead of {right}", self.sum);
        Ok(0)
    }

    fn counted(&self, place: usize) -> Counted {
        Counted::of(&self.programs[place].0)
    }
}
