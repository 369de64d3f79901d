//! Who talks to whom in a case, and how ranks wait for each other there.

use std::time::Duration;

use treepie::{Comm, Rank, Tag};
use treepie_base::{hang_limit, hang_message};

use crate::check::{Failure, Outcome};

/// How long a simulated rank waits for something that must happen, in its own time: each look has its price there, so this
/// counts looks, however busy the machine is.
const SIMULATED_LIMIT: Duration = Duration::from_secs(10);

/// The tag of messages that only say "now".
const NOW: Tag = 1_000_000;

/// The ranks before and after this one, going around; itself in a world of one.
pub(crate) fn neighbours(comm: &Comm) -> (Rank, Rank) {
    let (rank, size) = (comm.rank(), comm.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}

/// What a rank does in a case for two, which all pairs do at the same time.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// The even one of a pair, and its partner.
    First(Rank),
    /// The odd one of a pair, and its partner.
    Second(Rank),
    /// The last of an odd number of ranks.
    Nobody,
}

impl Role {
    pub(crate) fn of(comm: &Comm) -> Self {
        let partner = comm.rank() ^ 1;
        match comm.rank() % 2 {
            _ if partner >= comm.size() => Self::Nobody,
            0 => Self::First(partner),
            _ => Self::Second(partner),
        }
    }
}

/// Tells a rank to go on, and does not wait until it does. Everything that was sent to it before is there then.
pub(crate) fn tell(comm: &Comm, to: Rank) -> Outcome {
    drop(comm.isend(Vec::<u8>::new(), to, NOW)?);
    Ok(())
}

/// Waits to be told.
pub(crate) fn be_told(comm: &Comm, by: Rank) -> Outcome {
    comm.recv(&mut [0u8; 0], by, NOW)?;
    Ok(())
}

/// Waits to be told without receiving that.
pub(crate) fn hear(comm: &Comm, from: Rank) -> Outcome {
    comm.probe(from, NOW)?;
    Ok(())
}

/// Asks again and again until the answer is yes.
#[track_caller]
pub(crate) fn until(comm: &Comm, what: &str, mut done: impl FnMut() -> Outcome<bool>) -> Outcome {
    let is_simulated = comm.engine() == "sim";
    let limit = if is_simulated { SIMULATED_LIMIT } else { hang_limit() };
    let begin = comm.now();
    while !done()? {
        if comm.now().saturating_sub(begin) > limit {
            return Err(Failure::new(match is_simulated {
                true => format!("{what} did not happen within {} s of simulated time", limit.as_secs()),
                false => hang_message(what),
            }));
        }
        comm.progress();
        // Simulated ranks take turns anyway, and on a busy machine the core would be gone for milliseconds.
        if !is_simulated {
            std::thread::yield_now();
        }
    }
    Ok(())
}
