//! Exchanges and messages of the program on the same communicator.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, MAX_TAG, Tag, wait_all};

use super::{Begun, any, each, each_begun, exchange};
use crate::check::{Outcome, check, check_eq};
use crate::meeting::neighbours;

/// All bits of tags.
const TAGS: [Tag; 7] = [0, 1, 0xffff, 1 << 18, 1 << 29, 1 << 30, MAX_TAG];

/// Messages that are there before an exchange, and receives that wait during it.
pub(super) fn from_messages(comm: &Comm) -> Outcome {
    let (left, right) = neighbours(comm);
    let size = comm.size();
    each(comm, |comm| {
        let receives: Vec<_> =
            TAGS[..3].iter().map(|tag| comm.irecv_vec::<u64>(left, *tag)).collect::<Result<_, _>>()?;
        exchange(comm, 1, &|from| any(from, 1, size, 4))?;
        let sends: Vec<_> =
            TAGS.iter().map(|tag| comm.isend(vec![u64::from(*tag) + 1], right, *tag)).collect::<Result<_, _>>()?;
        exchange(comm, 2, &|from| any(from, 2, size, 4))?;
        for (receive, tag) in receives.into_iter().zip(TAGS) {
            check_eq!(receive.wait()?.0, [u64::from(tag) + 1], "the message with tag {tag}");
        }
        // The others have waited for somebody who wants them.
        for tag in TAGS.into_iter().skip(3).rev() {
            check_eq!(comm.recv_vec::<u64>(left, tag)?.0, [u64::from(tag) + 1], "the message with tag {tag:x}");
        }
        wait_all(sends)?;
        Ok(())
    })
}

/// Receives of anything from anybody wait through exchanges, and probes see nothing of them.
pub(super) fn from_wildcards(comm: &Comm) -> Outcome {
    let (left, right) = neighbours(comm);
    let size = comm.size();
    let through = |comm: &Comm, run: &dyn Fn(usize) -> Outcome| {
        for (round, tag) in TAGS.into_iter().enumerate() {
            let anything = comm.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
            run(round)?;
            let sent = comm.isend(vec![7u8; 9], right, tag)?;
            let (data, status) = anything.wait()?;
            check_eq!((data, status.source, status.tag), (vec![7; 9], left, tag), "what came to a receive of anything");
            sent.wait()?;
            let seen = comm.iprobe(ANY_SOURCE, ANY_TAG)?;
            // The neighbour may be one message ahead, by the next tag.
            let ahead = TAGS.get(round + 1);
            let is_next = seen.is_none_or(|seen| seen.source == left && Some(&seen.tag) == ahead);
            check!(is_next, "a probe saw {seen:?} after an exchange");
        }
        Ok(comm.barrier()?)
    };
    each(comm, |comm| through(comm, &|round| exchange(comm, round, &|from| any(from, round, size, 4))))?;
    each_begun(comm, |comm| through(comm, &|round| Begun::new(comm, round, 4)?.end(comm, 4)))
}
