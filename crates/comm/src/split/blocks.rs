//! Who sorts what: n ranks as p blocks of neighbours, and groups across them.
//!
//! The j-th ranks of all blocks are a group: each of its p ranks holds the rows of the sorted table that its block has ranks,
//! so the group holds the whole table, and there are as many copies of it as blocks have ranks. [thesis 2.3]
//!
//! If p does not divide n, the first blocks have one rank more than others. These sort nothing and hold nothing: they look up
//! in the last group, as followers of the rank before them.

use std::ops::Range;

/// Ranks in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    ranks: u32,
    sorters: u32,
}

impl Blocks {
    /// So many ranks, of which so many sort together; not more than there are.
    pub fn new(ranks: u32, sorters: u32) -> Self {
        Self { ranks, sorters: sorters.clamp(1, ranks.max(1)) }
    }

    /// How many sort together, which is how many blocks there are.
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

    /// How many groups there are.
    fn groups(&self) -> u32 {
        self.ranks / self.sorters
    }

    /// How many blocks have a follower.
    fn followers(&self) -> u32 {
        self.ranks % self.sorters
    }

    /// The group of a rank, and the rank's index in it.
    pub fn group_of(&self, rank: u32) -> (Group, u32) {
        let block = self.block_of(rank);
        let offset = rank - self.block(block).start;
        let group = Group { blocks: *self, offset: offset.min(self.groups() - 1) };
        (group, if offset < self.groups() { block } else { self.sorters + block })
    }

    /// Who sorts for a rank that follows, if it does.
    pub fn leader(&self, rank: u32) -> Option<u32> {
        (self.group_of(rank).1 >= self.sorters).then(|| rank - 1)
    }

    /// Who follows a rank.
    pub fn follower(&self, rank: u32) -> Option<u32> {
        let next = rank + 1;
        (next < self.ranks && self.leader(next) == Some(rank)).then_some(next)
    }
}

/// Ranks that share a table: indices below the number of sorters hold a part of it, those above only look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    blocks: Blocks,
    offset: u32,
}

impl Group {
    /// How many hold a part of the table.
    pub fn holders(&self) -> u32 {
        self.blocks.sorters
    }

    /// How many look up in it.
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
                let blocks = Blocks::new(ranks, sorters);
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
