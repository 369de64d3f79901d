//! What a rank sees of a graph: its own vertices, and those that its arcs lead to.
//!
//! Arcs lead to places of the view, which are numbers of 32 bits whatever the size of the graph. Among few ranks the view has a place
//! for every vertex, so that values of all are brought by one allgather. Among many it has only those at the other end of an
//! arc, called ghosts, so that no rank has memory for all vertices; each owner then sends the values that others see.

use treepie_base::{Pod, Rank};
use treepie_comm::Comm;
use treepie_sparse::{Pattern, SparseExchange};

use crate::agree::agree;
use crate::bits::Bits;
use crate::{Error, Layout, Result};

/// From so many ranks on, a view has only ghosts.
const FEW: usize = 16;

/// Which places a view has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seeing {
    /// All vertices among fewer than sixteen ranks, ghosts among more.
    #[default]
    Auto,
    /// All vertices.
    All,
    /// Ghosts.
    Ghosts,
}

/// The places that a rank sees.
#[derive(Debug)]
pub struct View {
    rank: Rank,
    /// How many places there are.
    len: usize,
    /// The own vertices' places.
    own: std::ops::Range<usize>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Each rank has so many places, a multiple of 64.
    All {
        stride: u32,
    },
    Ghosts(Ghosts),
}

#[derive(Debug)]
struct Ghosts {
    /// Ranks that have some.
    ranks: Vec<u32>,
    /// Where the ghosts of each of them begin, and where the last one's end.
    starts: Vec<u32>,
    /// Which of its rank's vertices each ghost is; in order. The first has the place behind the own vertices', which are
    /// rounded up to a multiple of 64.
    places: Vec<u32>,
    /// Of each [`BLOCK`] of ghosts: whose the first is, by its place among the ranks. In the end whose the last ghost is.
    firsts: Vec<u32>,
    /// Ranks that see vertices of this one, and which.
    seen: Vec<(Rank, Vec<u32>)>,
    pattern: Pattern,
}

/// So many ghosts after one another are mostly of one rank. With a rank for each of them they would take twice the memory.
const BLOCK: usize = 64;

impl Ghosts {
    /// Whose a ghost is, and which of that rank's vertices. Apart from its caller, which can be inlined then where there are none.
    #[inline(never)]
    fn owner(&self, ghost: usize) -> (Rank, u32) {
        // Of the ranks that have some of the block, mostly one.
        let [first, last] = [0, 1].map(|next| self.firsts[ghost / BLOCK + next] as usize);
        let at = first + self.starts[first + 1..=last].partition_point(|start| *start as usize <= ghost);
        (self.ranks[at] as Rank, self.places[ghost])
    }

    /// Where a rank's ghosts are.
    fn range(&self, at: usize) -> std::ops::Range<usize> {
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    /// Which ghost a vertex of a rank is, if it is one.
    fn find(&self, rank: Rank, place: u32) -> Option<usize> {
        let range = self.range(self.ranks.binary_search(&(rank as u32)).ok()?);
        self.places[range.clone()].binary_search(&place).ok().map(|found| range.start + found)
    }
}

impl View {
    /// A view of these vertices of others, in order. All ranks call it.
    pub(crate) fn new(comm: &Comm, layout: &Layout, seeing: Seeing, others: impl FnOnce() -> Vec<u64>) -> Result<Self> {
        let (rank, ranks) = (layout.rank(), layout.ranks());
        let count = layout.count(rank);
        let stride = (0..ranks).map(|rank| layout.count(rank)).max().unwrap_or(0).next_multiple_of(64);
        let fits = stride * ranks <= u32::MAX as usize;
        let all = match seeing {
            Seeing::Auto => ranks < FEW && fits,
            Seeing::All if !fits => {
                return Err(Error::Input("there are too many vertices for each rank to see all of them".to_owned()));
            }
            Seeing::All => true,
            Seeing::Ghosts => false,
        };
        if all {
            let own = rank * stride..rank * stride + count;
            return Ok(Self { rank, len: stride * ranks, own, kind: Kind::All { stride: stride as u32 } });
        }
        let others = others();
        let len = count.next_multiple_of(64) + others.len();
        agree(comm, ensure_places(rank, len))?;
        let (mut ranks, mut starts, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = Vec::with_capacity(others.len());
        for (ghost, number) in others.into_iter().enumerate() {
            let (owner, place) = layout.place(number);
            if ranks.last() != Some(&(owner as u32)) {
                ranks.push(owner as u32);
                starts.push(ghost as u32);
            }
            if ghost % BLOCK == 0 {
                firsts.push(ranks.len() as u32 - 1);
            }
            places.push(place);
        }
        starts.push(places.len() as u32);
        firsts.push((ranks.len() as u32).saturating_sub(1));
        let of_each = ranks.iter().zip(starts.windows(2));
        let wanted = of_each.map(|(owner, ends)| (*owner as Rank, places[ends[0] as usize..ends[1] as usize].to_vec()));
        let seen: Vec<(Rank, Vec<u32>)> = comm.exchange(wanted)?;
        let pattern = comm.pattern(seen.iter().map(|(to, _)| *to))?;
        let ghosts = Ghosts { ranks, starts, places, firsts, seen, pattern };
        Ok(Self { rank, len, own: 0..count, kind: Kind::Ghosts(ghosts) })
    }

    /// How many places there are. Not all need to have a vertex.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to be seen.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The places of the own vertices.
    #[inline]
    pub fn own(&self) -> std::ops::Range<usize> {
        self.own.clone()
    }

    /// Whose vertex is at a place, and which of that rank's it is.
    #[inline(always)]
    pub fn owner(&self, place: u32) -> (Rank, u32) {
        match &self.kind {
            Kind::All { stride } => ((place / stride) as Rank, place % stride),
            Kind::Ghosts(_) if (place as usize) < self.own.end => (self.rank, place),
            Kind::Ghosts(ghosts) => ghosts.owner(place as usize - self.own.end.next_multiple_of(64)),
        }
    }

    /// The number of the vertex at a place.
    #[inline]
    pub fn number(&self, layout: &Layout, place: u32) -> u64 {
        let (rank, place) = self.owner(place);
        layout.first(rank) + u64::from(place)
    }

    /// Where a vertex is seen, if it is.
    pub(crate) fn place(&self, (rank, place): (Rank, u32)) -> Option<u32> {
        match &self.kind {
            Kind::All { stride } => Some(rank as u32 * stride + place),
            Kind::Ghosts(_) if rank == self.rank => Some(place),
            Kind::Ghosts(ghosts) => {
                let found = ghosts.find(rank, place)?;
                Some((self.own.end.next_multiple_of(64) + found) as u32)
            }
        }
    }

    /// Fills in the values at places of others from those that their owners have at theirs. All ranks call it.
    pub fn gather<T: Pod>(&self, comm: &Comm, values: &mut [T]) -> Result<()> {
        match &self.kind {
            Kind::All { .. } => Ok(comm.all_gather_in_place(values)?),
            Kind::Ghosts(ghosts) => {
                let send = |(to, which): &(Rank, Vec<u32>)| {
                    (*to, which.iter().map(|place| values[*place as usize]).collect::<Vec<T>>())
                };
                let came = ghosts.pattern.exchange(ghosts.seen.iter().map(send))?;
                let mut room = &mut values[self.own.end.next_multiple_of(64)..];
                for (_, from_one) in came {
                    let (now, rest) = room.split_at_mut(from_one.len());
                    now.copy_from_slice(&from_one);
                    room = rest;
                }
                Ok(())
            }
        }
    }

    /// The same for a bit of each place.
    pub fn gather_bits(&self, comm: &Comm, bits: &mut Bits) -> Result<()> {
        match &self.kind {
            Kind::All { .. } => Ok(comm.all_gather_in_place(bits.words_mut())?),
            Kind::Ghosts(ghosts) => {
                let send = |(to, which): &(Rank, Vec<u32>)| {
                    let mut packed = Bits::new(which.len());
                    let put = which.iter().enumerate().filter(|(_, place)| bits.has(**place as usize));
                    put.for_each(|(at, _)| packed.put(at));
                    (*to, packed.words().to_vec())
                };
                let came = ghosts.pattern.exchange(ghosts.seen.iter().map(send))?;
                let first = self.own.end.next_multiple_of(64);
                bits.words_mut()[first / 64..].fill(0);
                for (at, (_, words)) in came.iter().enumerate() {
                    let range = ghosts.range(at);
                    let is_put = |index: &usize| words[index / 64] >> (index % 64) & 1 != 0;
                    (0..range.len()).filter(is_put).for_each(|index| bits.put(first + range.start + index));
                }
                Ok(())
            }
        }
    }

    /// Bytes that it needs here.
    pub fn memory(&self) -> usize {
        match &self.kind {
            Kind::All { .. } => 0,
            Kind::Ghosts(ghosts) => {
                let Ghosts { ranks, starts, places, firsts, seen, .. } = ghosts;
                let numbers = ranks.len() + starts.len() + places.len() + firsts.len();
                4 * (numbers + seen.iter().map(|(_, which)| which.len()).sum::<usize>())
            }
        }
    }
}

/// Places have numbers of 32 bits.
fn ensure_places(rank: Rank, len: usize) -> Result<()> {
    if u32::try_from(len).is_ok() {
        return Ok(());
    }
    Err(Error::Input(format!("rank {rank} sees {len} vertices, more than {}; use more ranks", u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_vertices_are_seen_than_have_places() {
        assert_eq!(ensure_places(3, u32::MAX as usize), Ok(()));
        let error = ensure_places(3, 1 << 32).unwrap_err().to_string();
        assert!(error.contains("rank 3 sees 4294967296 vertices, more than 4294967295"), "{error}");
    }
}
