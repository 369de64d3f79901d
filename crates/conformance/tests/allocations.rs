//! Prepared collective operations allocate nothing after their first start.
//!
//! This program is both the test and, started with `rank`, one of its ranks in a process of its own. It counts all
//! allocations of the process: on threads, those of all ranks.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use treepie::{Comm, Max, Persistent, Result, Sum};
use treepie_shm::launch::{Label, Launch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// So many starts may allocate: lists grow to the length that they need.
const FIRST: usize = 1;
const STARTS: usize = 1000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("rank") {
        let world = treepie::init().expect("a rank of the launcher");
        return verdict(&world, measure(&world));
    }
    let mut failed = 0;
    for ranks in [1, 2, 3, 8] {
        let all = treepie::launch(ranks, |world| verdict(&world, measure(&world)) == ExitCode::SUCCESS);
        failed += report(&format!("threads, {ranks} ranks"), all.is_ok_and(|all| all.into_iter().all(|fine| fine)));
    }
    for ranks in [2, 3, 8] {
        let mut launch = Launch::new(ranks, std::env::current_exe().expect("this program"));
        launch.args = vec!["rank".into()];
        launch.label = Label::Never;
        failed += report(&format!("shm, {ranks} ranks"), launch.run().is_ok_and(|outcome| outcome.is_success()));
    }
    println!("\ntest result: {}. {} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" }, 7 - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn report(name: &str, fine: bool) -> usize {
    println!("test {name} ... {}", if fine { "ok" } else { "FAILED" });
    usize::from(!fine)
}

/// What was allocated after the first starts, by operation.
type Allocated = Vec<(&'static str, usize)>;

fn verdict(world: &Comm, result: Result<Allocated>) -> ExitCode {
    match result {
        Ok(allocated) => {
            for (what, count) in &allocated {
                println!("    {what}: {count} allocations in {} starts, rank {}", STARTS - FIRST, world.rank());
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
    // What rank i has for rank j has the length (i + 2 j) % 3.
    let to: Vec<usize> = (0..world.size()).map(|to| (world.rank() + 2 * to) % 3).collect();
    let from: Vec<usize> = (0..world.size()).map(|from| (from + 2 * world.rank()) % 3).collect();
    let in_order = |a: u64, b: u64| a.wrapping_mul(31).wrapping_add(b);
    let mut prepared: Vec<(&'static str, Persistent<u64>)> = vec![
        ("bcast", world.bcast_init(4, root)?),
        ("scatter", world.scatter_init(4, root)?),
        ("gather", world.gather_init(4, root)?),
        ("allgather", world.all_gather_init(4)?),
        ("allgatherv", world.all_gatherv_init(&counts)?),
        ("reduce", world.reduce_init(4, Sum, root)?),
        ("allreduce", world.all_reduce_init(4, Max)?),
        ("allreduce in order", world.all_reduce_init(4, in_order)?),
        ("reduce_scatter", world.reduce_scatter_init(4, Sum)?),
        ("alltoall", world.all_to_all_init(4)?),
        ("scan", world.scan_init(4, Sum)?),
        ("exscan", world.exscan_init(4, Sum)?),
        ("scatterv", world.scatterv_init(&counts, root)?),
        ("gatherv", world.gatherv_init(&counts, root)?),
        ("reduce_scatterv", world.reduce_scatterv_init(&counts, Sum)?),
        ("alltoallv", world.all_to_allv_init(&to, &from)?),
    ];
    for id in ["allgather/bruck", "allgather/ring", "allgather/distance_halving:reordered"] {
        prepared.push((id, world.using(id)?.all_gather_init(4)?));
    }
    for id in ["allreduce/recursive_doubling", "allreduce/rabenseifner", "allreduce/ring", "allreduce/fan_in_fan_out"] {
        prepared.push((id, world.using(id)?.all_reduce_init(37, Sum)?));
    }
    let mut barrier = world.barrier_init()?;
    // What all operations of a rank share grows to what it needs: here ranks run ahead, so that more waits than later.
    for (_, one) in &mut prepared {
        for _ in 0..100 {
            one.start();
            one.wait()?;
        }
        world.barrier()?;
    }
    grow_queues(world)?;
    let mut allocated = Vec::new();
    for (what, one) in &mut prepared {
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

/// The queues of a rank for messages that wait are not an operation's own: they grow to the most that ever waits at once,
/// and how much that is depends on how far others run ahead. So more wait here than in any start.
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

/// How often this process allocates in all starts but the first.
fn allocations(world: &Comm, mut start: impl FnMut() -> Result<()>) -> Result<usize> {
    let mut before = 0;
    for number in 0..STARTS {
        if number == FIRST {
            // Nobody starts before all have looked.
            world.barrier()?;
            before = ALLOCATOR.stats().allocations;
            world.barrier()?;
        }
        start()?;
        // Nobody runs ahead: how many messages can wait for a slower rank is not bounded by the first starts.
        world.barrier()?;
    }
    // On threads, nobody goes on to what allocates before all have looked.
    world.barrier()?;
    let stats = ALLOCATOR.stats();
    world.barrier()?;
    Ok(stats.allocations - before)
}
