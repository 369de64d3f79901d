//! Communicators in the demo: the same split by every way, grids, and tables that ranks share.

use anyhow::{Context, ensure};
use treepie::{Comm, Sum};
use treepie_comm::split::Way;

/// How many share a table.
const SORTERS: u32 = 4;

/// What was seen.
pub(super) struct Seen {
    pub(super) ways: usize,
    /// Look-ups of a doubling in a shared table that its cache has answered, and all.
    pub(super) hits: u64,
    pub(super) look_ups: u64,
}

/// Splits a world by every way, and talks over a table that is shared.
pub(super) fn run(world: &Comm) -> anyhow::Result<Seen> {
    let ways = Way::all(SORTERS);
    for way in ways {
        split(&world.using(&way.to_string())?).with_context(|| format!("rank {}: {way}", world.rank()))?;
    }
    let grid = world.cartesian(&[2, world.size() / 2], &[true, true])?.context("there is a place for every rank")?;
    let row = grid.sub(&[false, true])?;
    ensure!(row.all_reduce(&[1usize], Sum)? == [world.size() / 2], "a row of {} ranks", row.size());
    let (hits, misses) = doubling(world)?;
    Ok(Seen { ways: ways.len(), hits, look_ups: hits + misses })
}

/// Odd and even ranks, each backwards.
fn split(comm: &Comm) -> anyhow::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let part = comm.split(rank as u32 % 2, -(rank as i32))?.context("every rank has a colour")?;
    let expected: Vec<usize> = (0..size).rev().filter(|other| other % 2 == rank % 2).collect();
    ensure!(part.all_gather(&[rank])? == expected, "others than those of the colour, or in another order");
    Ok(())
}

/// Messages to all that are a power of two away, some times, where ranks follow no formula.
fn doubling(world: &Comm) -> anyhow::Result<(u64, u64)> {
    let shuffled =
        world.using(&Way::Distributed { sorters: SORTERS }.to_string())?.split(0, world.rank() as i32 ^ 1)?;
    let shuffled = shuffled.context("every rank has a colour")?;
    ensure!(shuffled.representation() == "shared table", "a {} instead", shuffled.representation());
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
    Ok(shuffled.look_ups())
}
