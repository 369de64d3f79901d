//! Hubs: vertices with so many arcs that these are spread over ranks.
//! [Pearce, Gokhale, Amato: Faster parallel traversal of scale free graphs at extreme scale with vertex delegates, SC
//! 2014]
//!
//! A hub stays its owner's vertex, and so does what is found out about it. Of its arcs the owner keeps those to own
//! vertices, as the hub's row. Each other one lies on the rank that has the vertex at its end: that rank's share of the
//! hub. Whoever follows a hub follows the row, and sends one message to each rank with a share, which follows that. So
//! no arc from a hub to another rank's vertex is a message.
//!
//! All ranks know the hubs and have a row for each, which is why there are not more than [`MOST`].

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_base::{Pod, Rank};
use treepie_comm::Comm;

use crate::rows::VALUES;
use crate::rows::{Arc, Loose, Rows, sort_into_rows};
use crate::{Bits, Error, Layout, Result};

/// So many hubs take 20 bytes each on every rank. Where more vertices have enough arcs, these are not what makes ranks
/// uneven.
const MOST: usize = 1 << 16;

/// The hubs of a graph, and what a rank has of their arcs.
#[derive(Debug)]
pub struct Hubs<A> {
    list: List,
    /// The arcs from each hub of another rank to this rank's vertices.
    shares: Rows<A>,
}

/// One of a rank's own hubs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    /// Which of the rank's vertices it is.
    pub place: u32,
    /// Which of all hubs it is.
    pub index: u32,
    /// How many of its arcs lie elsewhere.
    pub elsewhere: u64,
    /// The ranks that have them.
    pub ranks: Vec<Rank>,
}

/// Which vertices are hubs.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// The hubs of all ranks, in order.
    numbers: Vec<u64>,
    /// How many each rank has.
    counts: Vec<usize>,
    /// This rank's, in order.
    own: Vec<Hub>,
    /// Which of its vertices these are.
    is_hub: Bits,
}

impl<A: Arc> Hubs<A> {
    pub(crate) fn new(list: List, shares: Rows<A>) -> Self {
        Self { list, shares }
    }

    /// How many hubs there are on all ranks.
    pub fn len(&self) -> usize {
        self.list.numbers.len()
    }

    /// Whether there are none: then all rows are whole.
    pub fn is_empty(&self) -> bool {
        self.list.numbers.is_empty()
    }

    /// The number of a hub.
    #[inline]
    pub fn number(&self, index: u32) -> u64 {
        self.list.numbers[index as usize]
    }

    /// This rank's share of a hub: arcs to own vertices. It has none of its own hubs, whose rows have these arcs.
    #[inline]
    pub fn share(&self, index: u32) -> &[A] {
        self.shares.row(index as usize)
    }

    /// The shares of all hubs.
    pub(crate) fn shares(&self) -> &Rows<A> {
        &self.shares
    }

    /// The hub that an own vertex is, if it is one.
    #[inline]
    pub fn of(&self, place: usize) -> Option<&Hub> {
        // Most graphs have none, and most vertices are none.
        if self.list.own.is_empty() || !self.list.is_hub.has(place) {
            return None;
        }
        let own = &self.list.own;
        own.binary_search_by_key(&(place as u32), |hub| hub.place).ok().map(|found| &own[found])
    }

    /// Sends a message to each rank with a share of an own vertex, if that is a hub. `message` gets the hub's index.
    #[inline]
    pub fn tell<S, M: Pod>(&self, cx: &mut Context<S>, port: Port<M>, place: u32, message: impl Fn(u32) -> M) {
        if let Some(hub) = self.of(place as usize) {
            hub.ranks.iter().for_each(|rank| cx.send(port, *rank, message(hub.index)));
        }
    }

    /// A value of each hub, where `value` has those of own vertices. All ranks call it.
    pub fn gather<T: Pod>(&self, comm: &Comm, value: impl Fn(usize) -> T) -> Result<Vec<T>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let own: Vec<T> = self.list.own.iter().map(|hub| value(hub.place as usize)).collect();
        self.list.gather(comm, &own)
    }

    /// Bytes of the list of hubs on this rank.
    pub(crate) fn memory(&self) -> usize {
        let List { numbers, counts, own, is_hub } = &self.list;
        let ranks = own.iter().map(|hub| hub.ranks.len()).sum::<usize>();
        8 * (numbers.len() + counts.len() + ranks + is_hub.words().len()) + size_of_val(&own[..])
    }
}

impl List {
    /// Everybody's values of own hubs, by index.
    fn gather<T: Pod>(&self, comm: &Comm, own: &[T]) -> Result<Vec<T>> {
        let mut all = filled(T::zeroed(), self.counts.iter().sum(), VALUES)?;
        comm.all_gatherv(own, &self.counts, &mut all)?;
        Ok(all)
    }
}

/// Sorted rows: where each begins, and where the last one ends; and their arcs.
type Sorted = (Vec<u64>, Vec<Loose>);

/// Takes away the arcs that rows with at least `degree` of them have to others' vertices, and gives them to the ranks
/// that have these. Returns the hubs and this rank's shares of them. All ranks call it.
pub(crate) fn split(
    comm: &Comm,
    layout: &Layout,
    degree: Option<u64>,
    (offsets, arcs): &mut Sorted,
) -> Result<(List, Sorted)> {
    let none = || (List::default(), (vec![0], Vec::new()));
    let Some(degree) = degree else { return Ok(none()) };
    let first = layout.first(layout.rank());
    let own = first..first + layout.count(layout.rank()) as u64;
    let list = list(comm, layout, degree, |place| {
        let row = &arcs[offsets[place] as usize..offsets[place + 1] as usize];
        row.split_at(row.partition_point(|arc| own.contains(&arc.to)))
    })?;
    if list.numbers.is_empty() {
        return Ok(none());
    }

    let mut build = ActiveMessages::<Vec<Loose>>::builder(comm);
    let port = build.port::<Loose>("arc of a hub");
    build.on_batch(port, |share, _, arcs| share.extend_from_slice(arcs));
    let moving = list.own.iter().flat_map(|hub| {
        let end = offsets[hub.place as usize + 1] as usize;
        arcs[end - hub.elsewhere as usize..end].iter().map(|arc| Loose { row: hub.index, ..*arc })
    });
    let mut share = Vec::new();
    build.start()?.epoch_for(&mut share, moving, |cx, _, arc| cx.send(port, layout.place(arc.to).0, arc))?;

    take_away(&list.own, offsets, arcs);
    // Repetitions have been taken out by the owner of the hub, if they were to be.
    let shares = sort_into_rows(share, list.numbers.len(), own, false);
    Ok((list, shares?))
}

/// Vertices with so many arcs, some of them to others' vertices. `parts` has the arcs of own vertices: to own vertices
/// and to others. All ranks call it, and get the same error.
fn list<'a>(
    comm: &Comm,
    layout: &Layout,
    degree: u64,
    parts: impl Fn(usize) -> (&'a [Loose], &'a [Loose]),
) -> Result<List> {
    let rows = layout.count(layout.rank());
    let is_hub = |place: &usize| {
        let (near, far) = parts(*place);
        !far.is_empty() && (near.len() + far.len()) as u64 >= degree
    };
    let places: Vec<usize> = (0..rows).filter(is_hub).collect();
    let counts = comm.all_gather(&[places.len()])?;
    let total: usize = counts.iter().sum();
    ensure_few(total, degree)?;
    let before: usize = counts[..layout.rank()].iter().sum();
    let hub = |(index, place): (usize, &usize)| {
        let far = parts(*place).1;
        // In order, so that those of one rank are together.
        let mut ranks: Vec<Rank> = far.iter().map(|arc| layout.place(arc.to).0).collect();
        ranks.dedup();
        ranks.shrink_to_fit();
        Hub { place: *place as u32, index: (before + index) as u32, elsewhere: far.len() as u64, ranks }
    };
    let own: Vec<Hub> = places.iter().enumerate().map(hub).collect();
    let mut is_hub = Bits::try_new(rows)?;
    places.iter().for_each(|place| is_hub.put(*place));
    let numbers: Vec<u64> = places.iter().map(|place| layout.first(layout.rank()) + *place as u64).collect();
    let mut list = List { numbers: Vec::new(), counts, own, is_hub };
    list.numbers = list.gather(comm, &numbers)?;
    Ok(list)
}

fn ensure_few(total: usize, degree: u64) -> Result<()> {
    if total <= MOST {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{total} vertices have at least {degree} arcs, and {MOST} can be split at most: split at a higher degree"
    )))
}

/// Takes the last arcs out of the rows of hubs: those that lie elsewhere.
fn take_away(hubs: &[Hub], offsets: &mut [u64], arcs: &mut Vec<Loose>) {
    let mut hubs = hubs.iter().peekable();
    let mut kept = 0;
    let mut begin = 0;
    for row in 0..offsets.len() - 1 {
        let end = offsets[row + 1] as usize;
        let elsewhere = hubs.next_if(|hub| hub.place as usize == row).map_or(0, |hub| hub.elsewhere as usize);
        arcs.copy_within(begin..end - elsewhere, kept);
        kept += end - elsewhere - begin;
        begin = end;
        offsets[row + 1] = kept as u64;
    }
    arcs.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arc(row: u32, to: u64) -> Loose {
        Loose { to, row, bits: 0 }
    }

    fn hub(place: u32, index: u32, elsewhere: u64, ranks: &[Rank]) -> Hub {
        Hub { place, index, elsewhere, ranks: ranks.to_vec() }
    }

    #[test]
    fn only_arcs_that_lie_elsewhere_are_taken_away() {
        let (mut offsets, mut arcs) = (vec![0, 3, 3, 7, 8], (0..8).map(|to| arc(9, to)).collect::<Vec<_>>());
        let to = |arcs: &[Loose]| arcs.iter().map(|arc| arc.to).collect::<Vec<_>>();
        take_away(&[], &mut offsets, &mut arcs);
        assert_eq!((&offsets[..], to(&arcs)), (&[0, 3, 3, 7, 8][..], (0..8).collect()));
        take_away(&[hub(0, 4, 2, &[1]), hub(2, 5, 3, &[1])], &mut offsets, &mut arcs);
        assert_eq!((&offsets[..], to(&arcs)), (&[0, 1, 1, 2, 3][..], vec![0, 3, 7]));
    }

    #[test]
    fn no_more_vertices_are_split_than_the_bound() {
        assert_eq!(ensure_few(65_536, 10), Ok(()));
        let error = ensure_few(65_537, 10).unwrap_err().to_string();
        assert!(error.contains("65537 vertices have at least 10 arcs, and 65536 can be split at most"), "{error}");
    }

    #[test]
    fn own_hubs_are_found_by_place() {
        let own = vec![hub(3, 7, 1, &[0]), hub(70, 8, 2, &[0, 2])];
        let mut is_hub = Bits::new(100);
        own.iter().for_each(|hub| is_hub.put(hub.place as usize));
        let list = List { numbers: (0..10).collect(), counts: vec![7, 2, 1], own: own.clone(), is_hub };
        let hubs = Hubs::<u32>::new(list, Rows::new(vec![0; 11], vec![0; 10], Vec::new()));
        assert_eq!((hubs.of(3), hubs.of(70)), (Some(&own[0]), Some(&own[1])));
        assert!((0..100).filter(|place| hubs.of(*place).is_some()).eq([3, 70]));
        // Without hubs there is no list of them to look at.
        let none = Hubs::<u32>::new(List::default(), Rows::new(vec![0], Vec::new(), Vec::new()));
        assert_eq!((none.of(3), none.is_empty(), hubs.is_empty()), (None, true, false));
    }
}
