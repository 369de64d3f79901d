//! Random updates (GUPS): each rank adds to words of a table distributed over all ranks.

use std::time::Duration;

use anyhow::ensure;
use treepie::am::{ActiveMessages, Builder, Port};
use treepie::{Comm, HugeArray, Rank, Sum};

use super::rank::{AmCase, MessageCounters, Programs, timed};
use super::stream::{Keys, Stream, Tables, Update};
use super::task::{HandlerKind, Program};
use super::work::Work;

/// A rank's part of the table, the state of the handlers.
pub(super) struct Histogram {
    words: HugeArray<u64>,
    /// Updates counted by the empty handler.
    handled: u64,
}

impl Histogram {
    fn new(mut words: HugeArray<u64>) -> Self {
        // First touch, so that the pages exist.
        words.fill(0);
        Self { words, handled: 0 }
    }

    #[inline]
    fn word(&self, update: &Update) -> &u64 {
        &self.words[update.index as usize]
    }

    #[inline]
    fn add(&mut self, update: Update) {
        self.words[update.index as usize] += u64::from(update.addend);
    }
}

pub(super) struct RandomUpdates {
    world: Comm,
    count: usize,
    tables: Tables,
    /// One on base pages and one on huge pages, if a program needs it. Programs share them, so that all have the same
    /// memory.
    histograms: [Option<Histogram>; 2],
    /// Checksums of what all ranks have added to them.
    checksums: [u64; 2],
    programs: Vec<RunningProgram>,
}

struct RunningProgram {
    program: Program,
    /// `None` for the plain loop.
    am: Option<(ActiveMessages<Histogram>, Port<Update>)>,
}

impl RandomUpdates {
    pub(super) fn new(world: &Comm, group: &[AmCase]) -> anyhow::Result<Self> {
        let AmCase { task, count, .. } = group[0];
        let has = |huge| group.iter().any(|case| case.program.huge_pages == huge);
        let histograms = [
            has(false).then(|| Histogram::new(HugeArray::zeroed_base_pages(task.words))),
            has(true).then(|| Histogram::new(HugeArray::zeroed(task.words))),
        ];
        let start = |case: &AmCase| {
            let program = case.program.clone();
            let am = (program.handler != HandlerKind::Local).then(|| start(world, &program)).transpose()?;
            Ok(RunningProgram { program, am })
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        let tables = Tables { ranks: world.size(), words: task.words };
        Ok(Self { world: world.clone(), count, tables, histograms, checksums: [0; 2], programs })
    }

    fn stream(&self, turn: usize) -> Stream {
        Stream::new(self.tables, self.world.rank(), turn)
    }
}

/// Registers the handler that a user would write.
fn start(world: &Comm, program: &Program) -> anyhow::Result<(ActiveMessages<Histogram>, Port<Update>)> {
    let mut build = ActiveMessages::<Histogram>::builder(world);
    let update = build.port("update");
    match program.handler {
        HandlerKind::PerMessage | HandlerKind::Local => {
            build.on(update, |histogram: &mut Histogram, _, m: Update| histogram.add(m));
        }
        HandlerKind::Prefetch => register_prefetching(&mut build, update, program.work),
        HandlerKind::Combine => {
            register_prefetching(&mut build, update, program.work);
            build.combine(
                update,
                |m: &Update| u64::from(m.index),
                |into: &mut Update, m: &Update| into.addend += m.addend,
            );
        }
        HandlerKind::Batch => {
            build.on_batch(update, |histogram: &mut Histogram, _, ms: &[Update]| {
                for m in ms {
                    histogram.add(*m);
                }
            });
        }
        HandlerKind::Empty => {
            build.on_batch(update, |histogram: &mut Histogram, _, ms: &[Update]| histogram.handled += ms.len() as u64);
        }
    }
    build.configure(update, program.config.clone());
    Ok((build.start()?, update))
}

fn register_prefetching(build: &mut Builder<Histogram>, update: Port<Update>, work: u32) {
    if work == 0 {
        build.on_prefetch(update, Histogram::word, |histogram, _, m| histogram.add(m));
        return;
    }
    let work = Work::from_nanos(work);
    build.on_prefetch(update, Histogram::word, move |histogram, _, m| {
        work.run(m.addend);
        histogram.add(m);
    });
}

impl RunningProgram {
    /// Makes all updates, in an epoch or in a plain loop.
    fn run_updates(
        &mut self,
        words: &mut Histogram,
        stream: impl Iterator<Item = (Rank, Update)>,
    ) -> treepie::Result<()> {
        let Some((am, update)) = &mut self.am else {
            stream.for_each(|(_, m)| words.add(m));
            return Ok(());
        };
        let update = *update;
        am.epoch_for(words, stream, |cx, _, (to, m)| cx.send(update, to, m)).map(drop)
    }
}

/// The checksum of the updates of a stream.
fn expected_checksum(tables: Tables, stream: impl Iterator<Item = (Rank, Update)>) -> u64 {
    stream.fold(0, |sum, (owner, m)| {
        sum.wrapping_add(tables.checksum_weight(owner, m.index as usize).wrapping_mul(u64::from(m.addend)))
    })
}

impl Programs for RandomUpdates {
    fn run_batch(&mut self, program: usize, turn: usize) -> anyhow::Result<Duration> {
        let (stream, count) = (self.stream(turn), self.count);
        let running = &mut self.programs[program];
        let words =
            self.histograms[usize::from(running.program.huge_pages)].as_mut().expect("each program has a table");
        let ((), time) = timed(&self.world, || match running.program.keys {
            Keys::Uniform => running.run_updates(words, stream.take(count)),
            Keys::Skewed => running.run_updates(words, stream.skewed().take(count)),
        })?;
        Ok(time)
    }

    fn check(&mut self, program: usize, turn: usize) -> anyhow::Result<u64> {
        let program = &self.programs[program].program;
        let (huge, is_empty) = (usize::from(program.huge_pages), program.handler == HandlerKind::Empty);
        let (stream, count) = (self.stream(turn), self.count);
        let sent = match program.keys {
            Keys::Uniform => expected_checksum(self.tables, stream.take(count)),
            Keys::Skewed => expected_checksum(self.tables, stream.skewed().take(count)),
        };
        let me = self.world.rank();
        let histogram = self.histograms[huge].as_mut().expect("each program has a table");
        let received =
            histogram.words.iter().enumerate().fold(0u64, |sum, (at, word)| {
                sum.wrapping_add(self.tables.checksum_weight(me, at).wrapping_mul(*word))
            });
        let handled = std::mem::take(&mut histogram.handled);
        let sums = self.world.allreduce(&[sent, received, handled], Sum)?;
        if is_empty {
            let all = (self.count * self.tables.ranks) as u64;
            ensure!(sums[2] == all, "{} updates arrived instead of {all}", sums[2]);
        } else {
            self.checksums[huge] = self.checksums[huge].wrapping_add(sums[0]);
        }
        ensure!(sums[1] == self.checksums[huge], "the updates received are not those sent");
        Ok(sums[0])
    }

    fn counters(&self, program: usize) -> MessageCounters {
        let Some((am, _)) = &self.programs[program].am else { return MessageCounters::default() };
        MessageCounters::from_runtime(am)
    }
}
