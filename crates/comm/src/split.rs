//! Communicators of some of the ranks of another one.
//!
//! A split sorts what ranks have asked for, by one of several [ways](Way); each is a protocol ([`Splitting`]) of its phases,
//! which lie in files of their own.

mod blocks;
mod doubling;
mod entry;
mod finding;
mod letter;
mod merge;
mod quick;
mod sorting;
mod splitter;
mod splitting;
mod ways;

pub use blocks::{Blocks, Group};
pub use doubling::{Doubling, Joining};
pub use entry::Entry;
pub use finding::Place;
pub use merge::{merge, merge_all};
pub use sorting::{Manner, Progress, Sorting};
pub use splitting::{Outcome, Phase, Spent, Splitting, Table};
pub use ways::Way;

use treepie_base::{Error, Rank, Result};

use crate::comm::Comm;
use crate::members::Members;

impl Comm {
    /// A communicator for each colour, of the ranks that have named it, in the order of their keys, and for equal keys in
    /// that of their ranks here. All ranks call it; those without a colour get nothing.
    pub fn split(&self, color: impl Into<Option<u32>>, key: i32) -> Result<Option<Comm>> {
        let color = color.into();
        let context = u64::from(self.endpoint().next_context());
        let own = [context, u64::from(color.is_some()), color.unwrap_or(0).into(), u64::from(sortable(key))];
        let all = self.all_gather(&own)?;
        let (all, _) = all.as_chunks::<4>();
        let context = self.take_context(all.iter().map(|[context, ..]| *context));
        let Some(color) = color else { return Ok(None) };
        let is_mine = |[_, any, other, _]: &[u64; 4]| *any == 1 && *other == u64::from(color);
        let mut mine: Vec<(u64, u32)> =
            (0..).zip(all).filter(|(_, entry)| is_mine(entry)).map(|(rank, entry)| (entry[3], rank)).collect();
        mine.sort_unstable();
        Ok(Some(self.part(context, self.members_of(mine.into_iter().map(|(_, rank)| rank)))))
    }

    /// A communicator of these ranks, in this order. All ranks of this one call it with the same list; those that are not in
    /// it get nothing.
    ///
    /// # Errors
    /// If a rank does not exist or is listed twice, or if the lists differ; on every caller.
    pub fn create(&self, group: &[Rank]) -> Result<Option<Comm>> {
        self.check_group(group)?;
        let mine = [u64::from(self.endpoint().next_context()), digest(group)];
        let all = self.all_gather(&mine)?;
        let (all, _) = all.as_chunks::<2>();
        if let Some(rank) = all.iter().position(|[_, other]| *other != mine[1]) {
            return Err(Error::Algorithm(format!("rank {rank} lists another group than rank {}", self.rank())));
        }
        let context = self.take_context(all.iter().map(|[context, _]| *context));
        if !group.contains(&self.rank()) {
            return Ok(None);
        }
        Ok(Some(self.part(context, self.members_of(group.iter().map(|rank| *rank as u32)))))
    }

    /// The rank that one of this communicator's has in another one, if it is there too.
    pub fn translate(&self, rank: Rank, other: &Comm) -> Result<Option<Rank>> {
        let world = self.world_rank(rank)?;
        if !self.inner.same_world(&other.inner) {
            return Ok(None);
        }
        Ok(other.inner.members.rank(world).map(|rank| rank as Rank))
    }

    /// Bytes that this rank holds to know which ranks are here.
    pub fn memory(&self) -> usize {
        self.inner.members.memory()
    }

    /// How that is held: `all ranks` for those of the world in its order, `formula` where every so many are here, `table`
    /// elsewhere.
    pub fn representation(&self) -> &'static str {
        self.inner.members.representation()
    }

    fn check_group(&self, group: &[Rank]) -> Result<()> {
        let mut sorted = group.to_vec();
        sorted.sort_unstable();
        sorted.iter().try_for_each(|rank| self.check_rank(*rank).map(drop))?;
        match sorted.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Error::Algorithm(format!("rank {} is listed twice in a group", two[0]))),
            None => Ok(()),
        }
    }

    fn members_of(&self, ranks: impl Iterator<Item = u32>) -> Members {
        let world = ranks.map(|rank| self.inner.members.world(rank)).collect();
        Members::new(world, self.endpoint().size())
    }
}

/// Differs for different lists, as good as always (FNV-1a).
fn digest(group: &[Rank]) -> u64 {
    group.iter().fold(0xcbf2_9ce4_8422_2325 ^ group.len() as u64, |hash, rank| {
        (hash ^ *rank as u64).wrapping_mul(0x100_0000_01b3)
    })
}

/// Unsigned numbers in the order of the signed ones.
fn sortable(key: i32) -> u32 {
    key as u32 ^ 1 << 31
}
