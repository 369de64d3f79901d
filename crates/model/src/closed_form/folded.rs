//! Recursive doubling where P is no power of two, on a flat network.
//!
//! V = 2^L virtual ranks run on P ranks: the first F = V - P ranks act as two neighboring virtual ranks each, of which
//! the second has no initial block. Stages are those of V virtual ranks.

use crate::CostTerms;

/// Distance doubling: messages as of V virtual ranks. Before stage s a virtual rank has the blocks of its group of 2^s.
/// Where the group in which the folded ranks end is paired with one without any, a folded rank sends all it has to two
/// partners.
pub(super) fn folded_doubling(ranks: u32, n: f64) -> CostTerms {
    let FoldedRanks { stages, virtual_ranks, folded } = FoldedRanks::new(ranks);
    let mut blocks = virtual_ranks - 1;
    for stage in 1..stages {
        let within = 2 * folded % (1 << stage);
        if within > 0 && ((2 * folded) >> stage).is_multiple_of(2) {
            blocks += (1 << stage) - within;
        }
    }
    CostTerms::new(max_folded_messages(ranks), f64::from(blocks) * n).with_steps(f64::from(stages))
}

/// Messages of the busiest rank: two in the stages in which the partner of its second virtual rank is on another rank
/// than that of its first. That is most for the last folded rank. A rank sends none to itself.
pub(super) fn max_folded_messages(ranks: u32) -> f64 {
    let FoldedRanks { stages, folded, .. } = FoldedRanks::new(ranks);
    if folded == 0 {
        return f64::from(stages);
    }
    let zeros = stages - 1 - (folded - 1).count_ones();
    f64::from(stages.max(stages - 1 + zeros))
}

/// Distance halving: a folded rank exchanges the blocks of both its virtual ranks, in all stages but the last. The
/// first has 2^s blocks before stage s, the second only those of virtual ranks that are not folded.
pub(super) fn folded_halving(ranks: u32, n: f64) -> CostTerms {
    let FoldedRanks { stages, virtual_ranks, folded } = FoldedRanks::new(ranks);
    let before_last = (0..stages - 1).map(|stage| (2 << stage) - (folded >> (stages - stage - 1)));
    let blocks = before_last.sum::<u32>() + virtual_ranks / 2;
    // Non-empty messages of the second virtual rank: those that it sends, or those that it receives.
    let unfolded = virtual_ranks - 2 * folded;
    let (sent, all_full) = (stages - 2, unfolded.ilog2() - 1);
    let part_full = if unfolded.ilog2() + 1 == stages || unfolded.is_power_of_two() { 1 } else { 2 };
    let second = sent.max(all_full + part_full);
    CostTerms::new(f64::from((stages - 1 + second).max(stages)), f64::from(blocks) * n).with_steps(f64::from(stages))
}

/// 2^ceil(lg P) virtual ranks on P ranks.
struct FoldedRanks {
    stages: u32,
    virtual_ranks: u32,
    /// Ranks that act as two virtual ranks.
    folded: u32,
}

impl FoldedRanks {
    fn new(ranks: u32) -> Self {
        let virtual_ranks = ranks.next_power_of_two();
        Self { stages: virtual_ranks.trailing_zeros(), virtual_ranks, folded: virtual_ranks - ranks }
    }
}
