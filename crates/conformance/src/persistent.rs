//! Persistent collective operations and messages: initialized once and started many times.

use treepie::{Comm, Error, Max, PersistentCollective, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::reduction_cases::AFFINE_MAPS;
use crate::signals::poll_until;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("persistent/data-movement-a-thousand-times", 1, data_movement),
    Case::new("persistent/irregular-a-thousand-times", 1, irregular),
    Case::new("persistent/reductions-a-thousand-times", 1, reductions),
    Case::new("persistent/several-at-once-completed-in-any-order", 1, several_at_once),
    Case::new("persistent/long-ones", 1, long_ones),
    Case::new("persistent/a-dropped-one-still-counts", 1, dropped),
    Case::new("persistent/waiting-without-start-returns", 1, not_started),
    Case::new("persistent/restarted-after-an-error", 2, after_an_error),
    Case::new("persistent/messages-a-thousand-times", 1, messages),
    Case::new("persistent/a-message-that-does-not-fit", 1, message_that_does_not_fit),
];

const STARTS: u64 = 1000;

/// The element that a rank sends to another in a round.
fn value(round: u64, from: usize, to: usize) -> u64 {
    round * 10_000 + from as u64 * 100 + to as u64
}

/// Starts an operation many times; `input` and `want` give its input and expected output in each round.
fn start_repeatedly(
    what: &str,
    it: &mut PersistentCollective<u64>,
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

fn data_movement(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let root = size / 2;
    let twice = |value: u64| [value, value + 1];
    let local = |round| twice(value(round, rank, 0)).to_vec();
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
    start_repeatedly("allgather", &mut comm.allgather_init(2)?, |round| Some(local(round)), all)?;
    start_repeatedly(
        "gather",
        &mut comm.gather_init(2, root)?,
        |round| Some(local(round)),
        |round| at_root(all(round)),
    )?;
    let for_each = |round| (0..size).flat_map(|to| twice(value(round, root, to))).collect();
    let from_root = |round| twice(value(round, root, rank)).to_vec();
    start_repeatedly("scatter", &mut comm.scatter_init(2, root)?, |round| Some(at_root(for_each(round))), from_root)?;
    let to_each = |round| Some((0..size).map(|to| value(round, rank, to)).collect());
    let from_each = |round| (0..size).map(|from| value(round, from, rank)).collect();
    start_repeatedly("alltoall", &mut comm.alltoall_init(1)?, to_each, from_each)?;
    let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
    let some = |round: u64, from: usize| vec![value(round, from, 0); from % 3];
    let want = |round| (0..size).flat_map(|from| some(round, from)).collect();
    start_repeatedly("allgatherv", &mut comm.allgatherv_init(&counts)?, |round| Some(some(round, rank)), want)
}

/// The operations with a length for each rank, and the barrier.
fn irregular(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (root, counts) = (size / 2, &(0..size).map(|rank| rank % 3).collect::<Vec<usize>>());
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    let some = |round: u64, from: usize, to: usize, len: usize| vec![value(round, from, to); len];
    let all = |round| (0..size).flat_map(|from| some(round, from, 0, counts[from])).collect::<Vec<u64>>();
    let local = |round| Some(some(round, rank, 0, counts[rank]));
    start_repeatedly("gatherv", &mut comm.gatherv_init(counts, root)?, local, |round| at_root(all(round)))?;
    let for_each = |round| (0..size).flat_map(|to| some(round, root, to, counts[to])).collect::<Vec<u64>>();
    let from_root = |round| some(round, root, rank, counts[rank]);
    start_repeatedly(
        "scatterv",
        &mut comm.scatterv_init(counts, root)?,
        |round| Some(at_root(for_each(round))),
        from_root,
    )?;
    // Rank i sends (i + 2 j) % 3 elements to rank j.
    let len = |from: usize, to: usize| (from + 2 * to) % 3;
    let to: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
    let from: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
    let to_each = |round| Some((0..size).flat_map(|to| some(round, rank, to, len(rank, to))).collect());
    let from_each = |round| (0..size).flat_map(|from| some(round, from, rank, len(from, rank))).collect();
    start_repeatedly("alltoallv", &mut comm.alltoallv_init(&to, &from)?, to_each, from_each)?;
    let blocks = |round| Some((0..size).flat_map(|to| some(round, rank, to, counts[to])).collect());
    let largest = |round| some(round, size - 1, rank, counts[rank]);
    start_repeatedly("reduce_scatter", &mut comm.reduce_scatter_init(counts, Max)?, blocks, largest)?;
    let mut barrier = comm.barrier_init()?;
    for _ in 0..STARTS {
        barrier.start();
        barrier.wait()?;
    }
    Ok(())
}

fn reductions(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (root, ranks) = (size - 1, size as u64);
    let local = |round: u64| Some(vec![round + rank as u64, 1]);
    let total = |round: u64, ranks: u64| vec![round * ranks + (0..ranks).sum::<u64>(), ranks];
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    start_repeatedly("allreduce", &mut comm.allreduce_init(2, Sum)?, local, |round| total(round, ranks))?;
    start_repeatedly("reduce", &mut comm.reduce_init(2, Sum, root)?, local, |round| at_root(total(round, ranks)))?;
    start_repeatedly("scan", &mut comm.scan_init(2, Sum)?, local, |round| total(round, rank as u64 + 1))?;
    // On rank 0 exscan leaves the buffer unchanged.
    let before = |round| if rank == 0 { vec![0; 2] } else { total(round, rank as u64) };
    start_repeatedly("exscan", &mut comm.exscan_init(2, Sum)?, local, before)?;
    let for_each = |round| Some((0..size).map(|to| value(round, rank, to)).collect());
    let largest = |round| vec![value(round, size - 1, rank)];
    start_repeatedly("reduce_scatter_block", &mut comm.reduce_scatter_block_init(1, Max)?, for_each, largest)?;

    let mut maps = comm.allreduce_init::<[u64; 2]>(3, (AFFINE_MAPS.operator)())?;
    let want = AFFINE_MAPS.result(0..size, 3);
    for round in 0..STARTS {
        maps.with_input(|input| input.copy_from_slice(&AFFINE_MAPS.contribution(rank, 3)));
        maps.start();
        maps.wait()?;
        check_eq!(maps.output(), want, "allreduce in order, start {round}");
    }
    Ok(())
}

fn several_at_once(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size() as u64);
    let mut all = (0..8).map(|_| comm.allreduce_init::<u64>(3, Sum)).collect::<treepie::Result<Vec<_>>>()?;
    for round in 0..100u64 {
        for (number, one) in all.iter_mut().enumerate() {
            one.with_input(|input| input.fill(round + number as u64));
            one.start();
        }
        let sum = comm.iallreduce(vec![round], Sum)?;
        if rank % 2 == 0 {
            all.iter_mut().rev().try_for_each(PersistentCollective::wait)?;
        } else {
            let all = &mut all;
            poll_until(comm, "the end of eight operations", || {
                Ok(all
                    .iter_mut()
                    .map(PersistentCollective::test)
                    .collect::<treepie::Result<Vec<_>>>()?
                    .into_iter()
                    .all(|it| it))
            })?;
        }
        check_eq!(sum.wait()?, [round * size], "a nonblocking one, round {round}");
        for (number, one) in all.iter_mut().enumerate() {
            check_eq!(one.output(), [(round + number as u64) * size; 3], "operation {number}, round {round}");
        }
    }
    Ok(())
}

fn long_ones(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let mut sum = comm.allreduce_init::<u64>(40_000, Sum)?;
    let mut all = comm.allgather_init::<u64>(9_000)?;
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
        let mut one = comm.allreduce_init::<u64>(5, Sum)?;
        one.with_input(|input| input.fill(1));
        one.start();
        if (comm.rank() + round).is_multiple_of(2) {
            drop(one);
        } else {
            one.wait()?;
            check_eq!(one.output(), [comm.size() as u64; 5], "sum while others have dropped theirs");
        }
    }
    check_eq!(comm.allreduce(&[1u64], Sum)?, [comm.size() as u64], "sum after dropped ones");
    Ok(())
}

fn not_started(comm: &Comm) -> Outcome {
    let mut one = comm.allreduce_init::<u64>(1, Sum)?;
    one.wait()?;
    check!(one.test()?, "an operation that was not started is under way");
    one.with_input(|input| input.fill(2));
    one.start();
    one.wait()?;
    one.wait()?;
    check_eq!(one.output(), [2 * comm.size() as u64], "sum");
    Ok(())
}

/// Rank 0 initializes the operation with another length than the others.
fn after_an_error(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size() as u64);
    for len in [4, 40_000] {
        for id in ["allgather/linear", "allgather/ring"] {
            let dup = comm.dup()?;
            let mut one = dup.with_algorithm(id)?.allgather_init::<u64>(if rank == 0 { len - 1 } else { len })?;
            for start in 0..3 {
                one.start();
                let is_reported = matches!(one.wait(), Err(Error::CollectiveMismatch { .. } | Error::Aborted { .. }));
                check!(is_reported, "{id} of {len} where lengths differ, start {start}");
                if start == 1 {
                    poll_until(comm, "the end of a failed operation's messages", || Ok(one.test()?))?;
                } else {
                    one.wait()?;
                }
                // Its buffers are no longer in use.
                one.with_input(|input| input.fill(start));
                one.with_output(|output| output.fill(start));
                check!(one.output().iter().all(|it| *it == start), "{id}: an output that is still written to");
                check_eq!(dup.allreduce(&[1u64], Sum)?, [size], "sum after {id} of {len} has failed");
            }
        }
    }
    Ok(())
}

/// Around a ring, of all lengths, waited for or tested, in both orders.
fn messages(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut send = comm.send_init::<u64>(right, 3);
    let mut receive = comm.recv_init::<u64>(9000, left, 3);
    check_eq!(receive.wait()?, None, "a receive that was not started");
    send.wait()?;
    for round in 0..STARTS {
        // Beyond all eager limits, too.
        let len = if round % 100 == 99 { 9000 } else { round % 20 };
        let message = |from: usize| (0..len).map(move |at| value(round, from, 0) + at);
        send.data().clear();
        send.data().extend(message(rank));
        receive.start()?;
        check!(receive.is_active() && receive.data().is_empty(), "an active receive has data");
        send.start()?;
        let status = if round % 2 == 0 {
            receive.wait()?
        } else {
            let mut status = None;
            poll_until(comm, "a persistent receive", || {
                status = receive.test()?;
                Ok(status.is_some())
            })?;
            status
        };
        check_eq!(status.map(|status| status.source), Some(left), "round {round}");
        check!(receive.data().iter().copied().eq(message(left)), "wrong data in round {round}");
        if round % 3 == 0 {
            poll_until(comm, "a persistent send", || Ok(send.test()?))?;
        } else {
            send.wait()?;
        }
        check_eq!(send.data().len() as u64, len, "a completed send has its data");
    }
    Ok(())
}

/// The receive fails, can be started again, and a longer one gets the message.
fn message_that_does_not_fit(comm: &Comm) -> Outcome {
    let rank = comm.rank();
    let send = comm.isend(vec![1u32, 2, 3], rank, 4)?;
    let mut short = comm.recv_init::<u32>(2, rank, 4);
    short.start()?;
    check!(matches!(short.wait(), Err(Error::Truncated { .. })), "a message of three elements fits two");
    let mut receive = comm.recv_init::<u32>(3, rank, 4);
    receive.start()?;
    receive.wait()?;
    check_eq!(receive.data(), &[1, 2, 3], "the message");
    send.wait()?;
    let send = comm.isend(vec![4u32], rank, 4)?;
    short.start()?;
    short.wait()?;
    check_eq!(short.data(), &[4], "after an error");
    send.wait()?;
    Ok(())
}
