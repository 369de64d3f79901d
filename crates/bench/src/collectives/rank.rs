//! Collective operations among the ranks of a world. `peer.c` makes the same calls with MPI; keep both in step.
//!
//! The first operation of a batch is not timed. With `apart`, a barrier precedes each operation, and each is timed
//! alone. With `stream`, there is a barrier only before the batch, so a rank may run ahead as far as the operation
//! permits. The time of the slowest rank counts.
//! The root of broadcasts rotates: those of one root would be pipelined through the buffers, and measure the buffers.
//! With `synchronized`, ranks begin together and rank 0 is the root: without it, a barrier over slow links has ranks
//! begin up to its time apart.
//! In every operation the first and last word of each input block carry the number of the operation; the result of the
//! last operation of a batch is checked.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use treepie::{Comm, Sum};

use super::task::{Call, Operation, Selected, TimingMode, WORD_BYTES};
use crate::harness::rank::{Benchmark, CaseOf, begin_together, time_operations, time_since};

/// A rank and its buffers, which are the same for all cases.
pub(crate) struct Calls {
    comm: Comm,
    /// Handles with algorithms that were asked for.
    selected: HashMap<Selected, Comm>,
    input: Vec<f64>,
    output: Vec<f64>,
    /// That of the current case.
    layout: BufferLayout,
    /// Whether the root rotates.
    rotates: bool,
    /// Number of the operation, which the edges of blocks carry beside the rank.
    sequence: f64,
}

impl Benchmark for Calls {
    type Task = Call;
    type Program = Selected;
    const TIMES_SLOWEST_RANK: bool = true;

    fn new(world: &Comm, cases: &[CaseOf<Self>]) -> anyhow::Result<Self> {
        let layouts: Vec<BufferLayout> = cases.iter().map(|case| BufferLayout::new(&case.task, world)).collect();
        // First touch, so that the pages exist.
        let memory = |words: fn(&BufferLayout) -> usize| vec![1.0; layouts.iter().map(words).max().unwrap_or(0)];
        let (input, output) = (memory(|layout| layout.input_len), memory(|layout| layout.output_len));
        let mut selected = HashMap::new();
        for Selected(id) in cases.iter().map(|case| &case.program) {
            let handle = id.as_ref().map_or_else(|| Ok(world.clone()), |id| world.with_algorithm(id))?;
            selected.insert(Selected(id.clone()), handle);
        }
        let (comm, layout) = (world.clone(), BufferLayout::default());
        Ok(Self { comm, selected, input, output, layout, rotates: true, sequence: 0.0 })
    }

    /// Writes the input except the edges of its blocks, and invalid values into the result.
    fn prepare(&mut self, group: &[CaseOf<Self>]) -> anyhow::Result<()> {
        let task = &group[0].task;
        self.layout = BufferLayout::new(task, &self.comm);
        self.rotates = task.rule != TimingMode::Synchronized;
        // The next broadcast sends what this one delivered, so apart from the edges all ranks have the same.
        let rank = if task.operation == Operation::Bcast { 0 } else { self.comm.rank() };
        for (index, word) in self.input[..self.layout.input_len].iter_mut().enumerate() {
            *word = interior_value(rank, index);
        }
        self.output[..self.layout.output_len].fill(-1.0);
        Ok(())
    }

    /// What the model predicts, where ranks begin together, as in the model.
    fn describe(&self, group: &[CaseOf<Self>]) -> anyhow::Result<Vec<String>> {
        let synchronized = group.iter().filter(|case| case.task.rule == TimingMode::Synchronized);
        synchronized.map(|case| self.describe_prediction(case)).collect()
    }

    fn batch(&mut self, case: &CaseOf<Self>, _: usize, _: usize) -> anyhow::Result<Duration> {
        let operation = case.task.operation;
        let comm = self.selected[&case.program].clone();
        let time = match case.task.rule {
            TimingMode::Apart => self.time_individually(&comm, operation, case.count)?,
            TimingMode::Stream => {
                self.comm.barrier()?;
                time_operations(case.count, |_| self.run_operation(&comm, operation))?
            }
            TimingMode::Synchronized => self.time_synchronized(&comm, operation, case.count)?,
        };
        self.check(operation)?;
        Ok(time)
    }
}

/// The buffers of a case on a rank, in words.
#[derive(Default)]
struct BufferLayout {
    /// Length of the input, or for a broadcast of the only buffer.
    input_len: usize,
    /// Length of the result, unless it is in place.
    output_len: usize,
    /// Receive counts of reduce_scatter.
    counts: Vec<usize>,
    /// First and last word of each input block.
    edges: Vec<usize>,
    /// The result: number and length of its blocks, and the offset of the first in its rank's input.
    blocks: usize,
    block: usize,
    origin: usize,
}

impl BufferLayout {
    fn new(task: &Call, comm: &Comm) -> Self {
        Self::of_rank(task, comm.rank(), comm.size())
    }

    fn of_rank(task: &Call, rank: usize, ranks: usize) -> Self {
        let words = task.bytes / WORD_BYTES;
        let counts: Vec<usize> = (0..ranks).map(|rank| words / ranks + usize::from(rank < words % ranks)).collect();
        let origin = counts[..rank].iter().sum();
        let (input_len, output_len, blocks, block, origin) = match task.operation {
            Operation::Bcast => (words, 0, 1, words, 0),
            Operation::Allgather => (words, ranks * words, ranks, words, 0),
            Operation::Allreduce => (words, words, 1, words, 0),
            Operation::ReduceScatter => (words, counts[rank], 1, counts[rank], origin),
            Operation::Alltoall => (ranks * words, ranks * words, ranks, words, rank * words),
            Operation::Barrier => (0, 0, 0, 0, 0),
            // Any rank may be the root: all have its buffers.
            Operation::Scatter => (ranks * words, words, 1, words, rank * words),
            Operation::Gather => (words, ranks * words, ranks, words, 0),
        };
        let inputs = match task.operation {
            Operation::ReduceScatter => counts.clone(),
            Operation::Alltoall | Operation::Scatter => vec![words; ranks],
            _ => vec![input_len],
        };
        let mut edges = Vec::new();
        let mut begin = 0;
        for count in inputs {
            if count > 0 {
                edges.extend([begin, begin + count - 1]);
            }
            begin += count;
        }
        Self { input_len, output_len, counts, edges, blocks, block, origin }
    }
}

/// The value of a word of a rank's input, unless it is at the edge of a block.
fn interior_value(rank: usize, index: usize) -> f64 {
    (rank + index % 1000) as f64
}

impl Calls {
    /// A barrier before each operation; each is timed alone.
    fn time_individually(&mut self, comm: &Comm, operation: Operation, count: usize) -> anyhow::Result<Duration> {
        let mut total = Duration::ZERO;
        for turn in 0..=count {
            self.comm.barrier()?;
            let start = Instant::now();
            self.run_operation(comm, operation)?;
            if turn > 0 {
                total += start.elapsed();
            }
        }
        Ok(total)
    }

    /// All ranks begin when the machine's clock has reached a time, and their times run from then.
    fn time_synchronized(&mut self, comm: &Comm, operation: Operation, count: usize) -> anyhow::Result<Duration> {
        let mut total = Duration::ZERO;
        for _ in 0..count {
            let start = begin_together(&self.comm)?;
            self.run_operation(comm, operation)?;
            total += time_since(start);
        }
        Ok(total)
    }

    fn describe_prediction(&self, case: &CaseOf<Self>) -> anyhow::Result<String> {
        let Call { operation, bytes, .. } = case.task;
        let modelled = operation.in_model();
        let blocks = if operation.has_blocks() { self.comm.size() } else { 1 };
        let comm = &self.selected[&case.program];
        let (id, time) = comm.prediction(modelled, (bytes * blocks) as u64, WORD_BYTES as u64)?;
        Ok(format!("predicted {case} {id} {}", time.unwrap_or(f64::NAN)))
    }

    /// The root of the current operation.
    fn root(&self) -> usize {
        if self.rotates { self.sequence as usize % self.comm.size() } else { 0 }
    }

    #[inline]
    fn run_operation(&mut self, comm: &Comm, operation: Operation) -> anyhow::Result<()> {
        self.sequence += 1.0;
        let root = self.root();
        let Self { input, output, layout, sequence, .. } = self;
        let (data, into) = (&mut input[..layout.input_len], &mut output[..layout.output_len]);
        let rank = comm.rank();
        if operation != Operation::Bcast || rank == root {
            let edge = rank as f64 + *sequence;
            for index in &layout.edges {
                data[*index] = edge;
            }
        }
        match operation {
            Operation::Bcast => comm.bcast(data, root)?,
            Operation::Allgather => comm.allgather_into(data, into)?,
            Operation::Allreduce => comm.allreduce_into(data, into, Sum)?,
            Operation::ReduceScatter => comm.reduce_scatter(data, &layout.counts, into, Sum)?,
            Operation::Alltoall => comm.alltoall(data, into)?,
            Operation::Barrier => comm.barrier()?,
            Operation::Scatter => comm.scatter(if rank == root { data } else { &[] }, into, root)?,
            Operation::Gather => comm.gather(data, if rank == root { into } else { &mut [] }, root)?,
        }
        Ok(())
    }

    /// Checks the edges and the middle of each block of the result.
    fn check(&self, operation: Operation) -> anyhow::Result<()> {
        let layout = &self.layout;
        let root = self.root();
        if layout.block == 0 || operation == Operation::Gather && self.comm.rank() != root {
            return Ok(());
        }
        let result = if operation == Operation::Bcast { &self.input } else { &self.output };
        let last = layout.block - 1;
        for block in 0..layout.blocks {
            for index in [0, last / 2, last] {
                let is_edge = index == 0 || index == last;
                let word_of = |rank: usize| {
                    if is_edge { rank as f64 + self.sequence } else { interior_value(rank, layout.origin + index) }
                };
                let expected = match operation {
                    Operation::Allreduce | Operation::ReduceScatter => (0..self.comm.size()).map(word_of).sum(),
                    Operation::Bcast | Operation::Scatter if is_edge => word_of(root),
                    Operation::Scatter => word_of(root),
                    Operation::Bcast => word_of(0),
                    _ => word_of(block),
                };
                let found = result[block * layout.block + index];
                ensure!(
                    found == expected,
                    "rank {} has {found} instead of {expected} at index {index} of block {block}",
                    self.comm.rank()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::launch::on_threads;
    use crate::harness::testing::measured;

    #[test]
    fn every_operation_is_measured_and_checked() {
        let operations =
            ["bcast", "allgather", "allreduce", "reduce_scatter", "alltoall", "barrier", "scatter", "gather"];
        let sizes = [0, 8, 16, 40, 8000, 20_000];
        let texts = operations.iter().flat_map(|name| {
            let cases = |rule: &'static str| sizes.map(|bytes| format!("{rule}:{name}:{bytes}:5:2"));
            [cases("apart"), cases("stream"), cases("synchronized")].concat()
        });
        let selected = ["apart:bcast:80:5:2@bcast/chain:segments=2,window=2", "apart:bcast:80:5:2"];
        let texts: Vec<String> = texts.chain(selected.map(str::to_owned)).collect();
        for ranks in [2, 3, 5] {
            measured::<Calls>(ranks, &texts);
        }
    }

    #[test]
    fn an_old_or_wrong_result_is_found() {
        let failures = on_threads(2, |world| {
            let cases: [CaseOf<Calls>; 1] = ["apart:allgather:24:1:1".parse().unwrap()];
            let mut calls = Calls::new(world, &cases)?;
            calls.prepare(&cases)?;
            calls.run_operation(world, Operation::Allgather)?;
            calls.check(Operation::Allgather)?;
            calls.sequence += 1.0;
            let old = calls.check(Operation::Allgather).unwrap_err();
            calls.sequence -= 1.0;
            calls.output[4] += 1.0;
            Ok((old.to_string(), calls.check(Operation::Allgather).unwrap_err().to_string()))
        });
        for (rank, (old, wrong)) in failures.unwrap().into_iter().enumerate() {
            assert!(old.contains("has 1 instead of 2 at index 0 of block 0"), "{old}");
            assert!(wrong.contains(&format!("rank {rank} has 3 instead of 2 at index 1 of block 1")), "{wrong}");
        }
    }

    #[test]
    fn reduce_scatter_counts_differ_by_at_most_one_word() {
        let layout = |text: &str, rank| BufferLayout::of_rank(&text.parse().unwrap(), rank, 3);
        assert_eq!(layout("apart:reduce_scatter:8", 0).counts, [1, 0, 0]);
        assert_eq!(layout("apart:reduce_scatter:8", 0).edges, [0, 0]);
        let layout = layout("apart:reduce_scatter:88", 2);
        assert_eq!((layout.counts, layout.edges), (vec![4, 4, 3], vec![0, 3, 4, 7, 8, 10]));
        assert_eq!((layout.input_len, layout.output_len, layout.origin), (11, 3, 8));
    }
}
