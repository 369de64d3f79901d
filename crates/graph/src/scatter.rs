//! A permutation of the numbers below some bound that looks like chance, and its inverse.
//!
//! Four rounds of a Feistel network on a few bits more than needed; what falls outside is put in again until it falls inside
//! ("cycle walking"), fewer than four times on average.

/// A permutation of the numbers below a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    bound: u64,
    /// Bits of each half.
    half: u32,
}

const ROUNDS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

impl Scatter {
    pub(crate) fn new(bound: u64) -> Self {
        let bits = 64 - bound.saturating_sub(1).leading_zeros();
        Self { bound, half: bits.div_ceil(2).max(1) }
    }

    /// Where a number below the bound goes.
    pub(crate) fn forth(&self, number: u64) -> u64 {
        self.walk(number, |(left, right), round| (right, left ^ self.mix(right, round)), ROUNDS)
    }

    /// Where it came from.
    pub(crate) fn back(&self, number: u64) -> u64 {
        let mut rounds = ROUNDS;
        rounds.reverse();
        self.walk(number, |(left, right), round| (right ^ self.mix(left, round), left), rounds)
    }

    fn walk(&self, mut number: u64, step: impl Fn((u64, u64), u64) -> (u64, u64), rounds: [u64; 4]) -> u64 {
        let mask = (1 << self.half) - 1;
        loop {
            let halves = rounds.into_iter().fold((number >> self.half, number & mask), &step);
            number = halves.0 << self.half | halves.1;
            if number < self.bound {
                return number;
            }
        }
    }

    /// Some bits that depend on a half and on the round.
    fn mix(&self, half: u64, round: u64) -> u64 {
        let mixed = (half ^ round).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ mixed >> 29).wrapping_mul(round) >> (64 - self.half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_permutation() {
        for bound in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let scatter = Scatter::new(bound);
            let mut seen = vec![false; bound as usize];
            for number in 0..bound {
                let there = scatter.forth(number);
                assert!(!std::mem::replace(&mut seen[there as usize], true), "{there} twice of {bound}");
                assert_eq!(scatter.back(there), number);
            }
        }
        let large = Scatter::new(u64::MAX);
        for number in [0, 1, 1 << 33, u64::MAX - 1] {
            assert_eq!(large.back(large.forth(number)), number);
        }
    }

    #[test]
    fn neighbours_do_not_stay_together() {
        let scatter = Scatter::new(10_000);
        let near = (0..9_999).filter(|v| scatter.forth(*v).abs_diff(scatter.forth(v + 1)) < 100).count();
        assert!(near < 400, "{near}");
    }
}
