//! Folding between P ranks and a power of two of virtual ranks, for recursive doubling and halving on any P.
//!
//! Of consecutive numbers the first are folded in pairs, so that fewer remain:
//!
//! ```text
//! 0 1 2 3 4 5     two pairs
//! └0┘ └1┘ 2 3
//! ```
//!
//! The fold preserves the order, so intervals stay intervals. Either the virtual ranks are folded onto the ranks, some
//! of which then act for two, or the ranks are folded onto the virtual ranks, and the second of each pair only gives
//! its data to the first and gets the result.

/// A fold of consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// The number of pairs.
    pub(crate) pairs: u32,
}

impl Fold {
    /// No pairs.
    pub(crate) const NONE: Self = Self { pairs: 0 };

    /// The fold of 2^ceil(lg P) virtual ranks onto `ranks` ranks.
    pub(crate) fn of_virtual_ranks(ranks: u32) -> Self {
        Self { pairs: ranks.next_power_of_two() - ranks }
    }

    /// The fold of `ranks` ranks onto 2^floor(lg P) virtual ranks.
    pub(crate) fn of_ranks(ranks: u32) -> Self {
        Self { pairs: ranks - (1 << ranks.ilog2()) }
    }

    /// What a number is folded to.
    pub(crate) fn folded(self, number: u32) -> u32 {
        if number < 2 * self.pairs { number / 2 } else { number - self.pairs }
    }

    /// The number, or the first of the pair, that is folded to this one.
    pub(crate) fn first(self, folded: u32) -> u32 {
        if folded < self.pairs { 2 * folded } else { folded + self.pairs }
    }

    /// Whether a number is the second of a pair.
    pub(crate) fn is_second(self, number: u32) -> bool {
        number < 2 * self.pairs && number % 2 == 1
    }
}
