//! Hubs: high-degree vertices whose arcs are distributed over ranks.
//! [Pearce, Gokhale, Amato: Faster parallel traversal of scale free graphs at extreme scale with vertex delegates, SC
//! 2014]
//!
//! The owner of a hub keeps its state, and as its row its arcs to local vertices. Each other arc is stored on the rank
//! that owns its target: that rank's delegate of the hub. To expand a hub, the owner expands the row and sends one
//! message to each rank with a delegate, which expands that. So no arc of a hub costs a message of its own.
//!
//! All ranks list all hubs and have a row for each, so there are at most [`MAX_HUBS`].

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_base::{Pod, Rank};
use treepie_comm::Comm;

use crate::agree::agree;
use crate::csr::{CooEdge, Csr, CsrEdge, VALUES_PURPOSE};
use crate::sorted_rows::{ArcBuckets, GlobalId, SortedRows};
use crate::{Bitmap, EdgeWeight, Error, Result, VertexLayout};

/// A hub takes 20 bytes on every rank. If more vertices reach the hub degree, hubs are not what causes the imbalance.
const MAX_HUBS: usize = 1 << 16;

/// The hubs of a graph, and a rank's delegates of them.
#[derive(Debug)]
pub struct Hubs<W> {
    hubs: HubList,
    /// The arcs from each remote hub to local vertices.
    delegates: Csr<W>,
}

/// A local hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    /// Its local index.
    pub local_index: u32,
    /// Its index among all hubs.
    pub index: u32,
    /// The number of its arcs on other ranks.
    pub num_delegated: u64,
    /// The ranks with delegates.
    pub delegate_ranks: Vec<Rank>,
}

/// Which vertices are hubs.
#[derive(Debug, Default)]
pub(crate) struct HubList {
    /// The hubs of all ranks, sorted.
    global_ids: Vec<u64>,
    /// The number of hubs of each rank.
    counts: Vec<usize>,
    /// The local hubs, sorted.
    local: Vec<Hub>,
    /// Which local vertices are hubs.
    is_hub: Bitmap,
}

impl<W: EdgeWeight> Hubs<W> {
    pub(crate) fn new(hubs: HubList, delegates: Csr<W>) -> Self {
        Self { hubs, delegates }
    }

    /// The number of hubs on all ranks.
    pub fn len(&self) -> usize {
        self.hubs.global_ids.len()
    }

    /// Whether there are no hubs: then all rows are unsplit.
    pub fn is_empty(&self) -> bool {
        self.hubs.global_ids.is_empty()
    }

    /// The global id of a hub.
    #[inline]
    pub fn global_id(&self, index: u32) -> u64 {
        self.hubs.global_ids[index as usize]
    }

    /// This rank's delegate of a hub: its arcs to local vertices. Empty for local hubs, whose rows have these arcs.
    #[inline]
    pub fn delegate_edges(&self, index: u32) -> &[CsrEdge<W>] {
        self.delegates.row(index as usize)
    }

    /// This rank's delegates of all hubs.
    pub(crate) fn delegates(&self) -> &Csr<W> {
        &self.delegates
    }

    /// The hub at a local index, if that vertex is one.
    #[inline]
    pub fn get(&self, local_index: usize) -> Option<&Hub> {
        // Most graphs have no hubs, and most vertices are none.
        if self.hubs.local.is_empty() || !self.hubs.is_hub.contains(local_index) {
            return None;
        }
        let local = &self.hubs.local;
        local.binary_search_by_key(&(local_index as u32), |hub| hub.local_index).ok().map(|found| &local[found])
    }

    /// Sends a message to each rank with a delegate of a local vertex, if that is a hub. `message` gets the hub's
    /// index.
    #[inline]
    pub fn notify_delegates<S, M: Pod>(
        &self,
        cx: &mut Context<S>,
        port: Port<M>,
        local_index: u32,
        message: impl Fn(u32) -> M,
    ) {
        if let Some(hub) = self.get(local_index as usize) {
            hub.delegate_ranks.iter().for_each(|rank| cx.send(port, *rank, message(hub.index)));
        }
    }

    /// A value of each hub; `value` gives those of local vertices. All ranks call it.
    pub(crate) fn allgather<T: Pod>(&self, comm: &Comm, value: impl Fn(usize) -> T) -> Result<Vec<T>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let local: Vec<T> = self.hubs.local.iter().map(|hub| value(hub.local_index as usize)).collect();
        self.hubs.allgather(comm, &local)
    }

    /// Bytes of the list of hubs on this rank.
    pub(crate) fn memory_usage(&self) -> usize {
        let HubList { global_ids, counts, local, is_hub } = &self.hubs;
        let ranks = local.iter().map(|hub| hub.delegate_ranks.len()).sum::<usize>();
        8 * (global_ids.len() + counts.len() + ranks + is_hub.words().len()) + size_of_val(&local[..])
    }
}

impl HubList {
    /// The values of all hubs by index, from each rank's values of its local hubs.
    fn allgather<T: Pod>(&self, comm: &Comm, local: &[T]) -> Result<Vec<T>> {
        let mut all = filled(T::zeroed(), self.counts.iter().sum(), VALUES_PURPOSE)?;
        comm.allgatherv(local, &self.counts, &mut all)?;
        Ok(all)
    }
}

/// Moves the arcs of rows with at least `degree` arcs to the owners of their targets. Returns the hubs and this rank's
/// delegates of them. All ranks call it.
pub(crate) fn delegate_hubs<T: GlobalId>(
    comm: &Comm,
    layout: &VertexLayout,
    degree: Option<u64>,
    rows: &mut SortedRows<T>,
    has_weights: bool,
) -> Result<(HubList, SortedRows<T>)> {
    let none = || (HubList::default(), SortedRows::none());
    let Some(degree) = degree else { return Ok(none()) };
    let first = layout.first_global_id(layout.rank());
    let local = first..first + layout.num_local(layout.rank()) as u64;
    let list = find_hubs(comm, layout, degree, |local_index| {
        let row = rows.row(local_index);
        row.split_at(row.partition_point(|target| local.contains(&(*target).into())))
    })?;
    if list.global_ids.is_empty() {
        return Ok(none());
    }

    let mut build = ActiveMessages::<ArcBuckets>::builder(comm);
    let port = build.port::<CooEdge>("arc of a hub");
    build.on_batch(port, |received, _, arcs| received.extend(arcs));
    let moving = list.local.iter().flat_map(|hub| {
        let end = rows.arcs(hub.local_index as usize).end;
        let arc = |arc: usize| (rows.targets[arc].into(), rows.weight_bits(arc));
        (end - hub.num_delegated as usize..end).map(arc).map(|(target, weight_bits)| CooEdge {
            target,
            row: hub.index,
            weight_bits,
        })
    });
    let mut received = ArcBuckets::new(list.global_ids.len(), local, layout.num_vertices(), has_weights);
    build.start()?.epoch_for(&mut received, moving, |cx, _, arc| cx.send(port, layout.owner(arc.target).0, arc))?;

    let mut hubs = list.local.iter().peekable();
    rows.truncate_rows(|row| {
        hubs.next_if(|hub| hub.local_index as usize == row).map_or(0, |hub| hub.num_delegated as usize)
    });
    // The owner of the hub has already removed parallel arcs, if asked to.
    let delegates = agree(comm, received.into_rows(false, false).map_err(Error::from))?;
    Ok((list, delegates))
}

/// Finds the vertices with at least `degree` arcs, some of them to remote vertices. `local_and_remote` gives the arcs
/// of a local vertex to local and to remote vertices. All ranks call it, and get the same error.
fn find_hubs<'a, T: GlobalId>(
    comm: &Comm,
    layout: &VertexLayout,
    degree: u64,
    local_and_remote: impl Fn(usize) -> (&'a [T], &'a [T]),
) -> Result<HubList> {
    let rows = layout.num_local(layout.rank());
    let is_hub = |local_index: &usize| {
        let (local, remote) = local_and_remote(*local_index);
        !remote.is_empty() && (local.len() + remote.len()) as u64 >= degree
    };
    let local_indices: Vec<usize> = (0..rows).filter(is_hub).collect();
    let counts = comm.allgather(&[local_indices.len()])?;
    let total: usize = counts.iter().sum();
    check_hub_count(total, degree)?;
    let before: usize = counts[..layout.rank()].iter().sum();
    let hub = |(index, local_index): (usize, &usize)| {
        let remote = local_and_remote(*local_index).1;
        // Sorted, so that targets of one rank are adjacent.
        let mut ranks: Vec<Rank> = remote.iter().map(|target| layout.owner((*target).into()).0).collect();
        ranks.dedup();
        ranks.shrink_to_fit();
        Hub {
            local_index: *local_index as u32,
            index: (before + index) as u32,
            num_delegated: remote.len() as u64,
            delegate_ranks: ranks,
        }
    };
    let local: Vec<Hub> = local_indices.iter().enumerate().map(hub).collect();
    let mut is_hub = agree(comm, Bitmap::try_new(rows).map_err(Error::from))?;
    local_indices.iter().for_each(|local_index| is_hub.set(*local_index));
    let global_ids: Vec<u64> =
        local_indices.iter().map(|local_index| layout.first_global_id(layout.rank()) + *local_index as u64).collect();
    let mut list = HubList { global_ids: Vec::new(), counts, local, is_hub };
    list.global_ids = list.allgather(comm, &global_ids)?;
    Ok(list)
}

fn check_hub_count(total: usize, degree: u64) -> Result<()> {
    if total <= MAX_HUBS {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{total} vertices have at least {degree} arcs, but at most {MAX_HUBS} hubs can be split: use a higher degree"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(local_index: u32, index: u32, num_delegated: u64, ranks: &[Rank]) -> Hub {
        Hub { local_index, index, num_delegated, delegate_ranks: ranks.to_vec() }
    }

    #[test]
    fn no_more_vertices_are_split_than_the_bound() {
        assert_eq!(check_hub_count(65_536, 10), Ok(()));
        let error = check_hub_count(65_537, 10).unwrap_err().to_string();
        assert!(error.contains("65537 vertices have at least 10 arcs, but at most 65536 hubs can be split"), "{error}");
    }

    #[test]
    fn local_hubs_are_found_by_local_index() {
        let local = vec![hub(3, 7, 1, &[0]), hub(70, 8, 2, &[0, 2])];
        let mut is_hub = Bitmap::new(100);
        local.iter().for_each(|hub| is_hub.set(hub.local_index as usize));
        let list = HubList { global_ids: (0..10).collect(), counts: vec![7, 2, 1], local: local.clone(), is_hub };
        let hubs = Hubs::<u32>::new(list, Csr::new(vec![0; 11], vec![0; 10], Vec::new()));
        assert_eq!((hubs.get(3), hubs.get(70)), (Some(&local[0]), Some(&local[1])));
        assert!((0..100).filter(|local_index| hubs.get(*local_index).is_some()).eq([3, 70]));
        // Without hubs the list is empty.
        let none = Hubs::<u32>::new(HubList::default(), Csr::new(vec![0], Vec::new(), Vec::new()));
        assert_eq!((none.get(3), none.is_empty(), hubs.is_empty()), (None, true, false));
    }
}
