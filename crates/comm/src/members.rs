//! Which ranks of the world are in a communicator, and in which order.
//!
//! Endpoints and errors know ranks of the world; programs, schedules and protocols know those of their communicator. What is
//! stored is a formula where the ranks follow one, and elsewhere a table, of which ranks may share one.

mod cache;
mod leftovers;
mod shared;

use std::cell::OnceCell;

use treepie_base::Result;
use treepie_fabric::{Endpoint, Group};

pub(crate) use leftovers::Leftovers;
pub(crate) use shared::{Layout, Piece, Reach, SharedTable, Window, row_to_tell};

/// The ranks of the world that a communicator has, in its order.
#[derive(Debug)]
pub(crate) enum Members {
    /// All of them, in the order of the world.
    All {
        /// How many.
        ranks: u32,
    },
    /// Every so many, as in rows and columns of grids; also backwards.
    Affine {
        /// The first.
        first: u32,
        /// From one to the next.
        step: i64,
        /// How many.
        ranks: u32,
    },
    /// As listed.
    Listed(Listed),
    /// As listed in a table of which other ranks have parts.
    Shared(Box<SharedTable>),
}

/// A table of ranks.
#[derive(Debug)]
pub(crate) struct Listed {
    world: Box<[u32]>,
    /// Ranks of the communicator in the order of those of the world, made when somebody first looks the other way and the
    /// table is not in order itself.
    sorted: OnceCell<Box<[u32]>>,
    is_sorted: bool,
}

impl Members {
    /// These ranks of a world of so many, each at most once.
    pub(crate) fn new(world: Vec<u32>, of: u32) -> Self {
        let ranks = world.len() as u32;
        let step = match world[..] {
            [one, other, ..] => i64::from(other) - i64::from(one),
            _ => 1,
        };
        let first = world.first().copied().unwrap_or(0);
        let is_affine =
            world.iter().enumerate().all(|(rank, at)| i64::from(first) + rank as i64 * step == i64::from(*at));
        if is_affine {
            return Self::following(first, step, ranks, of);
        }
        let is_sorted = world.is_sorted();
        Members::Listed(Listed { world: world.into(), sorted: OnceCell::new(), is_sorted })
    }

    /// So many ranks of a world of so many from the first one on, each so many behind the one before.
    pub(crate) fn following(first: u32, step: i64, ranks: u32, of: u32) -> Self {
        // One rank alone is no step from anybody.
        let step = if ranks < 2 { 1 } else { step };
        match (first, step, ranks) {
            (0, 1, ranks) if ranks == of => Members::All { ranks },
            _ => Members::Affine { first, step, ranks },
        }
    }

    /// How many.
    pub(crate) fn ranks(&self) -> u32 {
        match self {
            Members::All { ranks } | Members::Affine { ranks, .. } => *ranks,
            Members::Listed(listed) => listed.world.len() as u32,
            Members::Shared(table) => table.ranks(),
        }
    }

    /// The rank of the world that has this rank here.
    #[inline]
    pub(crate) fn world(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        match (self.known_world(rank), self) {
            (Some(world), _) => Ok(world),
            (None, Members::Shared(table)) => table.find_world(rank, endpoint),
            (None, _) => unreachable!("all others know"),
        }
    }

    /// All of them as ranks of the world, as far as they can be found out.
    pub(crate) fn all_in_world(&self, endpoint: &mut Endpoint) -> Vec<u32> {
        (0..self.ranks()).filter_map(|rank| self.world(rank, endpoint).ok()).collect()
    }

    /// The same, if it is known without asking anybody.
    #[inline]
    pub(crate) fn known_world(&self, rank: u32) -> Option<u32> {
        match self {
            Members::All { .. } => Some(rank),
            Members::Affine { first, step, .. } => Some((i64::from(*first) + i64::from(rank) * step) as u32),
            Members::Listed(listed) => Some(listed.world[rank as usize]),
            Members::Shared(table) => table.known_world(rank),
        }
    }

    /// The rank here of a rank of the world, if it is here.
    #[inline]
    pub(crate) fn rank(&self, world: u32, endpoint: &mut Endpoint) -> Result<Option<u32>> {
        match (self.known_rank(world), self) {
            (Some(rank), _) => Ok(rank),
            (None, Members::Shared(table)) => table.find_rank(world, endpoint),
            (None, _) => unreachable!("all others know"),
        }
    }

    /// The same, if it is known without asking anybody.
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

    /// Whether all ranks are known without asking anybody.
    pub(crate) fn know_each_other(&self) -> bool {
        !matches!(self, Members::Shared(_))
    }

    /// Finds out which ranks here those are that the world has lost, where that is not known. An error if it cannot be.
    #[inline]
    pub(crate) fn learn_lost(&self, endpoint: &mut Endpoint) -> Result<()> {
        match self {
            Members::Shared(table) => table.learn_lost(&endpoint.lost_ranks(), endpoint),
            _ => Ok(()),
        }
    }

    /// Whether all ranks of a world of so many are here.
    pub(crate) fn are_all(&self, of: u32) -> bool {
        self.ranks() == of
    }

    /// Bytes that this takes.
    pub(crate) fn memory(&self) -> usize {
        let tables = match self {
            Members::All { .. } | Members::Affine { .. } => 0,
            Members::Listed(listed) => {
                size_of::<u32>() * (listed.world.len() + listed.sorted.get().map_or(0, |sorted| sorted.len()))
            }
            Members::Shared(table) => size_of::<SharedTable>() + table.memory(),
        };
        size_of::<Self>() + tables
    }

    /// In a word.
    pub(crate) fn representation(&self) -> &'static str {
        match self {
            Members::All { .. } => "all ranks",
            Members::Affine { .. } => "formula",
            Members::Listed(_) => "table",
            Members::Shared(_) => "shared table",
        }
    }

    /// Look-ups in a shared table that its cache has answered, and others.
    pub(crate) fn look_ups(&self) -> (u64, u64) {
        match self {
            Members::Shared(table) => table.look_ups(),
            _ => (0, 0),
        }
    }
}

impl Group for Members {
    fn ranks(&self) -> u32 {
        Members::ranks(self)
    }

    fn contains(&self, rank: u32) -> Option<bool> {
        self.known_rank(rank).map(|rank| rank.is_some())
    }
}

impl Listed {
    fn rank(&self, world: u32) -> Option<u32> {
        if self.is_sorted {
            return self.world.binary_search(&world).ok().map(|rank| rank as u32);
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut sorted: Vec<u32> = (0..self.world.len() as u32).collect();
            sorted.sort_unstable_by_key(|rank| self.world[*rank as usize]);
            sorted.into()
        });
        let place = sorted.binary_search_by_key(&world, |rank| self.world[*rank as usize]);
        place.ok().map(|place| sorted[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_lead_to_each_other() {
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
                    assert_eq!(members.known_world(rank), Some(world));
                }
            }
        }
        assert!(Members::new((0..1000).collect(), 1001).memory() < 64);
        assert!(Members::new((0..1000).map(|rank| rank * rank).collect(), 1_000_000).memory() > 4000);
    }
}
