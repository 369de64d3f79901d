//! The queues of the library, and their lengths.

use std::fmt;
use std::str::FromStr;

use crate::harness::case::{Case, OnlyProgram};
use crate::harness::figure::{Figure, Measure};

/// Bytes of a message, as in the trial that found the first slow queue.
pub(super) const MESSAGE_BYTES: usize = 32;

/// The shortest queue.
pub(super) const MIN_WAITING: usize = 100;

/// Maximum number of communicators or pending collectives: each takes some kilobytes.
const MAX_OBJECTS: usize = 100_000;

/// A queue, which is filled with the count of a case. As text: `posted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Posted receives, each with its tag; the last is matched first.
    Posted,
    /// The same with wildcard source and tag.
    PostedAny,
    /// Unexpected messages, each with its tag; the last is received first.
    Unexpected,
    /// The same, received in order with wildcard source and tag.
    UnexpectedAny,
    /// Messages of an exchange protocol to one rank; an index into [`PROTOCOLS`].
    Exchange(usize),
    /// Requests completed together.
    WaitAll,
    WaitAny,
    WaitSome,
    /// Pending requests, tested one after the other.
    Test,
    /// Receive requests that are dropped, first to last, or cancelled, last to first.
    Drop,
    Cancel,
    /// Synchronous sends that wait for their receive.
    Sends,
    /// A posted receive on each of many communicators; the last is matched first.
    Communicators,
    /// Pending nonblocking collectives; the last is waited for first.
    Collectives,
}

/// Exchange protocols. Crystal has no message queue: it puts all into one message.
pub(super) const PROTOCOLS: [&str; 7] = ["pex", "pcx", "rsx", "nbx", "nbx:condition=1", "nbx:condition=2", "crystal"];

/// The protocol that needs a barrier ordered after all messages, which MPI does not have.
const ORDERED_BARRIER_PROTOCOL: usize = 4;

const QUEUE_NAMES: [(Queue, &str, &str); 13] = [
    (Queue::Posted, "posted", "posted receives with distinct tags, matched last to first"),
    (Queue::PostedAny, "posted-any", "posted receives with ANY_SOURCE and ANY_TAG"),
    (Queue::Unexpected, "unexpected", "unexpected messages with distinct tags, received last to first"),
    (Queue::UnexpectedAny, "unexpected-any", "the same, received with ANY_SOURCE and ANY_TAG"),
    (Queue::WaitAll, "wait-all", "receives with one tag; wait_all"),
    (Queue::WaitAny, "wait-any", "receives with distinct tags; RequestSet::wait_any until all complete"),
    (Queue::WaitSome, "wait-some", "the same; RequestSet::wait_some"),
    (Queue::Test, "test", "pending requests; one test of each"),
    (Queue::Drop, "drop", "receive requests, dropped first to last"),
    (Queue::Cancel, "cancel", "the same, cancelled last to first"),
    (Queue::Sends, "sends", "synchronous sends to one rank that receives later"),
    (Queue::Communicators, "communicators", "a receive on each of N communicators, matched last to first"),
    (Queue::Collectives, "collectives", "nonblocking allreduces, waited for last to first"),
];

impl Queue {
    /// All queues; under MPI without the unsupported protocol.
    pub(super) fn all(on_mpi: bool) -> Vec<Self> {
        let protocols =
            (0..PROTOCOLS.len()).filter(|index| !on_mpi || *index != ORDERED_BARRIER_PROTOCOL).map(Queue::Exchange);
        QUEUE_NAMES.iter().map(|(queue, ..)| *queue).chain(protocols).collect()
    }

    /// The items in the queue.
    pub(super) fn description(self) -> &'static str {
        let known = QUEUE_NAMES.iter().find(|(queue, ..)| *queue == self);
        known.map_or("messages of all other ranks to rank 0 with this protocol", |(.., what)| what)
    }

    /// Name in records.
    pub(super) fn name(self, waiting: usize) -> String {
        format!("queues/{self}/{waiting}")
    }

    /// The figures up to a queue length.
    pub(super) fn figures(self, max: usize) -> Vec<Figure> {
        let max = match self {
            Queue::Communicators | Queue::Collectives => max.min(MAX_OBJECTS),
            _ => max,
        };
        let figure = |count| {
            let case = Case { task: self, count, batches: batches(count), program: OnlyProgram };
            Figure::new(self.name(count), &case, Measure::Time)
        };
        sizes(max).into_iter().map(figure).collect()
    }
}

/// Queue lengths: powers of ten.
pub(super) fn sizes(max: usize) -> Vec<usize> {
    [MIN_WAITING, 1000, 10_000, 100_000, 1_000_000].into_iter().filter(|size| *size <= max).collect()
}

/// Batches for a queue length, after one warm-up batch.
pub(super) fn batches(waiting: usize) -> usize {
    match waiting {
        ..=10_000 => 9,
        10_001..=100_000 => 3,
        _ => 1,
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, QUEUE_NAMES.iter().find(|(queue, ..)| queue == self)) {
            (_, Some((_, name, _))) => f.write_str(name),
            (Queue::Exchange(index), _) => write!(f, "exchange/{}", PROTOCOLS[*index]),
            _ => unreachable!("all queues have names"),
        }
    }
}

impl FromStr for Queue {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Queue::all(false).into_iter().find(|queue| queue.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::rank::Queues;
    use super::*;
    use crate::harness::testing::{assert_no_cases, assert_round_trip};

    #[test]
    fn cases_round_trip_through_text() {
        let figures = Queue::all(false).into_iter().flat_map(|queue| queue.figures(1_000_000));
        assert_round_trip::<Queues>(figures.map(|figure| figure.case));
        let bad = ["", "posted", "posted:100", "posted:0:9", "posted:x:9", "heap:100:9", "exchange/mail:100:9"];
        assert_no_cases::<Queues>(&bad);
    }

    #[test]
    fn unsupported_protocols_are_left_out() {
        let ordered = Queue::Exchange(ORDERED_BARRIER_PROTOCOL);
        assert_eq!(ordered.to_string(), "exchange/nbx:condition=1");
        assert!(Queue::all(false).contains(&ordered) && !Queue::all(true).contains(&ordered));
    }
}
