//! The assignment of vertices to ranks, and the mapping between external and global ids.
//!
//! Each rank owns a contiguous range of global ids, from `starts[rank]` on. A [`Distribution`] maps external ids to
//! global ids by a formula, so no rank needs a table of all vertices.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use treepie_base::Rank;

use crate::hash_permutation::HashPermutation;
use crate::{Error, Result};

/// How vertices are distributed over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Blocks of consecutive external ids.
    #[default]
    Block,
    /// Round-robin.
    Cyclic,
    /// Pseudo-random, by a hash.
    Hashed,
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "block" => Ok(Self::Block),
            "cyclic" => Ok(Self::Cyclic),
            "hashed" => Ok(Self::Hashed),
            _ => Err(Error::Input(format!("`{text}` is no distribution: block, cyclic or hashed"))),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::Hashed => "hashed",
        })
    }
}

/// The mapping from external to global ids.
#[derive(Clone, Debug)]
enum IdMapping {
    /// External ids are global ids.
    Identity,
    /// External id `v` has local index `v / ranks` on rank `v % ranks`.
    Cyclic,
    /// A pseudo-random permutation.
    Hashed(HashPermutation),
    /// External ids are arbitrary. Each rank knows those of its local vertices, sorted.
    Explicit(Vec<u64>),
}

/// The assignment of vertices to ranks.
#[derive(Clone, Debug)]
pub struct VertexLayout {
    rank: Rank,
    /// The first global id of each rank, then the number of vertices.
    starts: Vec<u64>,
    /// The number of vertices of each rank, if it is the same for all but the last ranks.
    block_size: Option<u64>,
    id_mapping: IdMapping,
    /// The external id of the first vertex, if they are consecutive; no vertex has a lower one.
    first_id: u64,
}

impl VertexLayout {
    /// Distributes `vertices` with the external ids 0, 1, ... over `ranks`.
    pub fn new(rank: Rank, ranks: usize, vertices: u64, distribution: Distribution) -> Self {
        let block = vertices.div_ceil(ranks as u64).max(1);
        let (id_mapping, starts) = match distribution {
            Distribution::Block => (IdMapping::Identity, block_starts(block, ranks, vertices)),
            Distribution::Hashed => {
                (IdMapping::Hashed(HashPermutation::new(vertices)), block_starts(block, ranks, vertices))
            }
            Distribution::Cyclic => {
                let (each, more) = (vertices / ranks as u64, vertices % ranks as u64);
                (IdMapping::Cyclic, (0..=ranks as u64).map(|rank| rank * each + rank.min(more)).collect())
            }
        };
        let block_size = (distribution != Distribution::Cyclic).then_some(block);
        Self { rank, starts, block_size, id_mapping, first_id: 0 }
    }

    /// The same with the external ids `first_id`, `first_id` + 1, ...
    #[must_use]
    pub fn with_first_id(self, first_id: u64) -> Self {
        Self { first_id, ..self }
    }

    /// A layout of arbitrary external ids: the number of vertices of each rank, and this rank's ids, sorted.
    pub(crate) fn with_external_ids(rank: Rank, counts: &[u64], external_ids: Vec<u64>) -> Self {
        let mut starts = vec![0];
        starts.extend(counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        Self { rank, starts, block_size: None, id_mapping: IdMapping::Explicit(external_ids), first_id: 0 }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    pub fn num_ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of vertices on all ranks.
    pub fn num_vertices(&self) -> u64 {
        self.starts[self.num_ranks()]
    }

    /// The number of vertices that a rank owns.
    pub fn num_local(&self, rank: Rank) -> usize {
        (self.starts[rank + 1] - self.starts[rank]) as usize
    }

    /// The first global id of a rank.
    #[inline]
    pub fn first_global_id(&self, rank: Rank) -> u64 {
        self.starts[rank]
    }

    /// The rank that owns a global id, and the local index there.
    #[inline]
    pub fn owner(&self, global_id: u64) -> (Rank, u32) {
        let rank = match self.block_size {
            Some(block) => (global_id / block) as Rank,
            // A rank without vertices has the same start as the next one.
            None => self.starts.partition_point(|start| *start <= global_id) - 1,
        };
        (rank, (global_id - self.starts[rank]) as u32)
    }

    /// The global id of an external id. With arbitrary external ids, only those of local vertices are found.
    #[inline]
    pub fn global_id(&self, external_id: u64) -> Option<u64> {
        if let IdMapping::Explicit(external_ids) = &self.id_mapping {
            let local_index = external_ids.binary_search(&external_id).ok()?;
            return Some(self.starts[self.rank] + local_index as u64);
        }
        let number = external_id.checked_sub(self.first_id).filter(|number| *number < self.num_vertices())?;
        Some(match &self.id_mapping {
            IdMapping::Hashed(permutation) => permutation.apply(number),
            IdMapping::Cyclic => {
                let ranks = self.num_ranks() as u64;
                self.starts[(number % ranks) as usize] + number / ranks
            }
            IdMapping::Identity | IdMapping::Explicit(_) => number,
        })
    }

    /// The external id of a local vertex.
    pub fn external_id(&self, local_index: usize) -> u64 {
        let global_id = self.starts[self.rank] + local_index as u64;
        let number = match &self.id_mapping {
            IdMapping::Identity => global_id,
            IdMapping::Hashed(permutation) => permutation.invert(global_id),
            IdMapping::Cyclic => (local_index * self.num_ranks() + self.rank) as u64,
            IdMapping::Explicit(external_ids) => return external_ids[local_index],
        };
        self.first_id + number
    }

    /// The least external id that a vertex may have.
    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// The external ids, if they are consecutive: every rank can then compute the owner of each.
    pub fn consecutive_ids(&self) -> Option<Range<u64>> {
        let is_explicit = matches!(self.id_mapping, IdMapping::Explicit(_));
        (!is_explicit).then(|| self.first_id..self.first_id + self.num_vertices())
    }

    /// Bytes on this rank.
    pub(crate) fn memory_usage(&self) -> usize {
        let external_ids =
            if let IdMapping::Explicit(external_ids) = &self.id_mapping { external_ids.len() } else { 0 };
        8 * (self.starts.len() + external_ids)
    }
}

fn block_starts(block: u64, ranks: usize, vertices: u64) -> Vec<u64> {
    (0..=ranks as u64).map(|rank| (rank * block).min(vertices)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vertex_has_one_owner_and_local_index() {
        for distribution in [Distribution::Block, Distribution::Cyclic, Distribution::Hashed] {
            for (ranks, vertices) in [(1, 0), (1, 7), (3, 1), (3, 10), (5, 100), (7, 3), (4, 64), (5, 1000)] {
                let first_id = vertices % 2;
                let layout = |rank| VertexLayout::new(rank, ranks, vertices, distribution).with_first_id(first_id);
                let layouts: Vec<_> = (0..ranks).map(layout).collect();
                let mut seen = vec![0; vertices as usize];
                for layout in &layouts {
                    for local_index in 0..layout.num_local(layout.rank()) {
                        let external_id = layout.external_id(local_index);
                        seen[(external_id - first_id) as usize] += 1;
                        let global_id = layouts[0].global_id(external_id).unwrap();
                        assert_eq!(layouts[0].owner(global_id), (layout.rank(), local_index as u32));
                    }
                    assert_eq!(layout.consecutive_ids(), Some(first_id..first_id + vertices));
                    assert_eq!(layout.global_id(first_id + vertices), None);
                    assert_eq!(layout.global_id(0).is_some(), first_id == 0 && vertices > 0);
                }
                assert!(seen.iter().all(|count| *count == 1), "{distribution} {ranks} {vertices}");
            }
        }
    }

    #[test]
    fn explicit_external_ids_are_found_by_their_owner() {
        let layout = VertexLayout::with_external_ids(1, &[2, 0, 3], vec![]);
        assert_eq!((layout.num_vertices(), layout.owner(1), layout.owner(2)), (5, (0, 1), (2, 0)));
        let layout = VertexLayout::with_external_ids(2, &[2, 0, 3], vec![5, 1 << 40, u64::MAX]);
        assert_eq!((layout.global_id(1 << 40), layout.global_id(6), layout.external_id(2)), (Some(3), None, u64::MAX));
    }
}
