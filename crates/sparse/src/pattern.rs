//! Neighbourhoods that stay: found out once, and then used without asking again.   [NBX paper 2.1, the static problem]

use treepie_base::{Error, Pod, Rank, Result, Sum};
use treepie_comm::{Comm, Request, wait_all};

use crate::exchange::{Received, SparseExchange};

/// To whom each rank sends, and from whom it gets something.
///
/// An exchange along it is one message to each destination and one from each source, and nothing else.
#[derive(Debug)]
pub struct Pattern {
    comm: Comm,
    destinations: Vec<Rank>,
    sources: Vec<Rank>,
}

const TAG: u32 = 0;

impl Pattern {
    pub(crate) fn discover(comm: &Comm, destinations: impl IntoIterator<Item = Rank>) -> Result<Self> {
        let destinations = each_once(destinations);
        let empty = destinations.iter().map(|to| (*to, Vec::<u8>::new()));
        let sources = comm.exchange(empty)?.into_iter().map(|(from, _)| from).collect();
        // Its messages must not meet those of the program.
        Ok(Self { comm: comm.dup()?, destinations, sources })
    }

    /// Whom this rank sends to, in order.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// Who sends to this rank, in order.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// Whether each rank still sends to the same ones, here `destinations`. All ranks call it, and get the same answer.
    pub fn holds(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<bool> {
        let changed = u64::from(each_once(destinations) != self.destinations);
        Ok(self.comm.all_reduce(&[changed], Sum)?[0] == 0)
    }

    /// Sends at most one message to each destination, and returns what came, from all sources in order; nothing came from
    /// those with an empty vector.
    ///
    /// # Errors
    /// [`Error::Algorithm`] for a message to a rank that is no destination, or a second one to the same; then the others get
    /// nothing from this rank in this exchange. After an error the next exchange works.
    pub fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>> {
        let sorted = self.sorted(messages);
        // Also then one message goes each way, or ranks would be out of step.
        let (data, refusal) = match sorted {
            Ok(data) => (data, None),
            Err(refusal) => (self.destinations.iter().map(|_| Vec::new()).collect(), Some(refusal)),
        };
        let messages = self.destinations.iter().copied().zip(data);
        let sends =
            messages.map(|(to, data)| self.comm.isend(data, to, TAG)).collect::<Result<Vec<Request<'_, _>>>>()?;
        let receive = |from: &Rank| Ok((*from, self.comm.recv_vec::<T>(*from, TAG)?.0));
        let received: Vec<Result<_>> = self.sources.iter().map(receive).collect();
        wait_all(sends)?;
        refusal.map_or_else(|| received.into_iter().collect(), Err)
    }

    /// What goes to each destination.
    fn sorted<T>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Vec<Vec<T>>> {
        let mut data: Vec<Option<Vec<T>>> = self.destinations.iter().map(|_| None).collect();
        for (to, message) in messages {
            let place = self.destinations.binary_search(&to);
            let place = place.map_err(|_| Error::Algorithm(format!("rank {to} is no destination of this pattern")))?;
            if data[place].replace(message).is_some() {
                return Err(Error::Algorithm(format!("a second message to rank {to} along a pattern")));
            }
        }
        Ok(data.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// In order.
fn each_once(ranks: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = ranks.into_iter().collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
