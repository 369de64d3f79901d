//! Persistent collective operations allocate nothing after their first start.
//!
//! This program is both the test and, with the argument `rank`, a rank of it in its own process. It counts all
//! allocations of the process: on threads, those of all ranks.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use treepie::{Comm, Max, PersistentCollective, Result, Sum};
use treepie_shm::launch::{LabelMode, Launch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of starts that may allocate, while buffers grow to the size they need.
const WARMUP_STARTS: usize = 1;
const STARTS: usize = 1000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("rank") {
        let world = treepie::init().expect("a rank of the launcher");
        return verdict(&world, measure(&world));
    }
    let mut failed = 0;
    for ranks in [1, 2, 3, 8] {
        let all = treepie::launch(ranks, |world| Ok(verdict(&world, measure(&world)) == ExitCode::SUCCESS));
        failed += report(&format!("threads, {ranks} ranks"), all.is_ok_and(|all| all.into_iter().all(|fine| fine)));
    }
    for ranks in [2, 3, 8] {
        let mut launch = Launch::new(ranks, std::env::current_exe().expect("this program"));
        launch.args = vec!["rank".into()];
        launch.label = LabelMode::Never;
        failed += report(&format!("shm, {ranks} ranks"), launch.run().is_ok_and(|outcome| outcome.is_success()));
    }
    println!("\ntest result: {}. {} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" }, 7 - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn report(name: &str, fine: bool) -> usize {
    println!("test {name} ... {}", if fine { "ok" } else { "FAILED" });
    usize::from(!fine)
}

/// Allocations after the first starts, by operation.
type Allocated = Vec<(&'static str, usize)>;

fn verdict(world: &Comm, result: Result<Allocated>) -> ExitCode {
    match result {
        Ok(allocated) => {
            for (what, count) in &allocated {
                println!("    {what}: {count} allocations in {} starts, rank {}", STARTS - WARMUP_STARTS, world.rank());
            }
            ExitCode::from(u8::from(!allocated.is_empty()))
        }
        Err(error) => {
            println!("    rank {}: {error}", world.rank());
            ExitCode::FAILURE
        }
    }
}

fn measure(world: &Comm) -> Result<Allocated> {
    let root = world.size() - 1;
    let counts: Vec<usize> = (0..world.size()).map(|rank| rank % 3).collect();
    // Rank i sends (i + 2 j) % 3 elements to rank j.
    let to: Vec<usize> = (0..world.size()).map(|to| (world.rank() + 2 * to) % 3).collect();
    let from: Vec<usize> = (0..world.size()).map(|from| (from + 2 * world.rank()) % 3).collect();
    let in_order = |a: u64, b: u64| a.wrapping_mul(31).wrapping_add(b);
    let mut operations: Vec<(&'static str, PersistentCollective<u64>)> = vec![
        ("bcast", world.bcast_init(4, root)?),
        ("scatter", world.scatter_init(4, root)?),
        ("gather", world.gather_init(4, root)?),
        ("allgather", world.allgather_init(4)?),
        ("allgatherv", world.allgatherv_init(&counts)?),
        ("reduce", world.reduce_init(4, Sum, root)?),
        ("allreduce", world.allreduce_init(4, Max)?),
        ("allreduce in order", world.allreduce_init(4, in_order)?),
        ("reduce_scatter_block", world.reduce_scatter_block_init(4, Sum)?),
        ("alltoall", world.alltoall_init(4)?),
        ("scan", world.scan_init(4, Sum)?),
        ("exscan", world.exscan_init(4, Sum)?),
        ("scatterv", world.scatterv_init(&counts, root)?),
        ("gatherv", world.gatherv_init(&counts, root)?),
        ("reduce_scatter", world.reduce_scatter_init(&counts, Sum)?),
        ("alltoallv", world.alltoallv_init(&to, &from)?),
    ];
    for id in ["allgather/bruck", "allgather/ring", "allgather/distance_halving:reordered"] {
        operations.push((id, world.with_algorithm(id)?.allgather_init(4)?));
    }
    for id in ["allreduce/recursive_doubling", "allreduce/rabenseifner", "allreduce/ring", "allreduce/fan_in_fan_out"] {
        operations.push((id, world.with_algorithm(id)?.allreduce_init(37, Sum)?));
    }
    let mut barrier = world.barrier_init()?;
    // Queues that all operations of a rank share grow first: ranks run ahead here, so that more is queued than later.
    for (_, one) in &mut operations {
        for _ in 0..100 {
            one.start();
            one.wait()?;
        }
        world.barrier()?;
    }
    grow_queues(world)?;
    let mut allocated = Vec::new();
    for (what, one) in &mut operations {
        let count = allocations(world, || {
            one.with_input(|input| input.fill(7));
            one.start();
            one.wait()
        })?;
        allocated.extend((count > 0).then_some((*what, count)));
    }
    let count = allocations(world, || {
        barrier.start();
        barrier.wait()
    })?;
    allocated.extend((count > 0).then_some(("barrier", count)));
    Ok(allocated)
}

/// Grows the queues of unexpected messages, which operations share: their size depends on how far other ranks run
/// ahead. More messages are queued here than in any start.
fn grow_queues(world: &Comm) -> Result<()> {
    let others = (0..world.size()).filter(|other| *other != world.rank());
    for other in others.clone() {
        (0..200).try_for_each(|tag| world.send(&[0u64], other, tag))?;
    }
    world.barrier()?;
    for other in others {
        (0..200).rev().try_for_each(|tag| world.recv(&mut [0u64], other, tag).map(drop))?;
    }
    world.barrier()
}

/// The number of allocations of this process in all starts but the first.
fn allocations(world: &Comm, mut start: impl FnMut() -> Result<()>) -> Result<usize> {
    let mut before = 0;
    for number in 0..STARTS {
        if number == WARMUP_STARTS {
            // No rank starts before all have read the counter.
            world.barrier()?;
            before = ALLOCATOR.stats().allocations;
            world.barrier()?;
        }
        start()?;
        // No rank runs ahead: the first starts do not bound how many messages queue up at a slower rank.
        world.barrier()?;
    }
    // On threads, no rank goes on and allocates before all have read the counter.
    world.barrier()?;
    let stats = ALLOCATOR.stats();
    world.barrier()?;
    Ok(stats.allocations - before)
}
