//! Random streams that depend on their purpose and row, not on the rank that draws.
//!
//! Each row of a graph has its own stream, xoshiro256++ [Blackman, Vigna, Scrambled linear pseudorandom number
//! generators, TOMS 47, 2021], seeded by a hash of the graph's seed, the purpose and the row. So any rank can generate
//! any row, and the graph does not depend on the number of ranks.
//!
//! Logarithms are computed by basic arithmetic, which is the same on all machines. Those of system libraries differ in
//! the last bit, and graphs would differ with them.

use std::f64::consts::{LN_2, SQRT_2};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::hash::splitmix64;

/// The purpose of a stream. Streams of different purposes are independent.
#[derive(Clone, Copy, Debug)]
pub(super) enum StreamPurpose {
    /// Edges of a row.
    Row = 1,
    /// Edges that leave their group.
    Remote = 2,
    /// Weights.
    Weight = 3,
}

/// The seed of a stream.
fn hash(seed: u64, purpose: StreamPurpose, row: u64) -> u64 {
    splitmix64(splitmix64(splitmix64(seed) ^ purpose as u64) ^ row)
}

/// The weight of an edge: in (0, 1], exact in `f32`. It depends on the edge and the seed only.
pub(super) fn weight(seed: u64, from: u64, to: u64) -> f64 {
    let drawn = splitmix64(hash(seed, StreamPurpose::Weight, from) ^ to) >> 40;
    (drawn + 1) as f64 / (1u64 << 24) as f64
}

/// The random stream of a row.
pub(super) struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    pub(super) fn new(seed: u64, purpose: StreamPurpose, row: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(hash(seed, purpose, row)))
    }

    /// A uniform number below `bound`. [Lemire, Fast random integer generation in an interval, 2019]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            // Rejects the 2^64 mod bound low words that would bias the result.
            if product as u64 >= bound || product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform number in (0, 1].
    pub(super) fn fraction(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// Bernoulli trials. There are many and few succeed, so the number of failures before each success is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bernoulli {
    /// 1 / ln(1-p): infinite for p = 0, 0 for p = 1.
    scale: f64,
}

impl Bernoulli {
    /// Trials with a probability of success, from 0 to 1.
    pub(super) fn new(probability: f64) -> Self {
        let scale = if probability == 1.0 {
            0.0
        } else if probability < 0.25 {
            // 1-p would lose the last bits of p.
            -0.5 / atanh(probability / (2.0 - probability))
        } else {
            1.0 / ln(1.0 - probability)
        };
        Self { scale }
    }

    /// Calls `visit` with the indices of the successes among `trials` trials, in order.
    #[inline]
    pub(super) fn for_each_success(&self, trials: u64, stream: &mut RandomStream, mut visit: impl FnMut(u64)) {
        if self.scale.is_infinite() {
            return;
        }
        let mut failures = || (ln(stream.fraction()) * self.scale) as u64;
        let mut trial = failures();
        while trial < trials {
            visit(trial);
            trial = trial.saturating_add(1).saturating_add(failures());
        }
    }
}

/// The natural logarithm of a positive number.
fn ln(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & !(u64::MAX << 52) | 1023 << 52);
    let (mantissa, exponent) = if mantissa > SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    f64::from(exponent) * LN_2 + 2.0 * atanh((mantissa - 1.0) / (mantissa + 1.0))
}

/// For magnitudes up to 0.172 = (sqrt 2 - 1) / (sqrt 2 + 1). The omitted terms are then below the last bit.
fn atanh(number: f64) -> f64 {
    let square = number * number;
    let terms = (0..11).rev().map(|term| 1.0 / f64::from(2 * term + 1));
    number * terms.fold(0.0, |sum, term| sum * square + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right() {
        for number in (1..5000).map(|step| f64::from(step) / 1000.0).chain([f64::EPSILON, 1e-300, 1e300]) {
            let exact = number.ln();
            assert!((ln(number) - exact).abs() <= 4.0 * f64::EPSILON * exact.abs().max(0.1), "{number}");
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all() {
        let mut stream = RandomStream::new(1, StreamPurpose::Row, 2);
        for bound in [1, 2, 3, 7, 100] {
            let mut counts = vec![0u32; bound as usize];
            (0..1000 * bound).for_each(|_| counts[stream.below(bound) as usize] += 1);
            // More than six standard deviations.
            assert!(counts.iter().all(|count| count.abs_diff(1000) < 200), "{counts:?}");
        }
        // Four words for three numbers: without rejection, each third number would be twice as frequent as the others.
        let mut counts = [0u32; 3];
        (0..9000).for_each(|_| counts[(stream.below(3 << 62) % 3) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(3000) < 300), "{counts:?}");
    }

    #[test]
    fn successes_are_uniform_with_the_given_probability() {
        for probability in [0.001, 0.1, 0.24, 0.26, 0.5, 0.9] {
            let bernoulli = Bernoulli::new(probability);
            let (rows, trials) = (4000, 50);
            let mut counts = vec![0u32; trials];
            for row in 0..rows {
                bernoulli.for_each_success(
                    trials as u64,
                    &mut RandomStream::new(3, StreamPurpose::Row, row),
                    |trial| counts[trial as usize] += 1,
                );
            }
            let mean = rows as f64 * probability;
            let deviation = (mean * (1.0 - probability)).sqrt();
            for count in counts {
                assert!((f64::from(count) - mean).abs() < 5.0 * deviation + 1.0, "{probability}: {count} for {mean}");
            }
        }
    }

    #[test]
    fn certain_outcomes() {
        let count = |probability: f64| {
            let mut count = 0;
            let bernoulli = Bernoulli::new(probability);
            (0..100).for_each(|row| {
                bernoulli.for_each_success(10, &mut RandomStream::new(0, StreamPurpose::Row, row), |_| count += 1)
            });
            count
        };
        assert_eq!((count(0.0), count(5e-324), count(1e-30), count(1.0)), (0, 0, 0, 1000));
    }

    #[test]
    fn streams_differ_in_all_that_they_are_made_of() {
        let first = |seed, purpose, row| RandomStream::new(seed, purpose, row).0.next_u64();
        let numbers = [
            first(1, StreamPurpose::Row, 1),
            first(2, StreamPurpose::Row, 1),
            first(1, StreamPurpose::Row, 2),
            first(2, StreamPurpose::Row, 2),
            first(1, StreamPurpose::Remote, 1),
        ];
        let different: std::collections::HashSet<_> = numbers.into_iter().collect();
        assert_eq!(different.len(), numbers.len());
    }

    #[test]
    fn weights_are_above_0_up_to_1_and_exact() {
        let weights: Vec<f64> = (0..10_000).map(|number| weight(7, number, number * number % 101)).collect();
        assert!(weights.iter().all(|weight| *weight > 0.0 && *weight <= 1.0 && f64::from(*weight as f32) == *weight));
        let mean = weights.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(weight(7, 1, 2), weight(7, 2, 1));
        assert_ne!(weight(7, 1, 2), weight(8, 1, 2));
    }
}
