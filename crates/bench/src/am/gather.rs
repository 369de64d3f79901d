//! Index-gather: each rank requests words of a table distributed over all ranks, and stores the replies.

use std::iter::Take;
use std::time::Duration;

use anyhow::ensure;
use treepie::am::{ActiveMessages, Call};
use treepie::{Comm, HugeArray, Sum};

use super::rank::{AmCase, MessageCounters, Programs, timed};
use super::stream::{Stream, Tables};
use super::task::Program;

/// A rank's part of the table, and a slot for each reply.
struct GatherState {
    table: HugeArray<u64>,
    replies: HugeArray<u64>,
}

pub(super) struct IndexGather {
    world: Comm,
    count: usize,
    tables: Tables,
    words: GatherState,
    programs: Vec<RunningProgram>,
}

struct RunningProgram {
    am: ActiveMessages<GatherState>,
    get: Call<u32, u64>,
}

impl IndexGather {
    pub(super) fn new(world: &Comm, group: &[AmCase]) -> anyhow::Result<Self> {
        let AmCase { task, count, .. } = group[0];
        let tables = Tables { ranks: world.size(), words: task.words };
        let (mut table, mut replies) = (HugeArray::zeroed_base_pages(task.words), HugeArray::zeroed_base_pages(count));
        // First touch, so that the pages exist.
        replies.fill(0);
        for (at, word) in table.iter_mut().enumerate() {
            *word = tables.checksum_weight(world.rank(), at);
        }
        let words = GatherState { table, replies };
        let programs = group.iter().map(|case| start(world, &case.program)).collect::<anyhow::Result<_>>()?;
        Ok(Self { world: world.clone(), count, tables, words, programs })
    }

    fn stream(&self, turn: usize) -> Take<Stream> {
        Stream::new(self.tables, self.world.rank(), turn).take(self.count)
    }
}

fn start(world: &Comm, program: &Program) -> anyhow::Result<RunningProgram> {
    let mut build = ActiveMessages::<GatherState>::builder(world);
    let get: Call<u32, u64> = build.call("get");
    build.on_call_prefetch(
        get,
        |words: &GatherState, at: &u32| &words.table[*at as usize],
        |words: &mut GatherState, _, at: u32| words.table[at as usize],
        |words: &mut GatherState, _, slot: u32, word: u64| words.replies[slot as usize] = word,
    );
    build.configure(get, program.config.clone());
    Ok(RunningProgram { am: build.start()?, get })
}

impl Programs for IndexGather {
    fn run_batch(&mut self, program: usize, turn: usize) -> anyhow::Result<Duration> {
        let requests = (0u32..).zip(self.stream(turn));
        let RunningProgram { am, get } = &mut self.programs[program];
        let get = *get;
        let words = &mut self.words;
        let (_, time) = timed(&self.world, || {
            am.epoch_for(words, requests, |cx, _, (slot, (to, m))| cx.call(get, to, slot, m.index))
        })?;
        Ok(time)
    }

    fn check(&mut self, _: usize, turn: usize) -> anyhow::Result<u64> {
        let stream = self.stream(turn);
        let mut sum = 0u64;
        for ((owner, m), reply) in stream.zip(self.words.replies.iter_mut()) {
            let right = self.tables.checksum_weight(owner, m.index as usize);
            // Cleared, so that a missing reply is detected next time.
            ensure!(std::mem::take(reply) == right, "a reply does not match its request");
            sum = sum.wrapping_add(right);
        }
        Ok(self.world.allreduce(&[sum], Sum)?[0])
    }

    fn counters(&self, program: usize) -> MessageCounters {
        MessageCounters::from_runtime(&self.programs[program].am)
    }
}
