//! Distributed graph topologies: communicators whose ranks have neighbors named by the program.

use std::ops::Deref;

use treepie_base::{Bytes, Max, Rank, Region, Result};
use treepie_schedule::Operation;

use crate::comm::Comm;
use crate::protocol::{ForwardingScheme, StoreAndForward};

/// A communicator with a distributed graph topology: each rank knows its sources and destinations. It has its own
/// context.
#[derive(Clone, Debug)]
pub struct DistGraph {
    comm: Comm,
    sources: Vec<Rank>,
    destinations: Vec<Rank>,
}

impl DistGraph {
    /// The ranks that send to this rank, with multiplicity: as passed, otherwise ordered by rank.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// The ranks to which this rank sends, as passed.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }
}

impl Deref for DistGraph {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl Comm {
    /// A communicator of the same ranks with a distributed graph topology (`MPI_Dist_graph_create`). A rank passes the
    /// ranks to which it sends, with any multiplicity, possibly itself, and learns which ranks send to it, by ceil(lg
    /// P) messages after an agreement of all ranks on the context. All ranks call it.
    ///
    /// # Errors
    /// If any rank passes one that does not exist; on every rank.
    pub fn dist_graph_create(&self, destinations: &[Rank]) -> Result<DistGraph> {
        let _compared = self.compare_call(&[Operation::Allreduce], || "dist_graph_create".to_owned())?;
        let comm = self.dup_if_all_exist([destinations])?;
        let empty = || Region::from(Bytes::from(Vec::<u8>::new()));
        let edges = destinations.iter().map(|to| (*to as u32, empty()));
        let (rank, ranks) = (self.rank() as u32, self.size() as u32);
        let exchange = StoreAndForward::new(rank, ranks, ForwardingScheme::Bruck, edges);
        let mut exchange = comm.run_protocol(exchange, 1, |_| {})?;
        let sources = exchange.take_items().into_iter().map(|(source, _)| source as Rank).collect();
        Ok(DistGraph { comm, sources, destinations: destinations.to_vec() })
    }

    /// The same where each rank knows its sources and destinations (`MPI_Dist_graph_create_adjacent`): no edges are
    /// exchanged, and it is not checked that sources and destinations match. All ranks call it.
    ///
    /// # Errors
    /// If any rank passes one that does not exist; on every rank.
    pub fn dist_graph_create_adjacent(&self, sources: &[Rank], destinations: &[Rank]) -> Result<DistGraph> {
        let _compared = self.compare_call(&[Operation::Allreduce], || "dist_graph_create_adjacent".to_owned())?;
        let comm = self.dup_if_all_exist([sources, destinations])?;
        Ok(DistGraph { comm, sources: sources.to_vec(), destinations: destinations.to_vec() })
    }

    /// A communicator of the same ranks, unless one of them has listed a rank that does not exist. All learn of that
    /// together with the context.
    fn dup_if_all_exist<const LISTS: usize>(&self, lists: [&[Rank]; LISTS]) -> Result<Comm> {
        let highest = lists.into_iter().flatten().copied().max().unwrap_or(0) as u64;
        let next = u64::from(self.endpoint().next_context());
        let agreed = self.allreduce(&[next, highest], Max)?;
        let context = self.take_context([agreed[0]])?;
        self.check_rank(agreed[1] as Rank)?;
        Ok(self.dup_with(context))
    }
}
