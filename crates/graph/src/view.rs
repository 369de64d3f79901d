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
    /// Whose each ghost is, and which of that rank's; in order. The first has the place behind the own vertices', which are
    /// rounded up to a multiple of 64.
    places: Vec<[u32; 2]>,
    /// Ranks that see vertices of this one, and which.
    seen: Vec<(Rank, Vec<u32>)>,
    pattern: Pattern,
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
        let place = |number| {
            let (rank, place) = layout.place(number);
            [rank as u32, place]
        };
        let places: Vec<[u32; 2]> = others().into_iter().map(place).collect();
        let wanted = places.chunk_by(|left, right| left[0] == right[0]);
        let wanted = wanted.map(|of_one| (of_one[0][0] as Rank, of_one.iter().map(|place| place[1]).collect()));
        let seen: Vec<(Rank, Vec<u32>)> = comm.exchange(wanted)?;
        let pattern = comm.pattern(seen.iter().map(|(to, _)| *to))?;
        let len = count.next_multiple_of(64) + places.len();
        let too_many = || Error::Input(format!("rank {rank} sees {len} vertices, more than 2^32; use more ranks"));
        agree(comm, if len > u32::MAX as usize { Err(too_many()) } else { Ok(()) })?;
        Ok(Self { rank, len, own: 0..count, kind: Kind::Ghosts(Ghosts { places, seen, pattern }) })
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
    #[inline]
    pub fn owner(&self, place: u32) -> (Rank, u32) {
        match &self.kind {
            Kind::All { stride } => ((place / stride) as Rank, place % stride),
            Kind::Ghosts(_) if (place as usize) < self.own.end => (self.rank, place),
            Kind::Ghosts(ghosts) => {
                let [rank, place] = ghosts.places[place as usize - self.own.end.next_multiple_of(64)];
                (rank as Rank, place)
            }
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
                let found = ghosts.places.binary_search(&[rank as u32, place]).ok()?;
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
                let of_each = ghosts.places.chunk_by(|left, right| left[0] == right[0]);
                let mut at = first;
                for ((_, words), of_one) in came.iter().zip(of_each) {
                    for (index, _) in of_one.iter().enumerate() {
                        if words[index / 64] >> (index % 64) & 1 != 0 {
                            bits.put(at + index);
                        }
                    }
                    at += of_one.len();
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
                8 * ghosts.places.len() + ghosts.seen.iter().map(|(_, which)| 4 * which.len()).sum::<usize>()
            }
        }
    }
}
