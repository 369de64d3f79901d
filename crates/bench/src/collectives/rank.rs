//! Measures collective operations among the ranks of a world. `collectives_peer.c` makes the same calls with MPI; keep
//! both in step.
//!
//! The first operation of a batch is not timed. With `apart`, a barrier precedes each operation, and each is timed
//! alone. With `stream`, there is a barrier only before the batch, so a rank may run ahead as far as the operation
//! permits. The time of the slowest rank counts.
//! The root of broadcasts rotates: those of one root would be pipelined through the buffers, and measure the buffers.
//! In every operation the first and last word of each input block carry the number of the operation; the result of the
//! last operation of a batch is checked.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use treepie::{Comm, Sum};

use super::super::{batches, output};
use super::case::{Case, Operation, TimingMode, WORD_BYTES};

/// One rank of the collective benchmark.
#[derive(clap::Args)]
pub struct CollectivesRank {
    /// Launch a world of this number of threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    /// Use this algorithm for its operation.
    #[arg(long, value_name = "ID")]
    algorithm: Option<String>,
    cases: Vec<Case>,
}

impl CollectivesRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        batches::on_ranks(self.threads, |world| {
            let comm = match &self.algorithm {
                Some(id) => world.with_algorithm(id)?,
                None => world,
            };
            let times = measure(&comm, &self.cases)?;
            if comm.rank() == 0 { output::print(comm.engine(), &self.cases, &times) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Measures each case. Rank 0 returns microseconds per operation, one for each batch; the others return none.
fn measure(comm: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
    let layouts: Vec<BufferLayout> =
        cases.iter().map(|case| BufferLayout::new(case, comm.rank(), comm.size())).collect();
    // The same memory for all cases; first touch, so that the pages exist.
    let memory = |words: fn(&BufferLayout) -> usize| vec![1.0; layouts.iter().map(words).max().unwrap_or(0)];
    let mut rank = Rank {
        comm,
        input: memory(|layout| layout.input_len),
        output: memory(|layout| layout.output_len),
        sequence: 0.0,
    };
    let measured = cases.iter().zip(&layouts).map(|(case, layout)| {
        rank.prepare(case, layout);
        batches::repeat(comm, case.batches, || rank.batch(case, layout))
    });
    measured.collect()
}

/// The buffers of a case on a rank, in words.
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
    fn new(case: &Case, rank: usize, ranks: usize) -> Self {
        let words = case.bytes / WORD_BYTES;
        let counts: Vec<usize> = (0..ranks).map(|rank| words / ranks + usize::from(rank < words % ranks)).collect();
        let origin = counts[..rank].iter().sum();
        let (input_len, output_len, blocks, block, origin) = match case.operation {
            Operation::Bcast => (words, 0, 1, words, 0),
            Operation::Allgather => (words, ranks * words, ranks, words, 0),
            Operation::Allreduce => (words, words, 1, words, 0),
            Operation::ReduceScatter => (words, counts[rank], 1, counts[rank], origin),
            Operation::Alltoall => (ranks * words, ranks * words, ranks, words, rank * words),
            Operation::Barrier => (0, 0, 0, 0, 0),
        };
        let inputs = match case.operation {
            Operation::ReduceScatter => counts.clone(),
            Operation::Alltoall => vec![words; ranks],
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

struct Rank<'a> {
    comm: &'a Comm,
    input: Vec<f64>,
    output: Vec<f64>,
    /// Number of the operation, which the edges of blocks carry beside the rank.
    sequence: f64,
}

/// The value of a word of a rank's input, unless it is at the edge of a block.
fn interior_value(rank: usize, index: usize) -> f64 {
    (rank + index % 1000) as f64
}

impl Rank<'_> {
    /// Writes the input except the edges of its blocks, and invalid values into the result.
    fn prepare(&mut self, case: &Case, layout: &BufferLayout) {
        // The next broadcast sends what this one delivered, so apart from the edges all ranks have the same.
        let rank = if case.operation == Operation::Bcast { 0 } else { self.comm.rank() };
        for (index, word) in self.input[..layout.input_len].iter_mut().enumerate() {
            *word = interior_value(rank, index);
        }
        self.output[..layout.output_len].fill(-1.0);
    }

    /// Microseconds per operation, on rank 0.
    fn batch(&mut self, case: &Case, layout: &BufferLayout) -> anyhow::Result<f64> {
        let time = match case.rule {
            TimingMode::Apart => self.time_individually(case, layout)?,
            TimingMode::Stream => self.time_together(case, layout)?,
        };
        self.check(case, layout)?;
        Ok(batches::max_time(self.comm, time.as_secs_f64() * 1e6)? / case.count as f64)
    }

    /// A barrier before each operation; each is timed alone.
    fn time_individually(&mut self, case: &Case, layout: &BufferLayout) -> anyhow::Result<Duration> {
        let mut total = Duration::ZERO;
        for turn in 0..=case.count {
            self.comm.barrier()?;
            let start = Instant::now();
            self.run_operation(case.operation, layout)?;
            if turn > 0 {
                total += start.elapsed();
            }
        }
        Ok(total)
    }

    /// Operations back to back, timed together.
    fn time_together(&mut self, case: &Case, layout: &BufferLayout) -> anyhow::Result<Duration> {
        self.comm.barrier()?;
        let mut start = Instant::now();
        for turn in 0..=case.count {
            if turn == 1 {
                start = Instant::now();
            }
            self.run_operation(case.operation, layout)?;
        }
        Ok(start.elapsed())
    }

    #[inline]
    fn run_operation(&mut self, operation: Operation, layout: &BufferLayout) -> anyhow::Result<()> {
        let (data, into) = (&mut self.input[..layout.input_len], &mut self.output[..layout.output_len]);
        self.sequence += 1.0;
        let (rank, root) = (self.comm.rank(), self.sequence as usize % self.comm.size());
        if operation != Operation::Bcast || rank == root {
            let edge = rank as f64 + self.sequence;
            for index in &layout.edges {
                data[*index] = edge;
            }
        }
        match operation {
            Operation::Bcast => self.comm.bcast(data, root)?,
            Operation::Allgather => self.comm.allgather_into(data, into)?,
            Operation::Allreduce => self.comm.allreduce_into(data, into, Sum)?,
            Operation::ReduceScatter => self.comm.reduce_scatter(data, &layout.counts, into, Sum)?,
            Operation::Alltoall => self.comm.alltoall(data, into)?,
            Operation::Barrier => self.comm.barrier()?,
        }
        Ok(())
    }

    /// Checks the edges and the middle of each block of the result.
    fn check(&self, case: &Case, layout: &BufferLayout) -> anyhow::Result<()> {
        if layout.block == 0 {
            return Ok(());
        }
        let result = if case.operation == Operation::Bcast { &self.input } else { &self.output };
        let last = layout.block - 1;
        for block in 0..layout.blocks {
            for index in [0, last / 2, last] {
                let is_edge = index == 0 || index == last;
                let word_of = |rank: usize| {
                    if is_edge { rank as f64 + self.sequence } else { interior_value(rank, layout.origin + index) }
                };
                let expected = match case.operation {
                    Operation::Allreduce | Operation::ReduceScatter => (0..self.comm.size()).map(word_of).sum(),
                    Operation::Bcast if is_edge => word_of(self.sequence as usize % self.comm.size()),
                    Operation::Bcast => word_of(0),
                    _ => word_of(block),
                };
                let found = result[block * layout.block + index];
                ensure!(
                    found == expected,
                    "{case}: rank {} has {found} instead of {expected} at index {index} of block {block}",
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

    fn cases(texts: &[&str]) -> Vec<Case> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_operation_is_measured_and_checked() {
        let operations = ["bcast", "allgather", "allreduce", "reduce_scatter", "alltoall", "barrier"];
        let sizes = [0, 8, 16, 40, 8000, 100_000];
        let texts = operations.iter().flat_map(|name| {
            let cases = |rule: &'static str| sizes.map(|bytes| format!("{rule}:{name}:{bytes}:5:2"));
            [cases("apart"), cases("stream")].concat()
        });
        let cases: Vec<Case> = texts.map(|text| text.parse().unwrap()).collect();
        for ranks in [2, 3, 5] {
            let times = treepie::launch(ranks, |world| Ok(measure(&world, &cases).unwrap())).unwrap();
            for (case, times) in cases.iter().zip(&times[0]) {
                assert_eq!(times.len(), case.batches, "{case}");
                assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
            }
            assert!(times[1..].iter().flatten().all(Vec::is_empty));
        }
    }

    #[test]
    fn an_old_or_wrong_result_is_found() {
        let failures = treepie::launch(2, |world| {
            let [case] = cases(&["apart:allgather:24:1:1"])[..] else { unreachable!() };
            let layout = BufferLayout::new(&case, world.rank(), world.size());
            let mut rank = Rank { comm: &world, input: vec![1.0; 3], output: vec![1.0; 6], sequence: 0.0 };
            rank.prepare(&case, &layout);
            rank.run_operation(case.operation, &layout).unwrap();
            rank.check(&case, &layout).unwrap();
            rank.sequence += 1.0;
            let old = rank.check(&case, &layout).unwrap_err();
            rank.sequence -= 1.0;
            rank.output[4] += 1.0;
            Ok((old.to_string(), rank.check(&case, &layout).unwrap_err().to_string()))
        });
        for (rank, (old, wrong)) in failures.unwrap().into_iter().enumerate() {
            assert!(old.contains("has 1 instead of 2 at index 0 of block 0"), "{old}");
            assert!(wrong.contains(&format!("rank {rank} has 3 instead of 2 at index 1 of block 1")), "{wrong}");
        }
    }

    #[test]
    fn reduce_scatter_counts_differ_by_at_most_one_word() {
        let [short, long] = cases(&["apart:reduce_scatter:8:1:1", "apart:reduce_scatter:88:1:1"])[..] else {
            unreachable!()
        };
        assert_eq!(BufferLayout::new(&short, 0, 3).counts, [1, 0, 0]);
        assert_eq!(BufferLayout::new(&short, 0, 3).edges, [0, 0]);
        let layout = BufferLayout::new(&long, 2, 3);
        assert_eq!((layout.counts, layout.edges), (vec![4, 4, 3], vec![0, 3, 4, 7, 8, 10]));
        assert_eq!((layout.input_len, layout.output_len, layout.origin), (11, 3, 8));
    }
}
