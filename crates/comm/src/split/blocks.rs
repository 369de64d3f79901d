//! Sorter blocks and groups: n ranks in p contiguous blocks, and groups across them.
//!
//! The j-th ranks of all blocks are a group. Each of its p ranks holds as many rows of the sorted table as its block
//! has ranks, so the group holds the whole table, and there is one copy per group. [thesis 2.3]
//!
//! If p does not divide n, the first blocks have one more rank than the others. These ranks, the followers, neither
//! sort nor hold rows: they look up rows in the last group, and the rank before each is its leader.

use std::ops::Range;

/// The partition of the ranks into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SorterBlocks {
    ranks: u32,
    sorters: u32,
}

impl SorterBlocks {
    /// A partition of `ranks` ranks for `sorters` sorters, at most one per rank.
    pub fn new(ranks: u32, sorters: u32) -> Self {
        Self { ranks, sorters: sorters.clamp(1, ranks.max(1)) }
    }

    /// Number of sorters, and of blocks.
    pub fn sorters(&self) -> u32 {
        self.sorters
    }

    /// The ranks of a block, which are also the rows of the table that its ranks hold.
    pub fn block(&self, block: u32) -> Range<u32> {
        let first = |block: u32| block * self.groups() + block.min(self.followers());
        first(block)..first(block + 1)
    }

    /// The block of a rank.
    pub fn block_of(&self, rank: u32) -> u32 {
        let (small, larger) = (self.groups(), self.followers());
        let in_larger = larger * (small + 1);
        if rank < in_larger { rank / (small + 1) } else { larger + (rank - in_larger) / small }
    }

    /// Number of groups.
    fn groups(&self) -> u32 {
        self.ranks / self.sorters
    }

    /// Number of blocks with a follower.
    fn followers(&self) -> u32 {
        self.ranks % self.sorters
    }

    /// The group of a rank, and the rank's index in it.
    pub fn group_of(&self, rank: u32) -> (SorterGroup, u32) {
        let block = self.block_of(rank);
        let offset = rank - self.block(block).start;
        let group = SorterGroup { blocks: *self, offset: offset.min(self.groups() - 1) };
        (group, if offset < self.groups() { block } else { self.sorters + block })
    }

    /// The leader of a follower, which sorts for it.
    pub fn leader(&self, rank: u32) -> Option<u32> {
        (self.group_of(rank).1 >= self.sorters).then(|| rank - 1)
    }

    /// The follower of a rank.
    pub fn follower(&self, rank: u32) -> Option<u32> {
        let next = rank + 1;
        (next < self.ranks && self.leader(next) == Some(rank)).then_some(next)
    }
}

/// A group of ranks that shares a table: indices below the number of sorters hold a part of it, those above only look
/// up rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SorterGroup {
    blocks: SorterBlocks,
    offset: u32,
}

impl SorterGroup {
    /// Number of ranks that hold a part of the table.
    pub fn holders(&self) -> u32 {
        self.blocks.sorters
    }

    /// Number of ranks that look up rows in it.
    pub fn readers(&self) -> u32 {
        let is_last = self.offset + 1 == self.blocks.groups();
        self.blocks.sorters + if is_last { self.blocks.followers() } else { 0 }
    }

    /// The rank with this index.
    pub fn rank(&self, index: u32) -> u32 {
        let Self { blocks, offset } = self;
        match index.checked_sub(blocks.sorters) {
            None => blocks.block(index).start + offset,
            Some(block) => blocks.block(block).end - 1,
        }
    }

    /// The index of a rank, if it is in this group.
    pub fn index(&self, rank: u32) -> Option<u32> {
        let (group, index) = self.blocks.group_of(rank);
        (group == *self).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_block_and_one_group() {
        for ranks in 1..70 {
            for sorters in 1..=ranks {
                let blocks = SorterBlocks::new(ranks, sorters);
                let all: Vec<u32> = (0..sorters).flat_map(|block| blocks.block(block)).collect();
                assert_eq!(all, (0..ranks).collect::<Vec<_>>());
                for rank in 0..ranks {
                    assert!(blocks.block(blocks.block_of(rank)).contains(&rank));
                    let (group, index) = blocks.group_of(rank);
                    assert_eq!((group.rank(index), group.index(rank)), (rank, Some(index)), "{rank} of {blocks:?}");
                    assert!(index < group.readers());
                    if let Some(leader) = blocks.leader(rank) {
                        assert_eq!((blocks.follower(leader), blocks.leader(leader)), (Some(rank), None));
                        assert_eq!(blocks.block_of(leader), blocks.block_of(rank));
                    }
                }
                let members: usize = (0..ranks).filter(|rank| blocks.group_of(*rank).0.offset == 0).count();
                let first = blocks.group_of(0).0;
                assert_eq!(members as u32, first.readers());
            }
        }
    }
}
