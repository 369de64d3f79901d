//! Exchanges and messages of the program on the same communicator.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, MAX_TAG, Tag, wait_all};

use super::{PendingExchange, exchange, for_each_nonblocking_protocol, for_each_protocol, random_plan};
use crate::check::{Outcome, check, check_eq};
use crate::signals::ring_neighbors;

/// Tags that cover the bits that protocols use.
const TAGS: [Tag; 7] = [0, 1, 0xffff, 1 << 18, 1 << 29, 1 << 30, MAX_TAG];

/// Messages that arrive before an exchange, and receives that are posted during it.
pub(super) fn from_messages(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        let receives: Vec<_> =
            TAGS[..3].iter().map(|tag| comm.irecv_vec::<u64>(left, *tag)).collect::<Result<_, _>>()?;
        exchange(comm, 1, &|from| random_plan(from, 1, size, 4))?;
        let sends: Vec<_> =
            TAGS.iter().map(|tag| comm.isend(vec![u64::from(*tag) + 1], right, *tag)).collect::<Result<_, _>>()?;
        exchange(comm, 2, &|from| random_plan(from, 2, size, 4))?;
        for (receive, tag) in receives.into_iter().zip(TAGS) {
            check_eq!(receive.wait()?.0, [u64::from(tag) + 1], "the message with tag {tag}");
        }
        // The others are unexpected messages.
        for tag in TAGS.into_iter().skip(3).rev() {
            check_eq!(comm.recv_vec::<u64>(left, tag)?.0, [u64::from(tag) + 1], "the message with tag {tag:x}");
        }
        wait_all(sends)?;
        Ok(())
    })
}

/// Wildcard receives stay posted through exchanges, and probes see no message of an exchange.
pub(super) fn from_wildcards(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let size = comm.size();
    let through = |comm: &Comm, run: &dyn Fn(usize) -> Outcome| {
        for (round, tag) in TAGS.into_iter().enumerate() {
            let anything = comm.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
            run(round)?;
            let sent = comm.isend(vec![7u8; 9], right, tag)?;
            let (data, status) = anything.wait()?;
            check_eq!((data, status.source, status.tag), (vec![7; 9], left, tag), "the message of a wildcard receive");
            sent.wait()?;
            let seen = comm.iprobe(ANY_SOURCE, ANY_TAG)?;
            // The neighbor may be one message ahead, with the next tag.
            let ahead = TAGS.get(round + 1);
            let is_next = seen.is_none_or(|seen| seen.source == left && Some(&seen.tag) == ahead);
            check!(is_next, "a probe saw {seen:?} after an exchange");
        }
        Ok(comm.barrier()?)
    };
    for_each_protocol(comm, |comm| {
        through(comm, &|round| exchange(comm, round, &|from| random_plan(from, round, size, 4)))
    })?;
    for_each_nonblocking_protocol(comm, |comm| {
        through(comm, &|round| PendingExchange::new(comm, round, 4)?.wait(comm, 4))
    })
}
