//! RandomAccess among the ranks of a world. `peer.c` does the same with MPI; keep both in step.

use std::time::Duration;

use anyhow::ensure;
use treepie::Comm;
use treepie::randomaccess::{Run, RunResult};

use super::task::{Program, Task};
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

    /// The parts of an update, in nanoseconds of a rank.
    fn describe(&self, group: &[RandomAccessCase]) -> anyhow::Result<Vec<String>> {
        let line = |(case, (run, last)): (&RandomAccessCase, &(Run, Option<RunResult>))| {
            let parts = last.as_ref().and_then(RunResult::parts);
            let parts = parts.map_or_else(String::new, |parts| parts.map(|part| format!(" {part:.3}")).concat());
            format!("about {case} {}{parts}", run.algorithm())
        };
        Ok(group.iter().zip(&self.runs).map(line).collect())
    }
}
