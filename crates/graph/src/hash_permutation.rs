//! A pseudo-random permutation of the integers below a bound, and its inverse.
//!
//! Four rounds of a Feistel network on an even number of bits; results outside of the range are permuted again until
//! they are inside (cycle walking), fewer than four times on average.

/// A permutation of the integers below a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashPermutation {
    bound: u64,
    /// Bits of each half.
    half_bits: u32,
}

const ROUND_KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

impl HashPermutation {
    pub(crate) fn new(bound: u64) -> Self {
        let bits = 64 - bound.saturating_sub(1).leading_zeros();
        Self { bound, half_bits: bits.div_ceil(2).max(1) }
    }

    /// The image of a number below the bound.
    pub(crate) fn apply(&self, number: u64) -> u64 {
        self.cycle_walk(number, |(left, right), key| (right, left ^ self.round_function(right, key)), ROUND_KEYS)
    }

    /// The preimage of a number below the bound.
    pub(crate) fn invert(&self, number: u64) -> u64 {
        let mut keys = ROUND_KEYS;
        keys.reverse();
        self.cycle_walk(number, |(left, right), key| (right ^ self.round_function(left, key), left), keys)
    }

    fn cycle_walk(&self, mut number: u64, step: impl Fn((u64, u64), u64) -> (u64, u64), keys: [u64; 4]) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        loop {
            let halves = keys.into_iter().fold((number >> self.half_bits, number & mask), &step);
            number = halves.0 << self.half_bits | halves.1;
            if number < self.bound {
                return number;
            }
        }
    }

    /// The round function: a hash of a half and the round key.
    fn round_function(&self, half: u64, key: u64) -> u64 {
        let mixed = (half ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ mixed >> 29).wrapping_mul(key) >> (64 - self.half_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_permutation() {
        for bound in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let permutation = HashPermutation::new(bound);
            let mut seen = vec![false; bound as usize];
            for number in 0..bound {
                let image = permutation.apply(number);
                assert!(!std::mem::replace(&mut seen[image as usize], true), "{image} twice below {bound}");
                assert_eq!(permutation.invert(image), number);
            }
        }
        let large = HashPermutation::new(u64::MAX);
        for number in [0, 1, 1 << 33, u64::MAX - 1] {
            assert_eq!(large.invert(large.apply(number)), number);
        }
    }

    #[test]
    fn neighbors_do_not_stay_together() {
        let permutation = HashPermutation::new(10_000);
        let near = (0..9_999).filter(|v| permutation.apply(*v).abs_diff(permutation.apply(v + 1)) < 100).count();
        assert!(near < 400, "{near}");
    }
}
