//! Several exchanges on the way at once.

use treepie::{Comm, Error, SparseExchange, Sum};

use super::{BEHIND, Begun, NOTHING, any, each, each_begun, exchange, rounds, works};
use crate::check::{Outcome, check, check_eq};
use crate::meeting::until;

/// On a communicator and a dup of it, begun in another order on every other rank, and blocking ones beside.
pub(super) fn two_communicators(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let size = comm.size();
    each_begun(comm, |here| {
        let there = dup.using("exchange/auto")?;
        for round in 0..rounds(comm, 20) {
            let (first, second) = if comm.rank().is_multiple_of(2) { (here, &there) } else { (&there, here) };
            let number = |of: &Comm| if std::ptr::eq(of, here) { 2 * round } else { 2 * round + 1 };
            let begun = Begun::new(first, number(first), 4)?;
            Begun::new(second, number(second), 4)?.end(second, 4)?;
            begun.end(first, 4)?;
            // One goes on while there is a blocking one on the other.
            let begun = Begun::new(here, round, 4)?;
            exchange(&there, round, &|from| any(from, round, size, 3))?;
            begun.end(here, 4)?;
        }
        Ok(())
    })?;
    // Blocking ones on both, by turns.
    each(&dup, |there| {
        exchange(comm, 1, &|from| any(from, 1, size, 3))?;
        exchange(there, 2, &|from| any(from, 2, size, 3))
    })
}

const MANY: usize = 12;

/// Each rank waits in an order of its own, and for some not at all.
pub(super) fn many(comm: &Comm) -> Outcome {
    let me = comm.rank();
    each_begun(comm, |comm| {
        let mut begun = Vec::new();
        for round in 0..MANY {
            let one = Begun::new(comm, round, 3)?;
            // The others must end whether this rank waits or not.
            if (round + me) % 5 != 4 {
                begun.push(one);
            }
        }
        match me % 3 {
            0 => begun.reverse(),
            1 => begun.rotate_left(5),
            _ => {}
        }
        begun.into_iter().try_for_each(|begun| begun.end(comm, 3))?;
        works(comm, MANY)
    })
}

/// Blocking operations begin and end while exchanges go on.
pub(super) fn beside_others(comm: &Comm) -> Outcome {
    let size = comm.size();
    each_begun(comm, |comm| {
        let first = Begun::new(comm, 1, 5)?;
        let sum = comm.all_reduce(&[comm.rank() as u64 + 1], Sum)?;
        check_eq!(sum, [(1..=size as u64).sum()], "a sum while an exchange goes on");
        let second = Begun::new(comm, 2, 5)?;
        comm.barrier()?;
        // By all protocols, also those that use what only one at a time may use.
        each(comm, |comm| exchange(comm, 3, &|from| any(from, 3, size, 4)))?;
        let gathered = comm.iall_gather(vec![comm.rank()])?;
        second.end(comm, 5)?;
        check_eq!(gathered.wait()?, (0..size).collect::<Vec<_>>(), "what was gathered while exchanges went on");
        comm.ibarrier()?.wait()?;
        first.end(comm, 5)
    })
}

/// Without waiting; and one that cannot go on beside its caller is refused everywhere.
pub(super) fn asked(comm: &Comm) -> Outcome {
    each_begun(comm, |comm| {
        let mut begun = Begun::new(comm, 5, 4)?;
        let mut got = None;
        until(comm, "the end of an exchange", || {
            got = begun.request.test().transpose()?;
            Ok(got.is_some())
        })?;
        let (me, size) = (comm.rank(), comm.size());
        super::check_received(
            &got.unwrap_or_default(),
            me,
            5,
            &|from| any(from, 5, size, 4),
            size,
            crate::payload::bytes,
        )
    })?;
    let refused = comm.using(BEHIND)?.iexchange(NOTHING).err();
    check!(matches!(&refused, Some(Error::Algorithm(why)) if why.contains(BEHIND)), "begun {BEHIND}: {refused:?}");
    works(comm, 1)
}
