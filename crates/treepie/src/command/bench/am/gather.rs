//! Index-gather: each rank asks for words of tables that are spread over all ranks, and stores the answers.

use std::iter::Take;
use std::time::Duration;

use anyhow::ensure;
use treepie::am::{ActiveMessages, Call};
use treepie::{Comm, Sum, Table};

use super::case::{Case, Program, Task};
use super::rank::{Counted, Programs, timed};
use super::stream::{Stream, Tables};

/// What a rank has: its part of the tables, and a place for each answer.
struct Words {
    table: Table<u64>,
    answers: Table<u64>,
}

pub(super) struct Gathers<'a> {
    world: &'a Comm,
    task: Task,
    tables: Tables,
    words: Words,
    programs: Vec<Running>,
}

struct Running {
    am: ActiveMessages<Words>,
    get: Call<u32, u64>,
}

impl<'a> Gathers<'a> {
    pub(super) fn new(world: &'a Comm, group: &[Case]) -> anyhow::Result<Self> {
        let task = group[0].task;
        let tables = Tables { ranks: world.size(), words: task.words };
        let (mut table, mut answers) = (Table::plain(task.words), Table::plain(task.count));
        // Written once, so that the pages exist.
        answers.fill(0);
        for (at, word) in table.iter_mut().enumerate() {
            *word = tables.weight(world.rank(), at);
        }
        let words = Words { table, answers };
        let programs = group.iter().map(|case| start(world, &case.program)).collect::<anyhow::Result<_>>()?;
        Ok(Self { world, task, tables, words, programs })
    }

    fn stream(&self, turn: usize) -> Take<Stream> {
        Stream::new(self.tables, self.world.rank(), turn).take(self.task.count)
    }
}

fn start(world: &Comm, program: &Program) -> anyhow::Result<Running> {
    let mut build = ActiveMessages::<Words>::builder(world);
    let get: Call<u32, u64> = build.call("get");
    build.on_call_touch(
        get,
        |words: &Words, at: &u32| &words.table[*at as usize],
        |words: &mut Words, _, at: u32| words.table[at as usize],
        |words: &mut Words, _, place: u32, word: u64| words.answers[place as usize] = word,
    );
    build.configure(get, program.config.clone());
    Ok(Running { am: build.start()?, get })
}

impl Programs for Gathers<'_> {
    fn batch(&mut self, place: usize, turn: usize) -> anyhow::Result<Duration> {
        let places = (0u32..).zip(self.stream(turn));
        let Running { am, get } = &mut self.programs[place];
        let get = *get;
        let words = &mut self.words;
        let (_, time) =
            timed(self.world, || am.epoch_for(words, places, |cx, _, (place, (to, m))| cx.call(get, to, place, m.at)))?;
        Ok(time)
    }

    fn check(&mut self, _: usize, turn: usize) -> anyhow::Result<u64> {
        let stream = self.stream(turn);
        let mut sum = 0u64;
        for ((owner, m), answer) in stream.zip(self.words.answers.iter_mut()) {
            let right = self.tables.weight(owner, m.at as usize);
            // An answer that does not come next time shall be seen.
            ensure!(std::mem::take(answer) == right, "another answer came than was asked for");
            sum = sum.wrapping_add(right);
        }
        Ok(self.world.all_reduce(&[sum], Sum)?[0])
    }

    fn counted(&self, place: usize) -> Counted {
        Counted::of(&self.programs[place].am)
    }
}
