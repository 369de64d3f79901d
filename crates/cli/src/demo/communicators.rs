//! Communicators in the demo: the same split with every algorithm, Cartesian grids, and distributed rank tables.

use anyhow::{Context, ensure};
use treepie::{Comm, Sum};
use treepie_comm::split::SplitAlgorithm;

/// Ranks that hold a distributed table.
const SORTERS: u32 = 4;

/// Counts for the report.
pub(super) struct CommunicatorsResult {
    pub(super) algorithms: usize,
    /// Cache hits and all lookups of recursive doubling in a distributed table.
    pub(super) hits: u64,
    pub(super) lookups: u64,
}

/// Splits a world with every algorithm, and communicates over a distributed table.
pub(super) fn run(world: &Comm) -> anyhow::Result<CommunicatorsResult> {
    let algorithms = SplitAlgorithm::all(SORTERS);
    for algorithm in algorithms {
        let comm = world.with_algorithm(&algorithm.to_string())?;
        split(&comm).with_context(|| format!("rank {}: {algorithm}", world.rank()))?;
    }
    let grid = world.cart_create(&[2, world.size() / 2], &[true, true])?.context("the grid has all ranks")?;
    let row = grid.sub(&[false, true])?;
    ensure!(row.allreduce(&[1usize], Sum)? == [world.size() / 2], "a row of {} ranks", row.size());
    let (hits, misses) = doubling(world)?;
    Ok(CommunicatorsResult { algorithms: algorithms.len(), hits, lookups: hits + misses })
}

/// Splits into odd and even ranks, each in reverse order.
fn split(comm: &Comm) -> anyhow::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let part = comm.split(rank as u32 % 2, -(rank as i32))?.context("every rank has a color")?;
    let expected: Vec<usize> = (0..size).rev().filter(|other| other % 2 == rank % 2).collect();
    ensure!(part.allgather(&[rank])? == expected, "wrong members or a wrong order");
    Ok(())
}

/// Exchanges messages with all ranks a power of two away, repeatedly, where the ranks follow no formula.
fn doubling(world: &Comm) -> anyhow::Result<(u64, u64)> {
    let shuffled = world
        .with_algorithm(&SplitAlgorithm::Distributed { sorters: SORTERS }.to_string())?
        .split(0, world.rank() as i32 ^ 1)?;
    let shuffled = shuffled.context("every rank has a color")?;
    ensure!(shuffled.rank_table_kind() == "shared table", "a {} instead", shuffled.rank_table_kind());
    for _ in 0..10 {
        let mut distance = 1;
        while distance < shuffled.size() {
            let partner = shuffled.rank() ^ distance;
            let mut got = [usize::MAX];
            shuffled.sendrecv(&[shuffled.rank()], partner, 0, &mut got, partner, 0)?;
            ensure!(got == [partner], "a message of rank {} instead of {partner}", got[0]);
            distance *= 2;
        }
    }
    Ok(shuffled.rank_table_lookups())
}
