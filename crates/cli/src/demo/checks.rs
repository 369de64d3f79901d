//! Point-to-point, one-sided and collective operations of the demo; the receivers check the data.

use anyhow::{Context, ensure};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Max, SparseExchange, Sum, wait_all};

type Check = fn(&Comm) -> anyhow::Result<()>;

const CHECKS: &[(&str, Check)] = &[
    ("ring", ring),
    ("exchange", exchange),
    ("synchronous sends", synchronous),
    ("shared counter", counter),
    ("barriers", barrier),
    ("collectives", collectives),
    ("objects", objects),
];

/// The checks of [`run`], for the report.
pub(super) fn summary(ranks: u32, what: &str) -> String {
    let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    format!("{ranks} {what}: {}", names.join(", "))
}

/// Runs all checks, on all ranks.
pub(super) fn run(world: &Comm) -> anyhow::Result<()> {
    for (name, check) in CHECKS {
        check(world).with_context(|| format!("rank {}: {name}", world.rank()))?;
    }
    Ok(())
}

/// Each rank adds its number to a token that travels around the ring.
fn ring(world: &Comm) -> anyhow::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    if rank == 0 {
        world.send(&[0u64], right, 1)?;
        let (token, status) = world.recv_vec::<u64>(left, 1)?;
        ensure!(token == [(size * (size - 1) / 2) as u64], "the token is {token:?}, from {}", status.source);
    } else {
        let (token, _) = world.recv_vec::<u64>(left, 1)?;
        world.send(&[token[0] + rank as u64], right, 1)?;
    }
    Ok(())
}

/// Each rank sends an eager and a rendezvous message to every other rank; all are posted before any is waited for.
fn exchange(world: &Comm) -> anyhow::Result<()> {
    const LONG: usize = 300_000;
    let others: Vec<usize> = (0..world.size()).filter(|other| *other != world.rank()).collect();
    let data = |len: usize| vec![world.rank() as u32; len];
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for len in [3, LONG] {
        for &other in &others {
            receives.push(world.irecv_vec::<u32>(other, 2)?);
            sends.push(world.isend(data(len), other, 2)?);
        }
    }
    let received = wait_all(receives)?;
    wait_all(sends)?;
    // Two messages from the same rank arrive in the order in which they were sent.
    let expected = [3, LONG].into_iter().flat_map(|len| others.iter().map(move |other| (len, *other)));
    for ((len, other), (data, status)) in expected.zip(received) {
        let is_whole = data.len() == len && data.iter().all(|element| *element == other as u32);
        ensure!(is_whole && status.source == other, "{} elements of {other} are wrong", data.len());
    }
    Ok(())
}

/// Several operations with the default algorithm, and allgather with several.
fn collectives(world: &Comm) -> anyhow::Result<()> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let sum = world.allreduce(&[rank, 1], Sum)?;
    ensure!(sum == [size * (size - 1) / 2, size], "the sum is {sum:?}");
    let all: Vec<u64> = (0..size).collect();
    for id in ["allgather/ring", "allgather/bruck", "allgather/distance_halving"] {
        let gathered = world.with_algorithm(id)?.allgather(&[rank])?;
        ensure!(gathered == all, "{id} gathered {gathered:?}");
    }
    let mut long = vec![rank; 100_000];
    world.bcast(&mut long, world.size() - 1)?;
    ensure!(long.iter().all(|element| *element == size - 1), "bcast delivered wrong data");
    let to_each: Vec<u64> = (0..size).map(|to| rank * 100 + to).collect();
    let mut from_each = vec![0; world.size()];
    world.alltoall(&to_each, &mut from_each)?;
    ensure!(from_each.iter().zip(0..).all(|(got, from)| *got == from * 100 + rank), "blocks are {from_each:?}");
    let mut max = [0];
    world.reduce_scatter_block(&to_each, &mut max, Max)?;
    ensure!(max == [(size - 1) * 100 + rank], "the maximum is {max:?}");
    // A non-commutative operator, overlapped with another operation.
    let last = world.iallreduce(vec![rank], |_, later| later)?;
    let mut before = [0];
    world.exscan(&[1u64], &mut before, Sum)?;
    ensure!(rank == 0 || before == [rank], "{before:?} ranks before rank {rank}");
    ensure!(last.wait()? == [size - 1], "contributions were combined out of order");
    Ok(())
}

/// A synchronous send completes when its receive has started; rank 0 receives from any source.
fn synchronous(world: &Comm) -> anyhow::Result<()> {
    if world.rank() != 0 {
        world.ssend(&[world.rank() as u64], 0, world.rank() as u32)?;
        return Ok(());
    }
    for _ in 1..world.size() {
        let status = world.probe(ANY_SOURCE, ANY_TAG)?;
        let (data, _) = world.recv_vec::<u64>(status.source, status.tag)?;
        ensure!(data == [status.source as u64] && status.tag as usize == status.source, "a wrong message: {status:?}");
    }
    Ok(())
}

/// All ranks draw numbers from one counter and record at rank 0 who drew which.
fn counter(world: &Comm) -> anyhow::Result<()> {
    const DRAWS: usize = 25;
    let total = DRAWS * world.size();
    let slots = if world.rank() == 0 { total + 1 } else { 0 };
    let window = world.window::<u64>(slots)?;
    for _ in 0..DRAWS {
        let number = window.fetch_add(0, 0, 1)? as usize;
        ensure!(number < total, "{number} was drawn of {total}");
        window.put(0, number + 1, &[world.rank() as u64 + 1])?;
    }
    window.fence()?;
    let mut drawn = vec![0u64; total];
    window.get(0, 1, &mut drawn)?;
    let of_this = drawn.iter().filter(|owner| **owner == world.rank() as u64 + 1).count();
    ensure!(of_this == DRAWS && !drawn.contains(&0), "a number was drawn twice or never");
    window.free()?;
    Ok(())
}

/// No rank leaves a barrier before all have entered it.
fn barrier(world: &Comm) -> anyhow::Result<()> {
    let arrived = world.window::<u64>(1)?;
    for round in 1..=10 {
        arrived.fetch_add(0, 0, 1)?;
        world.ibarrier()?.wait()?;
        let count = arrived.get_one(0, 0)?;
        ensure!(count >= round * world.size() as u64, "left a barrier that only {count} have entered");
    }
    arrived.free()?;
    Ok(())
}

/// The short forms: one value, objects of any type, items that go to their owners.
fn objects(comm: &Comm) -> anyhow::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    ensure!(comm.allreduce_one(rank, Max)? == size - 1, "the largest rank");
    let name = |rank: usize| format!("{rank}").repeat(rank + 1);
    let names: Vec<String> = comm.allgather_objects(&name(rank))?;
    ensure!(names == (0..size).map(name).collect::<Vec<_>>(), "texts of all ranks: {names:?}");
    let got = comm.exchange_by_owner(0..2 * size, |item| item % size)?;
    ensure!(got == [rank, rank + size].repeat(size), "items of this rank: {got:?}");
    Ok(())
}
