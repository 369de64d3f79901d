//! Who is no longer here, as far as a rank knows.
//!
//! A byte for each rank, once anybody is lost: where thousands of ranks end one after the other, each hears of all others.
//! Of several that are lost it is always the lowest that is named, so that runs are alike.

use crate::engine::Life;

/// What has become of others.
#[derive(Default)]
pub(crate) struct Lives {
    /// Of each rank; empty as long as all are here.
    all: Vec<Life>,
    lost: u32,
    first: Option<u32>,
    first_failed: Option<u32>,
}

fn lower(first: Option<u32>, rank: u32) -> Option<u32> {
    Some(first.map_or(rank, |first| first.min(rank)))
}

impl Lives {
    /// Whether all are here.
    #[inline]
    pub(crate) fn all_here(&self) -> bool {
        self.lost == 0
    }

    /// Something has become of one of so many ranks. Nobody comes back.
    pub(crate) fn set(&mut self, rank: u32, life: Life, ranks: u32) {
        if life == Life::Here {
            return;
        }
        self.all.resize(ranks as usize, Life::Here);
        self.first = lower(self.first, rank);
        if has_failed(life) {
            self.first_failed = lower(self.first_failed, rank);
        }
        let before = std::mem::replace(&mut self.all[rank as usize], life);
        self.lost += u32::from(before == Life::Here);
    }

    #[inline]
    pub(crate) fn of(&self, rank: u32) -> Life {
        self.all.get(rank as usize).copied().unwrap_or(Life::Here)
    }

    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        self.of(rank) != Life::Here
    }

    pub(crate) fn has_failed(&self, rank: u32) -> bool {
        has_failed(self.of(rank))
    }

    /// How many are lost.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// The first that is.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// The first that has failed.
    pub(crate) fn first_failed(&self) -> Option<u32> {
        self.first_failed
    }
}

fn has_failed(life: Life) -> bool {
    matches!(life, Life::Failing | Life::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_is_named_whatever_the_order() {
        let mut lives = Lives::default();
        assert!(lives.all_here() && lives.first().is_none() && !lives.is_lost(9));
        for (rank, life) in [(7, Life::Leaving), (4, Life::Dead), (7, Life::Left), (5, Life::Failing), (2, Life::Here)]
        {
            lives.set(rank, life, 10);
        }
        assert_eq!((lives.lost(), lives.first(), lives.first_failed()), (3, Some(4), Some(4)));
        lives.set(3, Life::Leaving, 10);
        assert_eq!((lives.lost(), lives.first(), lives.first_failed()), (4, Some(3), Some(4)));
        assert!(lives.of(7) == Life::Left && lives.has_failed(5) && !lives.has_failed(3) && !lives.all_here());
    }
}
