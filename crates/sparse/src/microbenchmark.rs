//! The paper's microbenchmark: each rank sends messages of random lengths to k random ranks, drawn with the Mersenne
//! Twister.
//! [NBX paper 4.3]
//!
//! The messages of a rank in a round depend on seed, rank and round alone, so every rank can compute what it must
//! receive.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use rand_mt::Mt64;

/// The parameters of the microbenchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Microbenchmark {
    /// The random seed.
    pub seed: u64,
    /// P.
    pub ranks: u32,
    /// k: the number of destinations of each rank, at most P - 1.
    pub neighbors: u32,
    /// Bytes of a message, uniformly distributed.
    pub lengths: RangeInclusive<usize>,
}

impl Microbenchmark {
    /// The benchmark with the paper's lengths: 1 to 1024 bytes.
    pub fn new(seed: u64, ranks: u32, neighbors: u32) -> Self {
        Self { seed, ranks, neighbors, lengths: 1..=1024 }
    }

    /// The messages of a rank in a round: destination, distinct and never the rank itself, and bytes.
    pub fn messages(&self, rank: u32, round: u32) -> Vec<(u32, usize)> {
        let others = u64::from(self.ranks.saturating_sub(1));
        let shortest = *self.lengths.start();
        let lengths = (self.lengths.end().saturating_sub(shortest) as u64).saturating_add(1);
        let mut random = Mt64::new_with_key([self.seed, rank.into(), round.into()]);
        // A partial Fisher-Yates shuffle of the other ranks that stores only the displaced entries.
        let mut displaced = HashMap::new();
        let mut draw = |index: u64| {
            let other = index + below(&mut random, others - index);
            let last = displaced.get(&index).copied().unwrap_or(index);
            let target = displaced.insert(other, last).unwrap_or(other) as u32;
            let length = shortest + below(&mut random, lengths) as usize;
            (if target < rank { target } else { target + 1 }, length)
        };
        (0..others.min(self.neighbors.into())).map(&mut draw).collect()
    }
}

/// A random number below a positive bound.
fn below(random: &mut Mt64, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn targets_are_distinct_others_and_all_are_drawn() {
        for (ranks, neighbors) in [(1, 6), (2, 0), (2, 1), (2, 2), (7, 3), (7, 6), (16, 6), (16, 20)] {
            let benchmark = Microbenchmark::new(5, ranks, neighbors);
            for rank in 0..ranks {
                let mut seen = BTreeSet::new();
                for round in 0..200 {
                    let messages = benchmark.messages(rank, round);
                    let targets: BTreeSet<u32> = messages.iter().map(|(to, _)| *to).collect();
                    assert_eq!(messages.len() as u32, neighbors.min(ranks - 1));
                    assert_eq!(messages.len(), targets.len(), "{ranks} {neighbors} {rank} {round}");
                    assert!(
                        messages.iter().all(|(to, bytes)| *to < ranks && *to != rank && (1..=1024).contains(bytes))
                    );
                    seen.extend(targets);
                }
                assert_eq!(seen.len() as u32, if neighbors == 0 { 0 } else { ranks - 1 });
            }
        }
    }

    #[test]
    fn targets_and_lengths_are_spread_evenly() {
        let benchmark = Microbenchmark { seed: 1, ranks: 9, neighbors: 3, lengths: 8..=11 };
        let (mut targets, mut lengths) = ([0; 9], [0; 12]);
        for (to, bytes) in (0..8000).flat_map(|round| benchmark.messages(4, round)) {
            targets[to as usize] += 1;
            lengths[bytes] += 1;
        }
        // 24,000 draws: 3,000 for each of 8 others, 6,000 for each of 4 lengths.
        assert!(targets.iter().enumerate().all(|(to, n)| if to == 4 { *n == 0 } else { (2700..3300).contains(n) }));
        assert!(lengths[8..].iter().all(|n| (5600..6400).contains(n)), "{lengths:?}");
    }

    #[test]
    fn seed_rank_and_round_all_matter() {
        let drawn = |seed, rank, round| Microbenchmark::new(seed, 1 << 20, 6).messages(rank, round);
        assert_eq!(drawn(1, 2, 3), drawn(1, 2, 3));
        for other in [drawn(2, 2, 3), drawn(1, 3, 3), drawn(1, 2, 4), drawn(1, 3, 2)] {
            assert_ne!(drawn(1, 2, 3), other);
        }
        // One length, and the largest.
        let same = Microbenchmark { lengths: 8..=8, ..Microbenchmark::new(1, 4, 2) };
        assert!(same.messages(0, 0).iter().all(|(_, bytes)| *bytes == 8));
    }
}
