//! The local view of a rank: its local vertices, and the remote vertices that its arcs lead to.
//!
//! Targets of arcs are indices into the view, of 32 bits whatever the size of the graph. On few ranks the view
//! replicates all vertices, and one allgather updates their values. On many ranks it holds only ghosts, the remote
//! endpoints of arcs, so no rank needs memory for all vertices; each owner then sends the values of its mirrors.

use treepie_base::{Pod, Rank};
use treepie_comm::Comm;
use treepie_sparse::{Pattern, SparseExchange};

use crate::agree::agree;
use crate::bitmap::Bitmap;
use crate::{Error, Result, VertexLayout};

/// The number of ranks from which `GhostPolicy::Auto` uses ghosts.
const GHOSTS_FROM_RANKS: usize = 16;

/// Which remote vertices a view holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GhostPolicy {
    /// Replicated on fewer than 16 ranks, ghosts on more.
    #[default]
    Auto,
    /// All vertices.
    Replicated,
    /// Only remote endpoints of arcs.
    Ghosts,
}

/// The vertices that a rank holds values of: local ones, and replicated ones or ghosts.
#[derive(Debug)]
pub struct LocalView {
    rank: Rank,
    /// The number of indices.
    len: usize,
    /// The indices of local vertices.
    local: std::ops::Range<usize>,
    kind: ViewKind,
}

#[derive(Debug)]
enum ViewKind {
    /// `stride` indices for each rank, a multiple of 64.
    Replicated {
        stride: u32,
    },
    Ghosts(Ghosts),
}

#[derive(Debug)]
struct Ghosts {
    /// The owners of ghosts.
    ranks: Vec<u32>,
    /// The first ghost of each owner, then the number of ghosts.
    starts: Vec<u32>,
    /// The local index of each ghost on its owner, sorted. Ghosts follow the local vertices, whose number is rounded up
    /// to a multiple of 64.
    local_indices: Vec<u32>,
    /// The position in `ranks` of the owner of the first ghost of each block of [`BLOCK_GHOSTS`], then of the last
    /// ghost.
    block_owners: Vec<u32>,
    /// Ranks with ghosts of local vertices, and the local indices of these.
    mirrors: Vec<(Rank, Vec<u32>)>,
    pattern: Pattern,
}

/// Ghosts that share an entry of `block_owners`: mostly of one owner. An owner for each ghost would double the memory.
const BLOCK_GHOSTS: usize = 64;

impl Ghosts {
    /// The owner of a ghost, and its local index there. Not inlined, so that its caller is where there are no ghosts.
    #[inline(never)]
    fn owner(&self, ghost: usize) -> (Rank, u32) {
        // Among the owners of the block's ghosts, mostly one.
        let [first, last] = [0, 1].map(|next| self.block_owners[ghost / BLOCK_GHOSTS + next] as usize);
        let at = first + self.starts[first + 1..=last].partition_point(|start| *start as usize <= ghost);
        (self.ranks[at] as Rank, self.local_indices[ghost])
    }

    /// The ghosts of an owner, given by its position in `ranks`.
    fn owner_range(&self, at: usize) -> std::ops::Range<usize> {
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    /// The ghost of a rank's vertex, if there is one.
    fn find(&self, rank: Rank, local_index: u32) -> Option<usize> {
        let range = self.owner_range(self.ranks.binary_search(&(rank as u32)).ok()?);
        self.local_indices[range.clone()].binary_search(&local_index).ok().map(|found| range.start + found)
    }
}

impl LocalView {
    /// A view with ghosts of these global ids, sorted. All ranks call it.
    pub(crate) fn new(
        comm: &Comm,
        layout: &VertexLayout,
        policy: GhostPolicy,
        ghost_ids: impl FnOnce() -> Vec<u64>,
    ) -> Result<Self> {
        let (rank, ranks) = (layout.rank(), layout.num_ranks());
        let count = layout.num_local(rank);
        let stride = (0..ranks).map(|rank| layout.num_local(rank)).max().unwrap_or(0).next_multiple_of(64);
        let fits = stride * ranks <= u32::MAX as usize;
        let replicated = match policy {
            GhostPolicy::Auto => ranks < GHOSTS_FROM_RANKS && fits,
            GhostPolicy::Replicated if !fits => {
                return Err(Error::Input(
                    "there are too many vertices to replicate all of them on each rank".to_owned(),
                ));
            }
            GhostPolicy::Replicated => true,
            GhostPolicy::Ghosts => false,
        };
        if replicated {
            let local = rank * stride..rank * stride + count;
            return Ok(Self { rank, len: stride * ranks, local, kind: ViewKind::Replicated { stride: stride as u32 } });
        }
        let ghost_ids = ghost_ids();
        let len = count.next_multiple_of(64) + ghost_ids.len();
        agree(comm, check_index_range(rank, len))?;
        let (mut ranks, mut starts, mut block_owners) = (Vec::new(), Vec::new(), Vec::new());
        let mut local_indices = Vec::with_capacity(ghost_ids.len());
        for (ghost, global_id) in ghost_ids.into_iter().enumerate() {
            let (owner, local_index) = layout.owner(global_id);
            if ranks.last() != Some(&(owner as u32)) {
                ranks.push(owner as u32);
                starts.push(ghost as u32);
            }
            if ghost % BLOCK_GHOSTS == 0 {
                block_owners.push(ranks.len() as u32 - 1);
            }
            local_indices.push(local_index);
        }
        starts.push(local_indices.len() as u32);
        block_owners.push((ranks.len() as u32).saturating_sub(1));
        let of_each = ranks.iter().zip(starts.windows(2));
        let wanted =
            of_each.map(|(owner, ends)| (*owner as Rank, local_indices[ends[0] as usize..ends[1] as usize].to_vec()));
        let mirrors: Vec<(Rank, Vec<u32>)> = comm.exchange(wanted)?;
        let pattern = comm.pattern(mirrors.iter().map(|(to, _)| *to))?;
        let ghosts = Ghosts { ranks, starts, local_indices, block_owners, mirrors, pattern };
        Ok(Self { rank, len, local: 0..count, kind: ViewKind::Ghosts(ghosts) })
    }

    /// The number of indices. Some may be padding without a vertex.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no indices.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The indices of local vertices.
    #[inline]
    pub fn local_range(&self) -> std::ops::Range<usize> {
        self.local.clone()
    }

    /// The owner of the vertex at an index, and its local index there.
    #[inline(always)]
    pub fn owner(&self, index: u32) -> (Rank, u32) {
        match &self.kind {
            ViewKind::Replicated { stride } => ((index / stride) as Rank, index % stride),
            ViewKind::Ghosts(_) if (index as usize) < self.local.end => (self.rank, index),
            ViewKind::Ghosts(ghosts) => ghosts.owner(index as usize - self.local.end.next_multiple_of(64)),
        }
    }

    /// The global id of the vertex at an index.
    #[inline]
    pub fn global_id(&self, layout: &VertexLayout, index: u32) -> u64 {
        let (rank, local_index) = self.owner(index);
        layout.first_global_id(rank) + u64::from(local_index)
    }

    /// The index of a vertex, if the view holds it.
    pub(crate) fn index_of(&self, (rank, local_index): (Rank, u32)) -> Option<u32> {
        match &self.kind {
            ViewKind::Replicated { stride } => Some(rank as u32 * stride + local_index),
            ViewKind::Ghosts(_) if rank == self.rank => Some(local_index),
            ViewKind::Ghosts(ghosts) => {
                let ghost = ghosts.find(rank, local_index)?;
                Some((self.local.end.next_multiple_of(64) + ghost) as u32)
            }
        }
    }

    /// Updates the values of remote vertices from their owners. All ranks call it.
    pub(crate) fn update_ghosts<T: Pod>(&self, comm: &Comm, values: &mut [T]) -> Result<()> {
        match &self.kind {
            ViewKind::Replicated { .. } => Ok(comm.allgather_in_place(values)?),
            ViewKind::Ghosts(ghosts) => {
                let send = |(to, local_indices): &(Rank, Vec<u32>)| {
                    (*to, local_indices.iter().map(|local_index| values[*local_index as usize]).collect::<Vec<T>>())
                };
                let received = ghosts.pattern.exchange(ghosts.mirrors.iter().map(send))?;
                let mut unfilled = &mut values[self.local.end.next_multiple_of(64)..];
                for (_, values_of_owner) in received {
                    let (filled, rest) = unfilled.split_at_mut(values_of_owner.len());
                    filled.copy_from_slice(&values_of_owner);
                    unfilled = rest;
                }
                Ok(())
            }
        }
    }

    /// Updates a bit for each remote vertex from its owner. All ranks call it.
    pub(crate) fn update_ghost_bits(&self, comm: &Comm, bits: &mut Bitmap) -> Result<()> {
        match &self.kind {
            ViewKind::Replicated { .. } => Ok(comm.allgather_in_place(bits.words_mut())?),
            ViewKind::Ghosts(ghosts) => {
                let send = |(to, local_indices): &(Rank, Vec<u32>)| {
                    let mut packed = Bitmap::new(local_indices.len());
                    let set_bits = local_indices
                        .iter()
                        .enumerate()
                        .filter(|(_, local_index)| bits.contains(**local_index as usize));
                    set_bits.for_each(|(at, _)| packed.set(at));
                    (*to, packed.words().to_vec())
                };
                let received = ghosts.pattern.exchange(ghosts.mirrors.iter().map(send))?;
                let first = self.local.end.next_multiple_of(64);
                bits.words_mut()[first / 64..].fill(0);
                for (at, (_, words)) in received.iter().enumerate() {
                    let range = ghosts.owner_range(at);
                    let is_set = |index: &usize| words[index / 64] >> (index % 64) & 1 != 0;
                    (0..range.len()).filter(is_set).for_each(|index| bits.set(first + range.start + index));
                }
                Ok(())
            }
        }
    }

    /// Bytes on this rank.
    pub fn memory_usage(&self) -> usize {
        match &self.kind {
            ViewKind::Replicated { .. } => 0,
            ViewKind::Ghosts(ghosts) => {
                let Ghosts { ranks, starts, local_indices, block_owners, mirrors, .. } = ghosts;
                let numbers = ranks.len() + starts.len() + local_indices.len() + block_owners.len();
                4 * (numbers + mirrors.iter().map(|(_, vertices)| vertices.len()).sum::<usize>())
            }
        }
    }
}

/// Indices have 32 bits.
fn check_index_range(rank: Rank, len: usize) -> Result<()> {
    if u32::try_from(len).is_ok() {
        return Ok(());
    }
    Err(Error::Input(format!(
        "rank {rank} has {len} local vertices and ghosts, more than {}; use more ranks",
        u32::MAX
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_larger_than_the_index_range_are_refused() {
        assert_eq!(check_index_range(3, u32::MAX as usize), Ok(()));
        let error = check_index_range(3, 1 << 32).unwrap_err().to_string();
        assert!(error.contains("rank 3 has 4294967296 local vertices and ghosts, more than 4294967295"), "{error}");
    }
}
