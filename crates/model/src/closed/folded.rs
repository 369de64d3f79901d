//! Recursive doubling of P ranks that are no power of two, on a flat network.
//!
//! V = 2^L players are on P ranks: the first F = V - P ranks play two neighbours each, of which the second has nothing
//! of its own at first. Stages are those of V players.

use crate::Terms;

/// Distance doubling: messages as of V players. Before a stage a player has what its stretch of 2^s has. Where the
/// stretch in which the folded ranks end meets one without any, a folded rank sends all it has to two partners.
pub(super) fn folded_doubling(ranks: u32, n: f64) -> Terms {
    let Folded { stages, players, folded } = Folded::new(ranks);
    let mut blocks = players - 1;
    for stage in 1..stages {
        let within = 2 * folded % (1 << stage);
        if within > 0 && ((2 * folded) >> stage).is_multiple_of(2) {
            blocks += (1 << stage) - within;
        }
    }
    Terms::new(folded_partners(ranks), f64::from(blocks) * n)
}

/// Messages of the rank that has most of them: two in those stages in which its second player's partner is of another
/// rank than its first's, which are most for the last of the folded; none with itself.
pub(super) fn folded_partners(ranks: u32) -> f64 {
    let Folded { stages, folded, .. } = Folded::new(ranks);
    if folded == 0 {
        return f64::from(stages);
    }
    let zeros = stages - 1 - (folded - 1).count_ones();
    f64::from(stages.max(stages - 1 + zeros))
}

/// Distance halving: a folded rank exchanges what both its players have, in all stages but the last. The first
/// has 2^s blocks before stage s, the second only those of players that are not folded.
pub(super) fn folded_halving(ranks: u32, n: f64) -> Terms {
    let Folded { stages, players, folded } = Folded::new(ranks);
    let before_last = (0..stages - 1).map(|stage| (2 << stage) - (folded >> (stages - stage - 1)));
    let blocks = before_last.sum::<u32>() + players / 2;
    // How many of the second's messages are not empty: those that it sends, or those that it gets.
    let alone = players - 2 * folded;
    let (sent, all_full) = (stages - 2, alone.ilog2() - 1);
    let part_full = if alone.ilog2() + 1 == stages || alone.is_power_of_two() { 1 } else { 2 };
    let second = sent.max(all_full + part_full);
    Terms::new(f64::from((stages - 1 + second).max(stages)), f64::from(blocks) * n)
}

/// 2^ceil(lg P) players on P ranks.
struct Folded {
    stages: u32,
    players: u32,
    /// Ranks that play two.
    folded: u32,
}

impl Folded {
    fn new(ranks: u32) -> Self {
        let players = ranks.next_power_of_two();
        Self { stages: players.trailing_zeros(), players, folded: players - ranks }
    }
}
