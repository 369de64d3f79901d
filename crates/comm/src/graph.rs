//! Communicators whose ranks have neighbours that the program names.

use std::ops::Deref;

use treepie_base::{Bytes, Max, Rank, Region, Result};
use treepie_schedule::Operation;

use crate::comm::Comm;
use crate::protocol::{Route, StoreAndForward};

/// A communicator whose ranks know whom they send to and who sends to them. It has a message space of its own.
#[derive(Clone, Debug)]
pub struct Graph {
    comm: Comm,
    sources: Vec<Rank>,
    destinations: Vec<Rank>,
}

impl Graph {
    /// Who sends to this rank, as often as it has this rank among its destinations: as given, or else in the order of ranks.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// To whom this rank sends, as given.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }
}

impl Deref for Graph {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl Comm {
    /// A communicator of the same ranks in which each knows its neighbours. A rank names those that it sends to, each as often
    /// as it likes, also itself, and learns who sends to it, in ceil(lg P) messages after
    /// an agreement of all ranks on its message space. All ranks call it.
    ///
    /// # Errors
    /// If any rank names one that does not exist; on every rank.
    pub fn graph(&self, destinations: &[Rank]) -> Result<Graph> {
        let _compared = self.agree_on(&[Operation::Allreduce], || "graph".to_owned())?;
        let comm = self.dup_if_all_exist([destinations])?;
        let nothing = || Region::from(Bytes::from(Vec::<u8>::new()));
        let edges = destinations.iter().map(|to| (*to as u32, nothing()));
        let (rank, ranks) = (self.rank() as u32, self.size() as u32);
        let exchange = StoreAndForward::new(rank, ranks, Route::Bruck, edges);
        let mut exchange = comm.run_protocol(exchange, 1, |_| {})?;
        let sources = exchange.take_items().into_iter().map(|(source, _)| source as Rank).collect();
        Ok(Graph { comm, sources, destinations: destinations.to_vec() })
    }

    /// The same where each rank knows both already: nothing is sent to find them out, and nobody checks that what one rank
    /// calls a destination has it as a source. All ranks call it.
    ///
    /// # Errors
    /// If any rank names one that does not exist; on every rank.
    pub fn graph_adjacent(&self, sources: &[Rank], destinations: &[Rank]) -> Result<Graph> {
        let _compared = self.agree_on(&[Operation::Allreduce], || "graph_adjacent".to_owned())?;
        let comm = self.dup_if_all_exist([sources, destinations])?;
        Ok(Graph { comm, sources: sources.to_vec(), destinations: destinations.to_vec() })
    }

    /// A communicator of the same ranks, unless one of them has listed a rank that does not exist, which all learn together
    /// with the context.
    fn dup_if_all_exist<const LISTS: usize>(&self, lists: [&[Rank]; LISTS]) -> Result<Comm> {
        let highest = lists.into_iter().flatten().copied().max().unwrap_or(0) as u64;
        let next = u64::from(self.endpoint().next_context());
        let agreed = self.all_reduce(&[next, highest], Max)?;
        let context = self.take_context([agreed[0]])?;
        self.check_rank(agreed[1] as Rank)?;
        Ok(self.dup_with(context))
    }
}
