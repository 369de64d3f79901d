//! Pairs and rings of ranks, and signals that order the steps of a case.

use std::time::Duration;

use treepie::{Comm, Rank, Tag};
use treepie_base::{hang_limit, hang_message};

use crate::check::{Failure, Outcome};

/// How long a simulated rank polls, in simulated time: each poll costs some, so the limit does not depend on the load
/// of the machine.
const SIMULATED_TIMEOUT: Duration = Duration::from_secs(10);

/// The tag of signals.
const SIGNAL_TAG: Tag = 1_000_000;

/// The previous and the next rank around a ring.
pub(crate) fn ring_neighbors(comm: &Comm) -> (Rank, Rank) {
    let (rank, size) = (comm.rank(), comm.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}

/// The role of a rank in a case for pairs of ranks.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// The even one of a pair, and its partner.
    First(Rank),
    /// The odd one of a pair, and its partner.
    Second(Rank),
    /// The last of an odd number of ranks.
    Idle,
}

impl Role {
    pub(crate) fn new(comm: &Comm) -> Self {
        let partner = comm.rank() ^ 1;
        match comm.rank() % 2 {
            _ if partner >= comm.size() => Self::Idle,
            0 => Self::First(partner),
            _ => Self::Second(partner),
        }
    }
}

/// Signals a rank without waiting for it. When it receives the signal, everything sent to it before has arrived.
pub(crate) fn send_signal(comm: &Comm, to: Rank) -> Outcome {
    drop(comm.isend(Vec::<u8>::new(), to, SIGNAL_TAG)?);
    Ok(())
}

/// Waits for a signal.
pub(crate) fn recv_signal(comm: &Comm, from: Rank) -> Outcome {
    comm.recv(&mut [0u8; 0], from, SIGNAL_TAG)?;
    Ok(())
}

/// Waits for a signal without receiving it.
pub(crate) fn probe_signal(comm: &Comm, from: Rank) -> Outcome {
    comm.probe(from, SIGNAL_TAG)?;
    Ok(())
}

/// Polls until `done` returns true.
#[track_caller]
pub(crate) fn poll_until(comm: &Comm, what: &str, mut done: impl FnMut() -> Outcome<bool>) -> Outcome {
    let is_simulated = comm.engine() == "sim";
    let limit = if is_simulated { SIMULATED_TIMEOUT } else { hang_limit() };
    let begin = comm.now();
    while !done()? {
        if comm.now().saturating_sub(begin) > limit {
            return Err(Failure::new(match is_simulated {
                true => format!("{what} did not happen within {} s of simulated time", limit.as_secs()),
                false => hang_message(what),
            }));
        }
        comm.progress();
        // Simulated ranks take turns anyway, and on a busy machine a yield takes milliseconds.
        if !is_simulated {
            std::thread::yield_now();
        }
    }
    Ok(())
}
