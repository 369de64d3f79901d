//! The queues of the library, and how many things wait in them.

use std::fmt;
use std::str::FromStr;

use super::super::figure::{Figure, Measure};

/// Bytes of a message: what the trial that found the first such queue had.
pub(super) const BYTES: usize = 32;

/// The fewest that wait.
pub(super) const LEAST: usize = 100;

/// So many communicators, or collective operations under way, at most: each is some kilobytes.
const MOST_OBJECTS: usize = 100_000;

/// Something in which things wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Receives that wait for their message, each with a tag; the last is served first.
    Posted,
    /// The same for any source and tag.
    PostedAny,
    /// Messages that wait for their receive, each with a tag; the last is received first.
    Unexpected,
    /// The same, received in order by receives for any source and tag.
    UnexpectedAny,
    /// Messages of a protocol, all to one rank: which one, by its place in [`PROTOCOLS`].
    Exchange(usize),
    /// Requests that are waited for together.
    WaitAll,
    WaitAny,
    WaitSome,
    /// Requests that are tested one after the other while none is done.
    Test,
    /// Requests of receives that are dropped, the first first, or cancelled, the last first.
    Drop,
    Cancel,
    /// Sends that wait for their receive.
    Sends,
    /// Messages while receives on so many communicators wait; the last is served first.
    Communicators,
    /// Nonblocking collective operations under way; the last is waited for first.
    Collectives,
}

/// Protocols of exchanges that have a queue for messages. Crystal has none: it puts all into one message.
pub(super) const PROTOCOLS: [&str; 7] = ["pex", "pcx", "rsx", "nbx", "nbx:condition=1", "nbx:condition=2", "crystal"];

/// The protocol that needs a barrier behind all messages, which there is not under MPI.
const BEHIND: usize = 4;

const NAMES: [(Queue, &str, &str); 13] = [
    (Queue::Posted, "posted", "receives with a tag each, served from the last to the first"),
    (Queue::PostedAny, "posted-any", "receives for any source and tag"),
    (Queue::Unexpected, "unexpected", "messages with a tag each, received from the last to the first"),
    (Queue::UnexpectedAny, "unexpected-any", "the same, by receives for any source and tag"),
    (Queue::WaitAll, "wait-all", "requests of receives with one tag; wait_all"),
    (Queue::WaitAny, "wait-any", "requests of receives with a tag each; RequestSet::wait_any until all are done"),
    (Queue::WaitSome, "wait-some", "the same; RequestSet::wait_some"),
    (Queue::Test, "test", "requests none of which is done; one test of each"),
    (Queue::Drop, "drop", "requests of receives, dropped from the first to the last"),
    (Queue::Cancel, "cancel", "the same, cancelled from the last to the first"),
    (Queue::Sends, "sends", "synchronous sends to one rank, whose receives come later"),
    (Queue::Communicators, "communicators", "a receive on each of N communicators, served from the last to the first"),
    (Queue::Collectives, "collectives", "nonblocking allreduces, waited for from the last to the first"),
];

impl Queue {
    /// All of them; under MPI without what there is not.
    pub(super) fn all(on_mpi: bool) -> Vec<Self> {
        let protocols = (0..PROTOCOLS.len()).filter(|place| !on_mpi || *place != BEHIND).map(Queue::Exchange);
        NAMES.iter().map(|(queue, ..)| *queue).chain(protocols).collect()
    }

    /// What waits there.
    pub(super) fn what(self) -> &'static str {
        let known = NAMES.iter().find(|(queue, ..)| *queue == self);
        known.map_or("messages of all other ranks to rank 0, by this protocol", |(.., what)| what)
    }

    /// As in records.
    pub(super) fn name(self, waiting: usize) -> String {
        format!("queues/{self}/{waiting}")
    }

    /// What is measured of it.
    pub(super) fn figures(self, most: usize) -> Vec<Figure> {
        let most = match self {
            Queue::Communicators | Queue::Collectives => most.min(MOST_OBJECTS),
            _ => most,
        };
        let figure = |waiting| Figure {
            name: self.name(waiting),
            case: Case { queue: self, waiting }.to_string(),
            bytes: BYTES,
            measure: Measure::Time,
            through_rings: false,
        };
        sizes(most).into_iter().map(figure).collect()
    }
}

/// How many wait: powers of ten.
pub(super) fn sizes(most: usize) -> Vec<usize> {
    [LEAST, 1000, 10_000, 100_000, 1_000_000].into_iter().filter(|size| *size <= most).collect()
}

/// How often a queue with so many is filled and emptied, after once to warm up.
pub(super) fn batches(waiting: usize) -> usize {
    match waiting {
        ..=10_000 => 9,
        10_001..=100_000 => 3,
        _ => 1,
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMES.iter().find(|(queue, ..)| queue == self)) {
            (_, Some((_, name, _))) => f.write_str(name),
            (Queue::Exchange(place), _) => write!(f, "exchange/{}", PROTOCOLS[*place]),
            _ => unreachable!("all queues have names"),
        }
    }
}

/// A queue with so many waiting. As text: `posted/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) queue: Queue,
    pub(super) waiting: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.waiting)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (name, waiting) = text.rsplit_once('/')?;
            let queue = Queue::all(false).into_iter().find(|queue| queue.to_string() == name)?;
            Some(Self { queue, waiting: waiting.parse().ok().filter(|waiting| *waiting > 0)? })
        };
        parse().ok_or_else(|| "not a case as posted/1000".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
        for figure in Queue::all(false).into_iter().flat_map(|queue| queue.figures(1_000_000)) {
            assert_eq!(figure.case.parse::<Case>().map(|case| case.to_string()), Ok(figure.case));
        }
        for bad in ["", "posted", "posted/0", "posted/x", "heap/100", "exchange/mail/100"] {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_an_engine_lacks_is_left_out() {
        let behind = Queue::Exchange(BEHIND);
        assert_eq!(behind.to_string(), "exchange/nbx:condition=1");
        assert!(Queue::all(false).contains(&behind) && !Queue::all(true).contains(&behind));
    }
}
