//! A distributed directory of global ids, for layouts without a formula: each external id has a home rank that resolves
//! it.
//!
//! Vertices with sparse external ids are owned by the rank that the id is hashed to, which assigns global ids in the
//! order of the external ids.

use treepie_base::Rank;
use treepie_comm::Comm;
use treepie_sparse::{Received, SparseExchange};

use crate::hash::splitmix64;
use crate::{Result, VertexLayout};

/// The global ids of some external ids.
pub(crate) struct GlobalIds {
    /// Sorted.
    external_ids: Vec<u64>,
    global_ids: Vec<u64>,
}

impl GlobalIds {
    pub(crate) fn get(&self, external_id: u64) -> Option<u64> {
        self.external_ids.binary_search(&external_id).ok().map(|index| self.global_ids[index])
    }
}

/// A lookup whose requests have been exchanged.
pub(crate) struct DirectoryLookup {
    /// The external ids that this rank requests, sorted.
    external_ids: Vec<u64>,
    /// The same, by home rank.
    sent: Vec<Vec<u64>>,
    requests: Received<u64>,
}

impl DirectoryLookup {
    /// Sends requests for external ids, which may have duplicates, to their home ranks. All ranks call it.
    pub(crate) fn post(comm: &Comm, mut external_ids: Vec<u64>, home: impl Fn(u64) -> Rank) -> Result<Self> {
        external_ids.sort_unstable();
        external_ids.dedup();
        let mut sent = vec![Vec::new(); comm.size()];
        external_ids.iter().for_each(|external_id| sent[home(*external_id)].push(*external_id));
        let outgoing = sent.iter().enumerate().filter(|(_, external_ids)| !external_ids.is_empty());
        let requests = comm.exchange(outgoing.map(|(to, external_ids)| (to, external_ids.clone())))?;
        Ok(Self { external_ids, sent, requests })
    }

    /// Replies to the requests of other ranks. Returns their replies. All ranks call it.
    pub(crate) fn resolve(self, comm: &Comm, global_id_of: impl Fn(&u64) -> u64) -> Result<GlobalIds> {
        let replies = self
            .requests
            .iter()
            .map(|(from, external_ids)| (*from, external_ids.iter().map(&global_id_of).collect::<Vec<u64>>()));
        let mut global_ids = vec![0; self.external_ids.len()];
        for (from, replies) in comm.exchange(replies.collect::<Vec<_>>())? {
            for (external_id, global_id) in self.sent[from].iter().zip(replies) {
                global_ids[self.external_ids.binary_search(external_id).expect("it was requested")] = global_id;
            }
        }
        Ok(GlobalIds { external_ids: self.external_ids, global_ids })
    }
}

/// A layout of all vertices in the external ids of the ranks, and the global ids of this rank's external ids. All ranks
/// call it.
pub(crate) fn assign_global_ids(comm: &Comm, external_ids: Vec<u64>) -> Result<(VertexLayout, GlobalIds)> {
    let lookup = DirectoryLookup::post(comm, external_ids, |external_id| {
        (splitmix64(external_id) % comm.size() as u64) as Rank
    })?;
    let mut local: Vec<u64> = lookup.requests.iter().flat_map(|(_, external_ids)| external_ids).copied().collect();
    local.sort_unstable();
    local.dedup();
    let counts = comm.allgather(&[local.len() as u64])?;
    let first: u64 = counts[..comm.rank()].iter().sum();
    let global_id_of = |external_id: &u64| first + local.binary_search(external_id).expect("it was requested") as u64;
    let global_ids = lookup.resolve(comm, global_id_of)?;
    Ok((VertexLayout::with_external_ids(comm.rank(), &counts, local), global_ids))
}
