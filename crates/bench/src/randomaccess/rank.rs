//! RandomAccess among the ranks of a world. `peer.c` does the same with MPI; keep both in step.

use std::time::Duration;

use anyhow::ensure;
use treepie::randomaccess::{Run, RunResult};
use treepie::{Comm, Max};

use super::task::{Program, Task, TaskKind};
use crate::harness::case::Case;
use crate::harness::rank::Benchmark;

type RandomAccessCase = Case<Task, Program>;

/// A rank and its tables.
pub(crate) struct Updates {
    world: Comm,
    runs: Vec<(Run, Option<RunResult>)>,
}

impl Benchmark for Updates {
    type Task = Task;
    type Program = Program;
    const TIMES_SLOWEST_RANK: bool = true;

    fn new(world: &Comm, _: &[RandomAccessCase]) -> anyhow::Result<Self> {
        Ok(Self { world: world.clone(), runs: Vec::new() })
    }

    fn prepare(&mut self, group: &[RandomAccessCase]) -> anyhow::Result<()> {
        // First, as the tables of both may not fit into memory.
        self.runs.clear();
        let prepare = |case: &RandomAccessCase| {
            let updates = (case.count * self.world.size()) as u64;
            Ok((case.program.settings(&case.task, updates).prepare(&self.world)?, None))
        };
        self.runs = group.iter().map(prepare).collect::<treepie::Result<_>>()?;
        Ok(())
    }

    fn batch(&mut self, _: &RandomAccessCase, index: usize, turn: usize) -> anyhow::Result<Duration> {
        let (run, last) = &mut self.runs[index];
        let result = run.update()?;
        let time = result.own_time;
        *last = Some(result);
        if turn % 2 == 1 {
            ensure!(run.changed_words()? == 0, "the same updates twice have changed the table");
        }
        Ok(time)
    }

    fn operations(case: &RandomAccessCase, ranks: usize) -> usize {
        case.count * ranks
    }

    /// The memory's limit and the parts of an update, in nanoseconds of a rank.
    fn describe(&self, group: &[RandomAccessCase]) -> anyhow::Result<Vec<String>> {
        let line = |(case, (run, last)): (&RandomAccessCase, &(Run, Option<RunResult>))| {
            let parts = last.as_ref().and_then(RunResult::parts);
            let parts = parts.map_or_else(String::new, |parts| parts.map(|part| format!(" {part:.3}")).concat());
            Ok(format!("about {case} {} {:.3}{parts}", run.algorithm(), memory_limit(&self.world, case)?))
        };
        // The other group has the same parts.
        let is_shown = |(case, _): &(&RandomAccessCase, _)| case.task.kind == TaskKind::Update;
        group.iter().zip(&self.runs).filter(is_shown).map(line).collect()
    }
}

/// Nanoseconds of a rank per update if all ranks at once make as many updates of tables of their own: what is left without an
/// exchange.
fn memory_limit(world: &Comm, case: &RandomAccessCase) -> anyhow::Result<f64> {
    let own = world.split(world.rank() as u32, 0)?.expect("all ranks have a color");
    let task = Task { words: (case.task.words / world.size()).max(1), ..case.task };
    let program = Program { pages: case.program.pages, ..Program::default() };
    let mut run = program.settings(&task, case.count as u64).prepare(&own)?;
    // The first time the memory is cold.
    run.update()?;
    world.barrier()?;
    let seconds = run.update()?.own_time.as_secs_f64();
    Ok(1e9 * world.allreduce_one(seconds, Max)? / case.count as f64)
}
