//! Collective operations that are prepared once and started many times.

use treepie::{Comm, Error, Max, Persistent, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::folds::MAPS;
use crate::meeting::until;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("persistent/moving-a-thousand-times", 1, moving),
    Case::new("persistent/irregular-a-thousand-times", 1, irregular),
    Case::new("persistent/combining-a-thousand-times", 1, combining),
    Case::new("persistent/several-at-once-ended-in-any-order", 1, several_at_once),
    Case::new("persistent/long-ones", 1, long_ones),
    Case::new("persistent/a-dropped-one-still-counts", 1, dropped),
    Case::new("persistent/waiting-without-start-returns", 1, not_started),
    Case::new("persistent/after-an-error-it-can-be-started-again", 2, after_an_error),
];

const STARTS: u64 = 1000;

/// What a rank has for another in a round.
fn value(round: u64, from: usize, to: usize) -> u64 {
    round * 10_000 + from as u64 * 100 + to as u64
}

/// Starts it again and again; `input` and `want` say what goes in and must come out in a round.
fn again(
    what: &str,
    it: &mut Persistent<u64>,
    input: impl Fn(u64) -> Option<Vec<u64>>,
    want: impl Fn(u64) -> Vec<u64>,
) -> Outcome {
    for round in 0..STARTS {
        if let Some(data) = input(round) {
            it.with_input(|input| input.copy_from_slice(&data));
        }
        it.start();
        it.wait()?;
        check_eq!(it.output(), want(round), "{what}, start {round}");
    }
    Ok(())
}

fn moving(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let root = size / 2;
    let twice = |value: u64| [value, value + 1];
    let own = |round| twice(value(round, rank, 0)).to_vec();
    let all = |round| (0..size).flat_map(|from| twice(value(round, from, 0))).collect::<Vec<u64>>();
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };

    let mut bcast = comm.bcast_init::<u64>(2, root)?;
    for round in 0..STARTS {
        if rank == root {
            bcast.with_output(|data| data.copy_from_slice(&twice(round)));
        }
        bcast.start();
        bcast.wait()?;
        check_eq!(bcast.output(), twice(round), "bcast, start {round}");
    }
    again("all_gather", &mut comm.all_gather_init(2)?, |round| Some(own(round)), all)?;
    again("gather", &mut comm.gather_init(2, root)?, |round| Some(own(round)), |round| at_root(all(round)))?;
    let for_each = |round| (0..size).flat_map(|to| twice(value(round, root, to))).collect();
    let from_root = |round| twice(value(round, root, rank)).to_vec();
    again("scatter", &mut comm.scatter_init(2, root)?, |round| Some(at_root(for_each(round))), from_root)?;
    let to_each = |round| Some((0..size).map(|to| value(round, rank, to)).collect());
    let from_each = |round| (0..size).map(|from| value(round, from, rank)).collect();
    again("all_to_all", &mut comm.all_to_all_init(1)?, to_each, from_each)?;
    let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
    let some = |round: u64, from: usize| vec![value(round, from, 0); from % 3];
    let want = |round| (0..size).flat_map(|from| some(round, from)).collect();
    again("all_gatherv", &mut comm.all_gatherv_init(&counts)?, |round| Some(some(round, rank)), want)
}

/// Those with a length for each rank, and the one without data.
fn irregular(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (root, counts) = (size / 2, &(0..size).map(|rank| rank % 3).collect::<Vec<usize>>());
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    let some = |round: u64, from: usize, to: usize, len: usize| vec![value(round, from, to); len];
    let all = |round| (0..size).flat_map(|from| some(round, from, 0, counts[from])).collect::<Vec<u64>>();
    let mine = |round| Some(some(round, rank, 0, counts[rank]));
    again("gatherv", &mut comm.gatherv_init(counts, root)?, mine, |round| at_root(all(round)))?;
    let for_each = |round| (0..size).flat_map(|to| some(round, root, to, counts[to])).collect::<Vec<u64>>();
    let from_root = |round| some(round, root, rank, counts[rank]);
    again("scatterv", &mut comm.scatterv_init(counts, root)?, |round| Some(at_root(for_each(round))), from_root)?;
    // What rank i has for rank j has the length (i + 2 j) % 3.
    let len = |from: usize, to: usize| (from + 2 * to) % 3;
    let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
    let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
    let to_each = |round| Some((0..size).flat_map(|to| some(round, rank, to, len(rank, to))).collect());
    let from_each = |round| (0..size).flat_map(|from| some(round, from, rank, len(from, rank))).collect();
    again("all_to_allv", &mut comm.all_to_allv_init(&to, &from)?, to_each, from_each)?;
    let blocks = |round| Some((0..size).flat_map(|to| some(round, rank, to, counts[to])).collect());
    let largest = |round| some(round, size - 1, rank, counts[rank]);
    again("reduce_scatterv", &mut comm.reduce_scatterv_init(counts, Max)?, blocks, largest)?;
    let mut barrier = comm.barrier_init()?;
    for _ in 0..STARTS {
        barrier.start();
        barrier.wait()?;
    }
    Ok(())
}

fn combining(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (root, ranks) = (size - 1, size as u64);
    let mine = |round: u64| Some(vec![round + rank as u64, 1]);
    let total = |round: u64, ranks: u64| vec![round * ranks + (0..ranks).sum::<u64>(), ranks];
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    again("all_reduce", &mut comm.all_reduce_init(2, Sum)?, mine, |round| total(round, ranks))?;
    again("reduce", &mut comm.reduce_init(2, Sum, root)?, mine, |round| at_root(total(round, ranks)))?;
    again("scan", &mut comm.scan_init(2, Sum)?, mine, |round| total(round, rank as u64 + 1))?;
    // Rank 0 keeps what is there.
    let before = |round| if rank == 0 { vec![0; 2] } else { total(round, rank as u64) };
    again("exscan", &mut comm.exscan_init(2, Sum)?, mine, before)?;
    let for_each = |round| Some((0..size).map(|to| value(round, rank, to)).collect());
    let largest = |round| vec![value(round, size - 1, rank)];
    again("reduce_scatter", &mut comm.reduce_scatter_init(1, Max)?, for_each, largest)?;

    let mut maps = comm.all_reduce_init::<[u64; 2]>(3, (MAPS.operator)())?;
    let want = MAPS.result(0..size, 3);
    for round in 0..STARTS {
        maps.with_input(|input| input.copy_from_slice(&MAPS.data(rank, 3)));
        maps.start();
        maps.wait()?;
        check_eq!(maps.output(), want, "all_reduce in order, start {round}");
    }
    Ok(())
}

fn several_at_once(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size() as u64);
    let mut all = (0..8).map(|_| comm.all_reduce_init::<u64>(3, Sum)).collect::<treepie::Result<Vec<_>>>()?;
    for round in 0..100u64 {
        for (number, one) in all.iter_mut().enumerate() {
            one.with_input(|input| input.fill(round + number as u64));
            one.start();
        }
        let sum = comm.iall_reduce(vec![round], Sum)?;
        if rank % 2 == 0 {
            all.iter_mut().rev().try_for_each(Persistent::wait)?;
        } else {
            let all = &mut all;
            until(comm, "the end of eight operations", || {
                Ok(all.iter_mut().map(Persistent::test).collect::<treepie::Result<Vec<_>>>()?.into_iter().all(|it| it))
            })?;
        }
        check_eq!(sum.wait()?, [round * size], "one that was not prepared, round {round}");
        for (number, one) in all.iter_mut().enumerate() {
            check_eq!(one.output(), [(round + number as u64) * size; 3], "operation {number}, round {round}");
        }
    }
    Ok(())
}

fn long_ones(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let mut sum = comm.all_reduce_init::<u64>(40_000, Sum)?;
    let mut all = comm.all_gather_init::<u64>(9_000)?;
    for round in 0..5u64 {
        sum.with_input(|input| input.fill(round));
        all.with_input(|input| input.fill(value(round, rank, 0)));
        sum.start();
        all.start();
        all.wait()?;
        sum.wait()?;
        check!(sum.output().iter().all(|sum| *sum == round * size as u64), "a sum of start {round} differs");
        for (from, block) in all.output().chunks(9_000).enumerate() {
            let want = value(round, from, 0);
            check!(block.iter().all(|got| *got == want), "block {from} of start {round} differs");
        }
    }
    Ok(())
}

fn dropped(comm: &Comm) -> Outcome {
    for round in 0..10 {
        let mut one = comm.all_reduce_init::<u64>(5, Sum)?;
        one.with_input(|input| input.fill(1));
        one.start();
        if (comm.rank() + round).is_multiple_of(2) {
            drop(one);
        } else {
            one.wait()?;
            check_eq!(one.output(), [comm.size() as u64; 5], "sum while others have dropped theirs");
        }
    }
    check_eq!(comm.all_reduce(&[1u64], Sum)?, [comm.size() as u64], "sum after dropped ones");
    Ok(())
}

fn not_started(comm: &Comm) -> Outcome {
    let mut one = comm.all_reduce_init::<u64>(1, Sum)?;
    one.wait()?;
    check!(one.test()?, "one that was not started goes on");
    one.with_input(|input| input.fill(2));
    one.start();
    one.wait()?;
    one.wait()?;
    check_eq!(one.output(), [2 * comm.size() as u64], "sum");
    Ok(())
}

/// Rank 0 has prepared another length than the others.
fn after_an_error(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size() as u64);
    for len in [4, 40_000] {
        for id in ["allgather/linear", "allgather/ring"] {
            let dup = comm.dup()?;
            let mut one = dup.using(id)?.all_gather_init::<u64>(if rank == 0 { len - 1 } else { len })?;
            for start in 0..3 {
                one.start();
                let told = matches!(one.wait(), Err(Error::CallsDiffer { .. } | Error::GaveUp { .. }));
                check!(told, "{id} of {len} where ranks disagree, start {start}");
                if start == 1 {
                    until(comm, "the end of what a failed operation has begun", || Ok(one.test()?))?;
                } else {
                    one.wait()?;
                }
                // Nobody uses its buffers any more.
                one.with_input(|input| input.fill(start));
                one.with_output(|output| output.fill(start));
                check!(one.output().iter().all(|it| *it == start), "{id}: an output that is not its owner's");
                check_eq!(dup.all_reduce(&[1u64], Sum)?, [size], "sum after {id} of {len} has failed");
            }
        }
    }
    Ok(())
}
