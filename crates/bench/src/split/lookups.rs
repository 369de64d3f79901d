//! Cost of lookups in a distributed rank table, and the hit rate of the cache.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use treepie::{Comm, Rank};
use treepie_comm::split::SplitAlgorithm;

use crate::harness::launch::on_threads;
use crate::harness::statistics::median;
use crate::record::{Better, Record, Records};

/// Threads; more than a cache has entries.
const RANKS: u32 = 128;

/// Ranks that hold a table.
const SORTERS: u32 = 8;

/// Rounds of each communication pattern.
const ROUNDS: usize = 50;

/// Batches, and lookups per batch.
const BATCHES: usize = 31;
const BATCH: usize = 4096;

/// The measurements of a rank.
#[derive(Clone, Copy, Default)]
struct LookupTimes {
    /// Nanoseconds of a lookup that hits the cache, of one that mostly misses, and of the world's formula.
    cached: f64,
    remote: f64,
    /// Miss ratio of the second kind.
    miss_ratio: f64,
    formula: f64,
    /// Cache hits and misses, of a stencil and of recursive doubling.
    stencil: (u64, u64),
    doubling: (u64, u64),
}

/// Measures on threads of this machine.
pub(super) fn run(records: &mut Records) -> anyhow::Result<()> {
    let all = on_threads(RANKS, measure)?;
    let first = all[0];
    let sum = |of: fn(&LookupTimes) -> (u64, u64)| {
        all.iter().map(of).fold((0, 0), |(hits, misses), (more, others)| (hits + more, misses + others))
    };
    say!("Lookups in a table distributed over {SORTERS} of {RANKS} threads; medians of {BATCHES} batches of {BATCH}");
    say!("  cached                        {:>8.1} ns  (target: under 20)", first.cached);
    let missed = 100.0 * first.miss_ratio;
    say!("  remote                        {:>8.1} ns  ({missed:.0} % cache misses)", first.remote);
    say!("  formula, for comparison       {:>8.1} ns", first.formula);
    say!("Communication patterns with a cache of 64 entries, {ROUNDS} rounds, all ranks together");
    for (name, (hits, misses)) in [("stencil", sum(|times| times.stencil)), ("doubling", sum(|times| times.doubling))] {
        let rate = 100.0 * hits as f64 / (hits + misses) as f64;
        let each = misses as f64 / f64::from(RANKS);
        say!(
            "  {name:<9} {hits:>8} of {:>8} lookups from the cache: {rate:.2} %, {each:.1} gets per rank",
            hits + misses
        );
    }
    for (case, value) in [("cached", first.cached), ("remote", first.remote)] {
        let case = format!("split/look-up/{case}");
        let record = Record::measured(case, "threads", RANKS, &[value], ("ns", Better::Low));
        records.write(&Record { samples: BATCHES, ..record })?;
    }
    Ok(())
}

fn measure(world: &Comm) -> anyhow::Result<LookupTimes> {
    let comm = shuffled(world)?;
    let mut times = LookupTimes::default();
    if world.rank() == 0 {
        let few: Vec<Rank> = (1..17).collect();
        let all: Vec<Rank> = (0..comm.size()).filter(|rank| *rank != comm.rank()).collect();
        times.cached = time_lookups(&comm, world, &few)?;
        let before = comm.rank_table_lookups();
        times.remote = time_lookups(&comm, world, &all)?;
        let (hits, misses) = comm.rank_table_lookups();
        times.miss_ratio = (misses - before.1) as f64 / (hits - before.0 + misses - before.1) as f64;
        times.formula = time_lookups(world, world, &all)?;
    }
    world.barrier()?;
    times.stencil = count_lookups(world, |rank, size| {
        // A periodic plane, as square as a power of two of ranks permits.
        let wide = 1 << (size.ilog2() / 2);
        let (row, column) = (rank / wide, rank % wide);
        let rows = size / wide;
        let at = |row: usize, column: usize| row % rows * wide + column % wide;
        vec![(at(row + 1, column), at(row + rows - 1, column)), (at(row, column + 1), at(row, column + wide - 1))]
    })?;
    times.doubling = count_lookups(world, |rank, size| {
        (0..size.ilog2()).map(|step| (rank ^ 1 << step, rank ^ 1 << step)).collect()
    })?;
    Ok(times)
}

/// All ranks in an order without a formula.
fn shuffled(world: &Comm) -> anyhow::Result<Comm> {
    let key = (world.rank() as u32).wrapping_mul(0x9e37_79b1) >> 1;
    let algorithm = SplitAlgorithm::Distributed { sorters: SORTERS }.to_string();
    world.with_algorithm(&algorithm)?.split(0, key as i32)?.context("every rank has a color")
}

/// The median time to translate one of these ranks to the world.
fn time_lookups(comm: &Comm, world: &Comm, ranks: &[Rank]) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    let ranks: Vec<Rank> = ranks.iter().copied().cycle().take(BATCH).collect();
    for batch in 0..=BATCHES {
        let start = Instant::now();
        for rank in &ranks {
            black_box(comm.translate_rank(black_box(*rank), world)?);
        }
        // The first batch fills the cache.
        if batch > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
        }
    }
    Ok(median(&times))
}

/// Exchanges messages with these partners repeatedly, over a new table. Returns cache hits and misses.
fn count_lookups(world: &Comm, partners: impl Fn(Rank, usize) -> Vec<(Rank, Rank)>) -> anyhow::Result<(u64, u64)> {
    let comm = shuffled(world)?;
    let partners = partners(comm.rank(), comm.size());
    for _ in 0..ROUNDS {
        for (to, from) in &partners {
            comm.sendrecv(&[comm.rank()], *to, 0, &mut [0usize], *from, 0)?;
        }
    }
    Ok(comm.rank_table_lookups())
}
