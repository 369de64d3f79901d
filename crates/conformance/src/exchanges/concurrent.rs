//! Several exchanges under way at once.

use treepie::{Comm, Error, SparseExchange, Sum};

use super::{
    NEEDS_ENGINE_BARRIER, NOTHING, PendingExchange, check_usable, exchange, for_each_nonblocking_protocol,
    for_each_protocol, random_plan, rounds,
};
use crate::check::{Outcome, check, check_eq};
use crate::signals::poll_until;

/// Exchanges on a communicator and its dup, started in the other order on odd ranks, with blocking ones in between.
pub(super) fn two_communicators(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let size = comm.size();
    for_each_nonblocking_protocol(comm, |here| {
        let there = dup.with_algorithm("exchange/auto")?;
        for round in 0..rounds(comm, 20) {
            let (first, second) = if comm.rank().is_multiple_of(2) { (here, &there) } else { (&there, here) };
            let number = |of: &Comm| if std::ptr::eq(of, here) { 2 * round } else { 2 * round + 1 };
            let pending = PendingExchange::new(first, number(first), 4)?;
            PendingExchange::new(second, number(second), 4)?.wait(second, 4)?;
            pending.wait(first, 4)?;
            // One is under way during a blocking exchange on the other communicator.
            let pending = PendingExchange::new(here, round, 4)?;
            exchange(&there, round, &|from| random_plan(from, round, size, 3))?;
            pending.wait(here, 4)?;
        }
        Ok(())
    })?;
    // Blocking exchanges alternate between the two.
    for_each_protocol(&dup, |there| {
        exchange(comm, 1, &|from| random_plan(from, 1, size, 3))?;
        exchange(there, 2, &|from| random_plan(from, 2, size, 3))
    })
}

const MANY: usize = 12;

/// Each rank waits in a different order, and drops some requests.
pub(super) fn many(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for_each_nonblocking_protocol(comm, |comm| {
        let mut pending = Vec::new();
        for round in 0..MANY {
            let one = PendingExchange::new(comm, round, 3)?;
            // The other ranks' exchanges must complete whether this rank waits or not.
            if (round + me) % 5 != 4 {
                pending.push(one);
            }
        }
        match me % 3 {
            0 => pending.reverse(),
            1 => pending.rotate_left(5),
            _ => {}
        }
        pending.into_iter().try_for_each(|pending| pending.wait(comm, 3))?;
        check_usable(comm, MANY)
    })
}

/// Blocking operations while exchanges are under way.
pub(super) fn beside_others(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_nonblocking_protocol(comm, |comm| {
        let first = PendingExchange::new(comm, 1, 5)?;
        let sum = comm.allreduce(&[comm.rank() as u64 + 1], Sum)?;
        check_eq!(sum, [(1..=size as u64).sum()], "an allreduce while an exchange is under way");
        let second = PendingExchange::new(comm, 2, 5)?;
        comm.barrier()?;
        // With all protocols, including the one that uses the engine barrier.
        for_each_protocol(comm, |comm| exchange(comm, 3, &|from| random_plan(from, 3, size, 4)))?;
        let gathered = comm.iallgather(vec![comm.rank()])?;
        second.wait(comm, 5)?;
        check_eq!(gathered.wait()?, (0..size).collect::<Vec<_>>(), "an iallgather while exchanges are under way");
        comm.ibarrier()?.wait()?;
        first.wait(comm, 5)
    })
}

/// Completes exchanges by `test`. The protocol without a nonblocking form is refused on every rank.
pub(super) fn tested(comm: &Comm) -> Outcome {
    for_each_nonblocking_protocol(comm, |comm| {
        let mut pending = PendingExchange::new(comm, 5, 4)?;
        let mut got = None;
        poll_until(comm, "the end of an exchange", || {
            got = pending.request.test().transpose()?;
            Ok(got.is_some())
        })?;
        let (me, size) = (comm.rank(), comm.size());
        super::check_received(
            &got.unwrap_or_default(),
            me,
            5,
            &|from| random_plan(from, 5, size, 4),
            size,
            crate::payload::bytes,
        )
    })?;
    let refused = comm.with_algorithm(NEEDS_ENGINE_BARRIER)?.iexchange(NOTHING).err();
    check!(
        matches!(&refused, Some(Error::Algorithm(why)) if why.contains(NEEDS_ENGINE_BARRIER)),
        "nonblocking {NEEDS_ENGINE_BARRIER}: {refused:?}"
    );
    check_usable(comm, 1)
}
