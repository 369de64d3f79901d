//! The ranks of a communicator: the map between its ranks and world ranks.
//!
//! Endpoints and errors use world ranks; programs, schedules and protocols use ranks of their communicator. The map is
//! an affine formula where the ranks follow one, otherwise a table, which may be distributed over the ranks.

mod cache;
mod deferred_frees;
mod shared_table;

use std::cell::OnceCell;

use treepie_base::Result;
use treepie_fabric::{Endpoint, RankGroup};

pub(crate) use deferred_frees::DeferredFrees;
pub(crate) use shared_table::{MappedTable, MappedTableLayout, RemoteTable, SharedTable, TableAccess, encode_row};

/// The world ranks of a communicator, in its order.
#[derive(Debug)]
pub(crate) enum Members {
    /// All ranks, in the order of the world.
    All {
        /// Number of ranks.
        ranks: u32,
    },
    /// An affine sequence, as in rows and columns of grids; the step may be negative.
    Affine {
        /// World rank of rank 0.
        first: u32,
        /// Difference of consecutive world ranks.
        step: i64,
        /// Number of ranks.
        ranks: u32,
    },
    /// A table on this rank.
    Listed(RankList),
    /// A table that is distributed over the ranks.
    Shared(Box<SharedTable>),
}

/// A table of world ranks.
#[derive(Debug)]
pub(crate) struct RankList {
    world_ranks: Box<[u32]>,
    /// Ranks ordered by world rank, for the inverse map. Built at its first use, if the table itself is not sorted.
    sorted: OnceCell<Box<[u32]>>,
    is_sorted: bool,
}

impl Members {
    /// These world ranks, without duplicates, of a world with `of` ranks.
    pub(crate) fn new(world_ranks: Vec<u32>, world_size: u32) -> Self {
        let ranks = world_ranks.len() as u32;
        let step = match world_ranks[..] {
            [one, other, ..] => i64::from(other) - i64::from(one),
            _ => 1,
        };
        let first = world_ranks.first().copied().unwrap_or(0);
        let is_affine = world_ranks
            .iter()
            .enumerate()
            .all(|(rank, world)| i64::from(first) + rank as i64 * step == i64::from(*world));
        if is_affine {
            return Self::affine(first, step, ranks, world_size);
        }
        let is_sorted = world_ranks.is_sorted();
        Members::Listed(RankList { world_ranks: world_ranks.into(), sorted: OnceCell::new(), is_sorted })
    }

    /// The `ranks` world ranks `first`, `first + step`, ... of a world with `world_size` ranks.
    pub(crate) fn affine(first: u32, step: i64, ranks: u32, world_size: u32) -> Self {
        // A single rank has no step.
        let step = if ranks < 2 { 1 } else { step };
        match (first, step, ranks) {
            (0, 1, ranks) if ranks == world_size => Members::All { ranks },
            _ => Members::Affine { first, step, ranks },
        }
    }

    /// Number of ranks.
    pub(crate) fn ranks(&self) -> u32 {
        match self {
            Members::All { ranks } | Members::Affine { ranks, .. } => *ranks,
            Members::Listed(listed) => listed.world_ranks.len() as u32,
            Members::Shared(table) => table.ranks(),
        }
    }

    /// The world rank of a rank.
    #[inline]
    pub(crate) fn world_rank(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        match (self.known_world_rank(rank), self) {
            (Some(world), _) => Ok(world),
            (None, Members::Shared(table)) => table.lookup_world_rank(rank, endpoint),
            (None, _) => unreachable!("only shared tables need a lookup"),
        }
    }

    /// The world ranks of all members that can be looked up.
    pub(crate) fn world_ranks(&self, endpoint: &mut Endpoint) -> Vec<u32> {
        (0..self.ranks()).filter_map(|rank| self.world_rank(rank, endpoint).ok()).collect()
    }

    /// The same, if it is known without communication.
    #[inline]
    pub(crate) fn known_world_rank(&self, rank: u32) -> Option<u32> {
        match self {
            Members::All { .. } => Some(rank),
            Members::Affine { first, step, .. } => Some((i64::from(*first) + i64::from(rank) * step) as u32),
            Members::Listed(listed) => Some(listed.world_ranks[rank as usize]),
            Members::Shared(table) => table.known_world_rank(rank),
        }
    }

    /// The rank of a world rank, if it is a member.
    #[inline]
    pub(crate) fn rank(&self, world: u32, endpoint: &mut Endpoint) -> Result<Option<u32>> {
        match (self.known_rank(world), self) {
            (Some(rank), _) => Ok(rank),
            (None, Members::Shared(table)) => table.lookup_rank(world, endpoint),
            (None, _) => unreachable!("only shared tables need a lookup"),
        }
    }

    /// The same, if it is known without communication.
    #[inline]
    pub(crate) fn known_rank(&self, world: u32) -> Option<Option<u32>> {
        match self {
            Members::All { ranks } => Some((world < *ranks).then_some(world)),
            Members::Affine { first, step, ranks } => {
                let distance = i64::from(world) - i64::from(*first);
                let rank = distance / step;
                Some((distance % step == 0 && (0..i64::from(*ranks)).contains(&rank)).then_some(rank as u32))
            }
            Members::Listed(listed) => Some(listed.rank(world)),
            Members::Shared(table) => table.known_rank(world),
        }
    }

    /// Whether all ranks are known without communication.
    pub(crate) fn is_fully_known(&self) -> bool {
        !matches!(self, Members::Shared(_))
    }

    /// Looks up the ranks of failed world ranks, where they are not known. An error if that is impossible.
    #[inline]
    pub(crate) fn resolve_failed(&self, endpoint: &mut Endpoint) -> Result<()> {
        match self {
            Members::Shared(table) => table.resolve_failed(&endpoint.lost_ranks(), endpoint),
            _ => Ok(()),
        }
    }

    /// Whether it contains all ranks of a world of this size.
    pub(crate) fn is_whole_world(&self, world_size: u32) -> bool {
        self.ranks() == world_size
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let tables = match self {
            Members::All { .. } | Members::Affine { .. } => 0,
            Members::Listed(listed) => {
                size_of::<u32>() * (listed.world_ranks.len() + listed.sorted.get().map_or(0, |sorted| sorted.len()))
            }
            Members::Shared(table) => size_of::<SharedTable>() + table.memory(),
        };
        size_of::<Self>() + tables
    }

    /// The name of the representation.
    pub(crate) fn representation(&self) -> &'static str {
        match self {
            Members::All { .. } => "all ranks",
            Members::Affine { .. } => "formula",
            Members::Listed(_) => "table",
            Members::Shared(_) => "shared table",
        }
    }

    /// Lookups in a shared table that hit the cache, and those that missed.
    pub(crate) fn lookups(&self) -> (u64, u64) {
        match self {
            Members::Shared(table) => table.lookups(),
            _ => (0, 0),
        }
    }
}

impl RankGroup for Members {
    fn ranks(&self) -> u32 {
        Members::ranks(self)
    }

    fn contains(&self, rank: u32) -> Option<bool> {
        self.known_rank(rank).map(|rank| rank.is_some())
    }
}

impl RankList {
    fn rank(&self, world: u32) -> Option<u32> {
        if self.is_sorted {
            return self.world_ranks.binary_search(&world).ok().map(|rank| rank as u32);
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut sorted: Vec<u32> = (0..self.world_ranks.len() as u32).collect();
            sorted.sort_unstable_by_key(|rank| self.world_ranks[*rank as usize]);
            sorted.into()
        });
        let index = sorted.binary_search_by_key(&world, |rank| self.world_ranks[*rank as usize]);
        index.ok().map(|index| sorted[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_world_ranks_are_inverse() {
        let lists: [(&[u32], &str); 10] = [
            (&[0, 1, 2, 3, 4, 5, 6, 7], "all ranks"),
            (&[0, 1, 2], "formula"),
            (&[5], "formula"),
            (&[], "formula"),
            (&[1, 4, 7], "formula"),
            (&[7, 6, 5, 4, 3, 2, 1, 0], "formula"),
            (&[6, 3, 0], "formula"),
            (&[0, 1, 3, 7], "table"),
            (&[4, 2, 7, 0], "table"),
            (&[0, 1, 2, 3, 4, 5, 7, 6], "table"),
        ];
        for (list, representation) in lists {
            let members = Members::new(list.to_vec(), 8);
            assert_eq!(members.representation(), representation, "{list:?}");
            assert_eq!(members.ranks() as usize, list.len());
            for world in 0..9 {
                let rank = list.iter().position(|at| *at == world).map(|rank| rank as u32);
                assert_eq!(members.known_rank(world), Some(rank), "{world} in {list:?}");
                if let Some(rank) = rank {
                    assert_eq!(members.known_world_rank(rank), Some(world));
                }
            }
        }
        assert!(Members::new((0..1000).collect(), 1001).memory() < 64);
        assert!(Members::new((0..1000).map(|rank| rank * rank).collect(), 1_000_000).memory() > 4000);
    }
}
