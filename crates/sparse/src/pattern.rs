//! Static sparse exchange: neighbors are discovered once and then reused.   [NBX paper 2.1]

use treepie_base::{Error, Pod, Rank, Result, Sum};
use treepie_comm::{Comm, Request, wait_all};

/// The received messages, each with its source.
pub type Received<T> = Vec<(Rank, Vec<T>)>;

/// The destinations and sources of this rank.
///
/// An exchange sends one message to each destination and receives one from each source, nothing else.
#[derive(Debug)]
pub struct Pattern {
    comm: Comm,
    destinations: Vec<Rank>,
    sources: Vec<Rank>,
}

const TAG: u32 = 0;

impl Pattern {
    pub(crate) fn new(comm: Comm, destinations: Vec<Rank>, sources: Vec<Rank>) -> Self {
        Self { comm, destinations, sources }
    }

    /// The destinations of this rank, sorted.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// The sources of this rank, sorted.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// Whether the destinations of all ranks, here `destinations`, are still the same. A collective operation with the
    /// same result on all ranks.
    pub fn is_unchanged(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<bool> {
        let changed = u64::from(sort_dedup(destinations) != self.destinations);
        Ok(self.comm.allreduce(&[changed], Sum)?[0] == 0)
    }

    /// Sends at most one message to each destination and returns one from each source, sorted by source. The vector of
    /// a source that sent none is empty.
    ///
    /// # Errors
    /// [`Error::Algorithm`] for a message to a rank that is not a destination, or a second message to one rank. The
    /// other ranks then get empty vectors from this rank. The next exchange works.
    pub fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>> {
        let by_destination = self.by_destination(messages);
        // After an error empty messages are sent, or ranks would be out of step.
        let (data, error) = match by_destination {
            Ok(data) => (data, None),
            Err(error) => (self.destinations.iter().map(|_| Vec::new()).collect(), Some(error)),
        };
        let messages = self.destinations.iter().copied().zip(data);
        let sends =
            messages.map(|(to, data)| self.comm.isend(data, to, TAG)).collect::<Result<Vec<Request<'_, _>>>>()?;
        let receive = |from: &Rank| Ok((*from, self.comm.recv_vec::<T>(*from, TAG)?.0));
        let received: Vec<Result<_>> = self.sources.iter().map(receive).collect();
        wait_all(sends)?;
        error.map_or_else(|| received.into_iter().collect(), Err)
    }

    /// The data for each destination.
    fn by_destination<T>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Vec<Vec<T>>> {
        let mut data: Vec<Option<Vec<T>>> = self.destinations.iter().map(|_| None).collect();
        for (to, message) in messages {
            let index = self.destinations.binary_search(&to);
            let index =
                index.map_err(|_| Error::Algorithm(format!("rank {to} is not a destination of this pattern")))?;
            if data[index].replace(message).is_some() {
                return Err(Error::Algorithm(format!("a second message to rank {to} in a pattern exchange")));
            }
        }
        Ok(data.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// Sorted and without duplicates.
pub(crate) fn sort_dedup(ranks: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = ranks.into_iter().collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
