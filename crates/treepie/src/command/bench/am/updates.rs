//! Random updates: each rank adds to words of tables that are spread over all ranks.

use std::time::Duration;

use anyhow::ensure;
use treepie::am::{ActiveMessages, Builder, Port};
use treepie::{Comm, Rank, Sum, Table};

use super::case::{Case, Form, Program, Task};
use super::rank::{Counted, Programs, timed};
use super::stream::{Keys, Stream, Tables, Update};
use super::work::Work;

/// The part of the tables that a rank has, which is the state of handlers.
pub(super) struct Histogram {
    words: Table<u64>,
    /// Updates of which nothing else is left.
    handled: u64,
}

impl Histogram {
    fn new(mut words: Table<u64>) -> Self {
        // Written once, so that the pages exist.
        words.fill(0);
        Self { words, handled: 0 }
    }

    #[inline]
    fn word(&self, update: &Update) -> &u64 {
        &self.words[update.at as usize]
    }

    #[inline]
    fn add(&mut self, update: Update) {
        self.words[update.at as usize] += u64::from(update.by);
    }
}

pub(super) struct Updates<'a> {
    world: &'a Comm,
    task: Task,
    tables: Tables,
    /// One on plain pages and one on huge ones, if there are programs for it. Programs share them, so that none has better
    /// memory than others.
    histograms: [Option<Histogram>; 2],
    /// What was added to them by all ranks, each by its place.
    added: [u64; 2],
    programs: Vec<Running>,
}

struct Running {
    program: Program,
    /// Unless it sends no messages.
    messages: Option<(ActiveMessages<Histogram>, Port<Update>)>,
}

impl<'a> Updates<'a> {
    pub(super) fn new(world: &'a Comm, group: &[Case]) -> anyhow::Result<Self> {
        let task = group[0].task;
        let has = |huge| group.iter().any(|case| case.program.huge == huge);
        let histograms = [
            has(false).then(|| Histogram::new(Table::plain(task.words))),
            has(true).then(|| Histogram::new(Table::zeroed(task.words))),
        ];
        let start = |case: &Case| {
            let program = case.program.clone();
            let messages = (program.form != Form::Local).then(|| start(world, &program)).transpose()?;
            Ok(Running { program, messages })
        };
        let programs = group.iter().map(start).collect::<anyhow::Result<_>>()?;
        let tables = Tables { ranks: world.size(), words: task.words };
        Ok(Self { world, task, tables, histograms, added: [0; 2], programs })
    }

    fn stream(&self, turn: usize) -> Stream {
        Stream::new(self.tables, self.world.rank(), turn)
    }
}

/// Registers the handler that a user would write.
fn start(world: &Comm, program: &Program) -> anyhow::Result<(ActiveMessages<Histogram>, Port<Update>)> {
    let mut build = ActiveMessages::<Histogram>::builder(world);
    let update = build.port("update");
    match program.form {
        Form::One | Form::Local => {
            build.on(update, |histogram: &mut Histogram, _, m: Update| histogram.add(m));
        }
        Form::Touch => touch(&mut build, update, program.work),
        Form::Combine => {
            touch(&mut build, update, program.work);
            build.combine(update, |m: &Update| u64::from(m.at), |into: &mut Update, m: &Update| into.by += m.by);
        }
        Form::Batch => {
            build.on_batch(update, |histogram: &mut Histogram, _, ms: &[Update]| {
                for m in ms {
                    histogram.add(*m);
                }
            });
        }
        Form::Empty => {
            build.on_batch(update, |histogram: &mut Histogram, _, ms: &[Update]| histogram.handled += ms.len() as u64);
        }
    }
    build.configure(update, program.config.clone());
    Ok((build.start()?, update))
}

fn touch(build: &mut Builder<Histogram>, update: Port<Update>, work: u32) {
    if work == 0 {
        build.on_touch(update, Histogram::word, |histogram, _, m| histogram.add(m));
        return;
    }
    let work = Work::of(work);
    build.on_touch(update, Histogram::word, move |histogram, _, m| {
        work.go(m.by);
        histogram.add(m);
    });
}

impl Running {
    /// All updates, in an epoch or in a plain loop.
    fn go(&mut self, words: &mut Histogram, stream: impl Iterator<Item = (Rank, Update)>) -> treepie::Result<()> {
        let Some((am, update)) = &mut self.messages else {
            stream.for_each(|(_, m)| words.add(m));
            return Ok(());
        };
        let update = *update;
        am.epoch_for(words, stream, |cx, _, (to, m)| cx.send(update, to, m)).map(drop)
    }
}

/// What is added to all tables, each by its place.
fn sum(tables: Tables, stream: impl Iterator<Item = (Rank, Update)>) -> u64 {
    stream
        .fold(0, |sum, (owner, m)| sum.wrapping_add(tables.weight(owner, m.at as usize).wrapping_mul(u64::from(m.by))))
}

impl Programs for Updates<'_> {
    fn batch(&mut self, place: usize, turn: usize) -> anyhow::Result<Duration> {
        let (stream, count) = (self.stream(turn), self.task.count);
        let running = &mut self.programs[place];
        let words = self.histograms[usize::from(running.program.huge)].as_mut().expect("there is one for each program");
        let ((), time) = timed(self.world, || match running.program.keys {
            Keys::Uniform => running.go(words, stream.take(count)),
            Keys::Skewed => running.go(words, stream.skewed().take(count)),
        })?;
        Ok(time)
    }

    fn check(&mut self, place: usize, turn: usize) -> anyhow::Result<u64> {
        let program = &self.programs[place].program;
        let (huge, is_empty) = (usize::from(program.huge), program.form == Form::Empty);
        let (stream, count) = (self.stream(turn), self.task.count);
        let sent = match program.keys {
            Keys::Uniform => sum(self.tables, stream.take(count)),
            Keys::Skewed => sum(self.tables, stream.skewed().take(count)),
        };
        let me = self.world.rank();
        let histogram = self.histograms[huge].as_mut().expect("there is one for each program");
        let come = histogram
            .words
            .iter()
            .enumerate()
            .fold(0u64, |sum, (at, word)| sum.wrapping_add(self.tables.weight(me, at).wrapping_mul(*word)));
        let handled = std::mem::take(&mut histogram.handled);
        let sums = self.world.all_reduce(&[sent, come, handled], Sum)?;
        if is_empty {
            let all = (self.task.count * self.tables.ranks) as u64;
            ensure!(sums[2] == all, "{} updates arrived instead of {all}", sums[2]);
        } else {
            self.added[huge] = self.added[huge].wrapping_add(sums[0]);
        }
        ensure!(sums[1] == self.added[huge], "other updates arrived than were sent");
        Ok(sums[0])
    }

    fn counted(&self, place: usize) -> Counted {
        let Some((am, _)) = &self.programs[place].messages else { return Counted::default() };
        Counted::of(am)
    }
}
