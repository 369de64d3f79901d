//! What it costs to find a rank in a table that ranks share, and how often the cache has it.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use treepie::{Comm, Rank};
use treepie_comm::split::Way;

use super::super::super::machine;
use super::super::super::record::{Better, Record, Records};
use super::super::statistics::median;

/// Threads that share tables, more than a cache has entries.
const RANKS: u32 = 128;

/// How many share one.
const SORTERS: u32 = 8;

/// How often each pattern is run.
const ROUNDS: usize = 50;

/// Batches of look-ups, and how many are in each.
const BATCHES: usize = 31;
const BATCH: usize = 4096;

/// What a rank has seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Nanoseconds of a look-up that the cache answers, of one that it mostly does not, and of the formula of the world.
    cached: f64,
    remote: f64,
    /// The share of the second kind that the cache did not answer.
    missed: f64,
    formula: f64,
    /// Look-ups from the cache and others, of a stencil and of a doubling.
    stencil: (u64, u64),
    doubling: (u64, u64),
}

/// Measures on threads of this machine.
pub(super) fn run(records: Option<&mut Records>) -> anyhow::Result<()> {
    let all = treepie::launch(RANKS as usize, |world| measure(&world))?;
    let all = all.into_iter().collect::<anyhow::Result<Vec<Seen>>>()?;
    let first = all[0];
    let sum = |of: fn(&Seen) -> (u64, u64)| {
        all.iter().map(of).fold((0, 0), |(hits, misses), (more, others)| (hits + more, misses + others))
    };
    say!("Look-ups in a table that {SORTERS} of {RANKS} threads share; medians of {BATCHES} batches of {BATCH}");
    say!("  from the cache                {:>8.1} ns  (aim: under 20)", first.cached);
    let missed = 100.0 * first.missed;
    say!("  one word of a part            {:>8.1} ns  ({missed:.0} % of these were not in the cache)", first.remote);
    say!("  by a formula, for comparison  {:>8.1} ns", first.formula);
    say!("Messages with a cache of 64 entries, {ROUNDS} rounds, all ranks together");
    for (name, (hits, misses)) in [("stencil", sum(|seen| seen.stencil)), ("doubling", sum(|seen| seen.doubling))] {
        let rate = 100.0 * hits as f64 / (hits + misses) as f64;
        let each = misses as f64 / f64::from(RANKS);
        say!(
            "  {name:<9} {hits:>8} of {:>8} look-ups from the cache: {rate:.2} %, {each:.1} gets a rank",
            hits + misses
        );
    }
    let Some(records) = records else { return Ok(()) };
    for (case, value) in [("cached", first.cached), ("remote", first.remote)] {
        records.write(&Record {
            case: format!("split/look-up/{case}"),
            engine: "threads".to_owned(),
            ranks: RANKS,
            value,
            unit: "ns".to_owned(),
            better: Better::Low,
            statistic: "median".to_owned(),
            spread: 0.0,
            samples: BATCHES,
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        })?;
    }
    Ok(())
}

fn measure(world: &Comm) -> anyhow::Result<Seen> {
    let comm = shuffled(world)?;
    let mut seen = Seen::default();
    if world.rank() == 0 {
        let few: Vec<Rank> = (1..17).collect();
        let all: Vec<Rank> = (0..comm.size()).filter(|rank| *rank != comm.rank()).collect();
        seen.cached = look_up(&comm, world, &few)?;
        let before = comm.look_ups();
        seen.remote = look_up(&comm, world, &all)?;
        let (hits, misses) = comm.look_ups();
        seen.missed = (misses - before.1) as f64 / (hits - before.0 + misses - before.1) as f64;
        seen.formula = look_up(world, world, &all)?;
    }
    world.barrier()?;
    seen.stencil = messages(world, |rank, size| {
        // A plane as square as a power of two of ranks can be, closed in both directions.
        let wide = 1 << (size.ilog2() / 2);
        let (row, column) = (rank / wide, rank % wide);
        let rows = size / wide;
        let at = |row: usize, column: usize| row % rows * wide + column % wide;
        vec![(at(row + 1, column), at(row + rows - 1, column)), (at(row, column + 1), at(row, column + wide - 1))]
    })?;
    seen.doubling =
        messages(world, |rank, size| (0..size.ilog2()).map(|step| (rank ^ 1 << step, rank ^ 1 << step)).collect())?;
    Ok(seen)
}

/// All ranks in an order that no formula has.
fn shuffled(world: &Comm) -> anyhow::Result<Comm> {
    let key = (world.rank() as u32).wrapping_mul(0x9e37_79b1) >> 1;
    let way = Way::Distributed { sorters: SORTERS }.to_string();
    world.using(&way)?.split(0, key as i32)?.context("every rank has a colour")
}

/// The median time to find one of these ranks in the world, one after the other.
fn look_up(comm: &Comm, world: &Comm, ranks: &[Rank]) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    let ranks: Vec<Rank> = ranks.iter().copied().cycle().take(BATCH).collect();
    for batch in 0..=BATCHES {
        let begun = Instant::now();
        for rank in &ranks {
            black_box(comm.translate(black_box(*rank), world)?);
        }
        // The first one fills the cache.
        if batch > 0 {
            times.push(begun.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
        }
    }
    Ok(median(&times))
}

/// Sends to and receives from these partners, again and again, over a table that is new. Returns look-ups from the cache and
/// others.
fn messages(world: &Comm, partners: impl Fn(Rank, usize) -> Vec<(Rank, Rank)>) -> anyhow::Result<(u64, u64)> {
    let comm = shuffled(world)?;
    let partners = partners(comm.rank(), comm.size());
    for _ in 0..ROUNDS {
        for (to, from) in &partners {
            comm.sendrecv(&[comm.rank()], *to, 0, &mut [0usize], *from, 0)?;
        }
    }
    Ok(comm.look_ups())
}
