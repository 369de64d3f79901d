//! A distributed directory of global ids, for layouts without a formula: each external id has a home rank that resolves
//! it.
//!
//! Vertices with sparse external ids are owned by the rank that the id is hashed to, which assigns global ids in the
//! order of the external ids.

use treepie_base::Rank;
use treepie_base::memory::filled;
use treepie_comm::Comm;
use treepie_sparse::{Received, SparseExchange};

use crate::agree::agree;
use crate::hash::splitmix64;
use crate::id_table::IdTable;
use crate::{Error, Result, VertexLayout};

/// The global id of an external id that no rank resolves.
pub(crate) const UNKNOWN_GLOBAL_ID: u64 = u64::MAX;

/// What the memory is for, in error messages.
pub(crate) const GLOBAL_IDS_PURPOSE: &str = "the global ids of the vertices that a rank reads";

/// A lookup whose requests have been exchanged.
pub(crate) struct DirectoryLookup {
    /// The positions of the requested external ids, by home rank.
    sent: Vec<Vec<u32>>,
    /// The global ids, in the order of the external ids.
    global_ids: Vec<u64>,
    requests: Received<u64>,
}

impl DirectoryLookup {
    /// Sends requests for distinct external ids to their home ranks; those without one are unknown. All ranks call it.
    pub(crate) fn post(comm: &Comm, external_ids: &[u64], home: impl Fn(u64) -> Option<Rank>) -> Result<Self> {
        let global_ids = filled(UNKNOWN_GLOBAL_ID, external_ids.len(), GLOBAL_IDS_PURPOSE);
        let global_ids = agree(comm, global_ids.map_err(Error::from))?;
        let (mut sent, mut outgoing) = (vec![Vec::new(); comm.size()], vec![Vec::new(); comm.size()]);
        for (position, external_id) in (0..).zip(external_ids) {
            if let Some(home) = home(*external_id) {
                sent[home].push(position);
                outgoing[home].push(*external_id);
            }
        }
        let outgoing = outgoing.into_iter().enumerate().filter(|(_, external_ids)| !external_ids.is_empty());
        let requests = comm.exchange(outgoing)?;
        Ok(Self { sent, global_ids, requests })
    }

    /// Replies to the requests of other ranks. Returns their replies: global ids in the order of the external ids. All ranks
    /// call it.
    pub(crate) fn resolve(self, comm: &Comm, global_id_of: impl Fn(&u64) -> u64) -> Result<Vec<u64>> {
        let Self { sent, mut global_ids, requests } = self;
        let replies =
            requests.iter().map(|(from, external_ids)| (*from, external_ids.iter().map(&global_id_of).collect()));
        let replies: Vec<(Rank, Vec<u64>)> = replies.collect();
        drop(requests);
        for (from, replies) in comm.exchange(replies)? {
            for (position, global_id) in sent[from].iter().zip(replies) {
                global_ids[*position as usize] = global_id;
            }
        }
        Ok(global_ids)
    }
}

/// A layout of all vertices in the external ids of the ranks, and the global ids of this rank's distinct external ids, in
/// their order. All ranks call it.
pub(crate) fn assign_global_ids(comm: &Comm, external_ids: &[u64]) -> Result<(VertexLayout, Vec<u64>)> {
    let home = |external_id| Some((splitmix64(external_id) % comm.size() as u64) as Rank);
    let lookup = DirectoryLookup::post(comm, external_ids, home)?;
    let mut table = IdTable::new();
    let mut requests = lookup.requests.iter();
    let numbered = requests.try_for_each(|(_, external_ids)| table.number_all(external_ids, |_| {}));
    agree(comm, numbered)?;
    let counts = comm.allgather(&[table.ids().len() as u64])?;
    let first: u64 = counts[..comm.rank()].iter().sum();
    // Global ids are in the order of the external ids.
    let mut order: Vec<u32> = (0..table.ids().len() as u32).collect();
    order.sort_unstable_by_key(|number| table.ids()[*number as usize]);
    let mut local_indices = vec![0; order.len()];
    (0..).zip(&order).for_each(|(local_index, number)| local_indices[*number as usize] = local_index);
    let global_id_of =
        |external_id: &u64| first + local_indices[table.get(*external_id).expect("it was requested") as usize];
    let global_ids = lookup.resolve(comm, global_id_of)?;
    let local = order.iter().map(|number| table.ids()[*number as usize]).collect();
    Ok((VertexLayout::with_external_ids(comm.rank(), &counts, local), global_ids))
}
