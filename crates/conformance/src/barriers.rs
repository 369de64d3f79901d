//! Barriers: no rank leaves before all have arrived.

use std::time::Duration;

use treepie::{ANY_SOURCE, Comm, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("barriers/many-in-a-row", 1, many_in_a_row),
    Case::new("barriers/no-rank-leaves-before-all-have-arrived", 1, nobody_passes_early),
    Case::new("barriers/late-ranks-are-waited-for", 2, late_ranks_are_waited_for),
    Case::new("barriers/any-is-a-logical-or", 1, any_is_a_logical_or),
    Case::new("barriers/nonblocking-does-not-complete-before-the-last-arrival", 2, not_done_before_the_last),
    Case::new("barriers/nonblocking-overlaps-with-messages", 1, overlaps_with_messages),
    Case::new("barriers/several-outstanding", 1, several_outstanding),
    Case::new("barriers/on-dups-started-in-any-order", 1, on_dups_started_in_any_order),
    Case::new("barriers/a-dropped-request-still-counts", 1, dropped_request_still_counts),
    Case::new("barriers/on-the-hundredth-communicator", 1, on_the_hundredth_communicator),
];

fn many_in_a_row(comm: &Comm) -> Outcome {
    for _ in 0..1000 {
        comm.barrier()?;
    }
    Ok(())
}

/// Checks barriers against a counter of arrivals in a window.
pub(crate) fn check_barriers(comm: &Comm, rounds: u64) -> Outcome {
    let arrivals = comm.window::<u64>(1)?;
    let size = comm.size() as u64;
    for round in 1..=rounds {
        arrivals.fetch_add(0, 0, 1)?;
        comm.barrier()?;
        check_eq!(arrivals.get_one(0, 0)?, round * size, "arrivals when barrier {round} completed");
        comm.barrier()?;
    }
    Ok(arrivals.free()?)
}

fn nobody_passes_early(comm: &Comm) -> Outcome {
    check_barriers(comm, 100)
}

fn any_is_a_logical_or(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    for round in 0..300 {
        let comm = if round % 2 == 0 { comm } else { &dup };
        // One rank passes true; then none; then all but one.
        let chosen = round % comm.size() == comm.rank();
        check!(comm.any(chosen)?, "one of {} ranks passed true", comm.size());
        check!(!comm.any(false)?, "no rank passed true");
        check_eq!(comm.any(!chosen)?, comm.size() > 1, "all but one of {} ranks passed true", comm.size());
        if round % 16 == 0 {
            comm.barrier()?;
        }
    }
    Ok(())
}

fn late_ranks_are_waited_for(comm: &Comm) -> Outcome {
    let arrivals = comm.window::<u64>(1)?;
    let size = comm.size();
    for late in [0, size - 1, size / 2] {
        if comm.rank() == late {
            std::thread::sleep(Duration::from_millis(30));
        }
        arrivals.fetch_add(0, 0, 1)?;
        comm.barrier()?;
        let seen = arrivals.get_one(0, 0)? as usize;
        check!(seen.is_multiple_of(size), "{seen} arrivals of {size} ranks when a barrier completed");
        comm.barrier()?;
    }
    Ok(arrivals.free()?)
}

fn not_done_before_the_last(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    if comm.rank() == last {
        for rank in 0..last {
            recv_signal(comm, rank)?;
        }
        return Ok(comm.ibarrier()?.wait()?);
    }
    let mut barrier = comm.ibarrier()?;
    for _ in 0..50 {
        check!(barrier.test().is_none(), "a barrier completed before rank {last} arrived");
        std::thread::yield_now();
    }
    send_signal(comm, last)?;
    Ok(barrier.wait()?)
}

fn overlaps_with_messages(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for round in 0..10 {
        let barrier = comm.ibarrier()?;
        for (i, len) in [10, 100_000, 0, 5000].into_iter().enumerate() {
            let number = round * 10 + i;
            let sent = comm.isend(bytes(seed(comm.rank(), right, number), len), right, i as u32)?;
            let (got, _) = comm.recv_vec::<u8>(left, i as u32)?;
            check_bytes(&got, seed(left, comm.rank(), number), len)?;
            sent.wait()?;
        }
        barrier.wait()?;
    }
    Ok(())
}

fn several_outstanding(comm: &Comm) -> Outcome {
    let arrivals = comm.window::<u64>(1)?;
    arrivals.fetch_add(0, 0, 1)?;
    let mut barriers = Vec::new();
    for _ in 0..8 {
        barriers.push(comm.ibarrier()?);
    }
    // The last one started is waited for first.
    while let Some(barrier) = barriers.pop() {
        barrier.wait()?;
        check_eq!(arrivals.get_one(0, 0)?, comm.size() as u64, "arrivals when a barrier completed");
    }
    Ok(arrivals.free()?)
}

fn on_dups_started_in_any_order(comm: &Comm) -> Outcome {
    let dups = [comm.dup()?, comm.dup()?, comm.dup()?];
    for round in 0..20 {
        let mut requests = Vec::new();
        for i in 0..dups.len() {
            let index = (i + comm.rank() + round) % dups.len();
            requests.push(dups[index].ibarrier()?);
        }
        if comm.rank() % 2 == 1 {
            requests.reverse();
        }
        wait_all(requests)?;
    }
    dups.iter().try_for_each(|dup| check_barriers(dup, 5))
}

fn dropped_request_still_counts(comm: &Comm) -> Outcome {
    for _ in 0..10 {
        drop(comm.ibarrier()?);
        comm.barrier()?;
    }
    // One rank drops its request, the others wait for theirs.
    let barrier = comm.ibarrier()?;
    if comm.rank() == 0 {
        drop(barrier)
    } else {
        barrier.wait()?
    }
    check_barriers(comm, 5)
}

fn on_the_hundredth_communicator(comm: &Comm) -> Outcome {
    let mut dups = Vec::new();
    for i in 0..100 {
        let dup = comm.dup()?;
        dup.barrier()?;
        if i % 10 == 9 {
            check_barriers(&dup, 3)?;
        }
        dups.push(dup);
    }
    // A wildcard receive must not match the barrier's messages.
    let dup = dups.last().expect("a hundred were made");
    let (_, right) = ring_neighbors(dup);
    let received = dup.irecv_vec::<u8>(ANY_SOURCE, 3)?;
    dup.barrier()?;
    dup.send(&[7u8], right, 3)?;
    check_eq!(received.wait()?.0, [7], "a message during a barrier");
    check_barriers(dup, 20)
}
