//! Measures collective operations among the ranks of a world. `collectives_peer.c` does the same with MPI, call for call;
//! whoever changes one changes the other.
//!
//! The first operation of a batch is not timed. By the rule `apart` a barrier goes before each operation, and each is timed
//! alone. By the rule `stream` nobody waits for anybody after the barrier before the batch, so a rank may run ahead as far as
//! the operation lets it. Each rank takes its own time of a batch, and the longest counts.
//! Broadcasts come from one rank after the other, as those of one root would follow each other as fast as buffers take
//! them, and measure the buffers.
//! In every operation the edges of each block of the input carry the number of the operation, and what the last one of a
//! batch brought is compared with what it should.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use treepie::{Comm, Sum};

use super::super::{batches, output};
use super::case::{Case, Operation, Rule, WORD};

/// One rank of the benchmark of collective operations.
#[derive(clap::Args)]
pub(crate) struct CollectivesRank {
    /// Make a world of so many threads instead of joining one.
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
                Some(id) => world.using(id)?,
                None => world,
            };
            let times = measure(&comm, &self.cases)?;
            if comm.rank() == 0 { output::print(comm.engine(), &self.cases, &times) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Measures each case. Rank 0 returns microseconds per operation, one for each batch; the others return nothing.
fn measure(comm: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
    let shapes: Vec<Shape> = cases.iter().map(|case| Shape::of(case, comm.rank(), comm.size())).collect();
    // The same memory for all cases, written once, so that the pages exist.
    let memory = |words: fn(&Shape) -> usize| vec![1.0; shapes.iter().map(words).max().unwrap_or(0)];
    let mut rank = Rank { comm, data: memory(|shape| shape.data), into: memory(|shape| shape.into), turn: 0.0 };
    let measured = cases.iter().zip(&shapes).map(|(case, shape)| {
        rank.prepare(case, shape);
        batches::repeat(comm, case.batches, || rank.batch(case, shape))
    });
    measured.collect()
}

/// What the buffers of a case are on a rank, in words.
struct Shape {
    /// Length of the input, or for a broadcast of the only buffer.
    data: usize,
    /// Length of the result, if it has a buffer of its own.
    into: usize,
    /// Which part of a reduced vector each rank gets.
    counts: Vec<usize>,
    /// First and last word of each block of the input.
    edges: Vec<usize>,
    /// The result: how many blocks of which length, and where in its rank's input the first began.
    blocks: usize,
    block: usize,
    origin: usize,
}

impl Shape {
    fn of(case: &Case, rank: usize, ranks: usize) -> Self {
        let words = case.bytes / WORD;
        let counts: Vec<usize> = (0..ranks).map(|rank| words / ranks + usize::from(rank < words % ranks)).collect();
        let origin = counts[..rank].iter().sum();
        let (data, into, blocks, block, origin) = match case.operation {
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
            _ => vec![data],
        };
        let mut edges = Vec::new();
        let mut begin = 0;
        for count in inputs {
            if count > 0 {
                edges.extend([begin, begin + count - 1]);
            }
            begin += count;
        }
        Self { data, into, counts, edges, blocks, block, origin }
    }
}

struct Rank<'a> {
    comm: &'a Comm,
    data: Vec<f64>,
    into: Vec<f64>,
    /// Number of the operation, which is what edges of blocks have beside the rank.
    turn: f64,
}

/// What a word of a rank's input has, unless it is at the edge of a block.
fn inner(rank: usize, index: usize) -> f64 {
    (rank + index % 1000) as f64
}

impl Rank<'_> {
    /// Writes all of the input but the edges of its blocks, and into all results what they cannot be.
    fn prepare(&mut self, case: &Case, shape: &Shape) {
        // What a broadcast brings is sent on by the next, so apart from the edges all have the same.
        let rank = if case.operation == Operation::Bcast { 0 } else { self.comm.rank() };
        for (index, word) in self.data[..shape.data].iter_mut().enumerate() {
            *word = inner(rank, index);
        }
        self.into[..shape.into].fill(-1.0);
    }

    /// Microseconds per operation, on rank 0.
    fn batch(&mut self, case: &Case, shape: &Shape) -> anyhow::Result<f64> {
        let mine = match case.rule {
            Rule::Apart => self.apart(case, shape)?,
            Rule::Stream => self.stream(case, shape)?,
        };
        self.check(case, shape)?;
        Ok(batches::slowest(self.comm, mine.as_secs_f64() * 1e6)? / case.count as f64)
    }

    /// All wait for each other before each operation, which is timed alone.
    fn apart(&mut self, case: &Case, shape: &Shape) -> anyhow::Result<Duration> {
        let mut mine = Duration::ZERO;
        for turn in 0..=case.count {
            self.comm.barrier()?;
            let begun = Instant::now();
            self.operation(case.operation, shape)?;
            if turn > 0 {
                mine += begun.elapsed();
            }
        }
        Ok(mine)
    }

    /// Nobody waits between operations, which are timed together.
    fn stream(&mut self, case: &Case, shape: &Shape) -> anyhow::Result<Duration> {
        self.comm.barrier()?;
        let mut begun = Instant::now();
        for turn in 0..=case.count {
            if turn == 1 {
                begun = Instant::now();
            }
            self.operation(case.operation, shape)?;
        }
        Ok(begun.elapsed())
    }

    #[inline]
    fn operation(&mut self, operation: Operation, shape: &Shape) -> anyhow::Result<()> {
        let (data, into) = (&mut self.data[..shape.data], &mut self.into[..shape.into]);
        self.turn += 1.0;
        let (rank, root) = (self.comm.rank(), self.turn as usize % self.comm.size());
        if operation != Operation::Bcast || rank == root {
            let edge = rank as f64 + self.turn;
            for index in &shape.edges {
                data[*index] = edge;
            }
        }
        match operation {
            Operation::Bcast => self.comm.bcast(data, root)?,
            Operation::Allgather => self.comm.all_gather_into(data, into)?,
            Operation::Allreduce => self.comm.all_reduce_into(data, into, Sum)?,
            Operation::ReduceScatter => self.comm.reduce_scatterv(data, &shape.counts, into, Sum)?,
            Operation::Alltoall => self.comm.all_to_all(data, into)?,
            Operation::Barrier => self.comm.barrier()?,
        }
        Ok(())
    }

    /// Looks at the edges and the middle of each block of the result.
    fn check(&self, case: &Case, shape: &Shape) -> anyhow::Result<()> {
        if shape.block == 0 {
            return Ok(());
        }
        let result = if case.operation == Operation::Bcast { &self.data } else { &self.into };
        let last = shape.block - 1;
        for block in 0..shape.blocks {
            for place in [0, last / 2, last] {
                let is_edge = place == 0 || place == last;
                let word_of = |rank: usize| {
                    if is_edge { rank as f64 + self.turn } else { inner(rank, shape.origin + place) }
                };
                let expected = match case.operation {
                    Operation::Allreduce | Operation::ReduceScatter => (0..self.comm.size()).map(word_of).sum(),
                    Operation::Bcast if is_edge => word_of(self.turn as usize % self.comm.size()),
                    Operation::Bcast => word_of(0),
                    _ => word_of(block),
                };
                let found = result[block * shape.block + place];
                ensure!(
                    found == expected,
                    "{case}: rank {} has {found} instead of {expected} at place {place} of block {block}",
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
            let times = treepie::launch(ranks, |world| measure(&world, &cases).unwrap()).unwrap();
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
            let shape = Shape::of(&case, world.rank(), world.size());
            let mut rank = Rank { comm: &world, data: vec![1.0; 3], into: vec![1.0; 6], turn: 0.0 };
            rank.prepare(&case, &shape);
            rank.operation(case.operation, &shape).unwrap();
            rank.check(&case, &shape).unwrap();
            rank.turn += 1.0;
            let old = rank.check(&case, &shape).unwrap_err();
            rank.turn -= 1.0;
            rank.into[4] += 1.0;
            (old.to_string(), rank.check(&case, &shape).unwrap_err().to_string())
        });
        for (rank, (old, wrong)) in failures.unwrap().into_iter().enumerate() {
            assert!(old.contains("has 1 instead of 2 at place 0 of block 0"), "{old}");
            assert!(wrong.contains(&format!("rank {rank} has 3 instead of 2 at place 1 of block 1")), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_vector_differ_by_at_most_one_word() {
        let [short, long] = cases(&["apart:reduce_scatter:8:1:1", "apart:reduce_scatter:88:1:1"])[..] else {
            unreachable!()
        };
        assert_eq!(Shape::of(&short, 0, 3).counts, [1, 0, 0]);
        assert_eq!(Shape::of(&short, 0, 3).edges, [0, 0]);
        let shape = Shape::of(&long, 2, 3);
        assert_eq!((shape.counts, shape.edges), (vec![4, 4, 3], vec![0, 3, 4, 7, 8, 10]));
        assert_eq!((shape.data, shape.into, shape.origin), (11, 3, 8));
    }
}
