//! The table of lost ranks, as far as this rank knows.
//!
//! A byte for each rank, allocated once any rank is lost: where thousands of ranks finalize one after the other, each
//! learns of all others. Of several lost ranks, errors always name the lowest, so that runs are reproducible.

use crate::engine::Liveness;

/// The liveness of all ranks.
#[derive(Default)]
pub(crate) struct LivenessTable {
    /// By rank; empty as long as all are alive.
    all: Vec<Liveness>,
    num_lost: u32,
    first_lost: Option<u32>,
    first_failed: Option<u32>,
}

fn lower(first: Option<u32>, rank: u32) -> Option<u32> {
    Some(first.map_or(rank, |first| first.min(rank)))
}

impl LivenessTable {
    /// Whether all ranks are alive.
    #[inline]
    pub(crate) fn all_alive(&self) -> bool {
        self.num_lost == 0
    }

    /// Sets the liveness of a rank out of `ranks`. A lost rank never becomes alive again.
    pub(crate) fn set(&mut self, rank: u32, liveness: Liveness, ranks: u32) {
        if liveness == Liveness::Alive {
            return;
        }
        self.all.resize(ranks as usize, Liveness::Alive);
        self.first_lost = lower(self.first_lost, rank);
        if has_failed(liveness) {
            self.first_failed = lower(self.first_failed, rank);
        }
        let before = std::mem::replace(&mut self.all[rank as usize], liveness);
        self.num_lost += u32::from(before == Liveness::Alive);
    }

    #[inline]
    pub(crate) fn of(&self, rank: u32) -> Liveness {
        self.all.get(rank as usize).copied().unwrap_or(Liveness::Alive)
    }

    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        self.of(rank) != Liveness::Alive
    }

    pub(crate) fn has_failed(&self, rank: u32) -> bool {
        has_failed(self.of(rank))
    }

    /// The number of lost ranks.
    pub(crate) fn num_lost(&self) -> u32 {
        self.num_lost
    }

    /// The lowest lost rank.
    pub(crate) fn first_lost(&self) -> Option<u32> {
        self.first_lost
    }

    /// The lowest failed rank.
    pub(crate) fn first_failed(&self) -> Option<u32> {
        self.first_failed
    }
}

fn has_failed(liveness: Liveness) -> bool {
    matches!(liveness, Liveness::Failing | Liveness::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_is_reported_in_any_order() {
        let mut table = LivenessTable::default();
        assert!(table.all_alive() && table.first_lost().is_none() && !table.is_lost(9));
        for (rank, liveness) in [
            (7, Liveness::Finalizing),
            (4, Liveness::Failed),
            (7, Liveness::Finalized),
            (5, Liveness::Failing),
            (2, Liveness::Alive),
        ] {
            table.set(rank, liveness, 10);
        }
        assert_eq!((table.num_lost(), table.first_lost(), table.first_failed()), (3, Some(4), Some(4)));
        table.set(3, Liveness::Finalizing, 10);
        assert_eq!((table.num_lost(), table.first_lost(), table.first_failed()), (4, Some(3), Some(4)));
        assert!(
            table.of(7) == Liveness::Finalized && table.has_failed(5) && !table.has_failed(3) && !table.all_alive()
        );
    }
}
