//! Random numbers that depend on what they are for, not on who draws them.
//!
//! Each row of a graph has a stream of its own, xoshiro256++ [Blackman, Vigna, Scrambled linear pseudorandom number
//! generators, TOMS 47, 2021], seeded by a hash of the graph's seed, the purpose and the row. So any rank can produce
//! any row, and the graph is the same however many ranks there are.
//!
//! Logarithms are made of the four operations here, which have the same results on all machines. Those of system
//! libraries differ in their last bit, and a graph would differ with them.

use std::f64::consts::{LN_2, SQRT_2};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::mix::mixed;

/// What a stream is for. Streams of different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// Edges of a row.
    Row = 1,
    /// Edges that leave their group.
    Remote = 2,
    /// Weights.
    Weight = 3,
}

/// A number that looks like a random one.
fn hash(seed: u64, purpose: Purpose, row: u64) -> u64 {
    mixed(mixed(mixed(seed) ^ purpose as u64) ^ row)
}

/// The weight of an edge: above 0, up to 1, exact in 32 bits. It depends on nothing but the edge and the seed.
pub(super) fn weight(seed: u64, from: u64, to: u64) -> f64 {
    let drawn = mixed(hash(seed, Purpose::Weight, from) ^ to) >> 40;
    (drawn + 1) as f64 / (1u64 << 24) as f64
}

/// The random numbers of a row.
pub(super) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    pub(super) fn new(seed: u64, purpose: Purpose, row: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(hash(seed, purpose, row)))
    }

    /// A number below `bound`, all with the same probability. [Lemire, Fast random integer generation in an interval,
    /// 2019]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            // The low words that too many products share: 2^64 mod bound of them.
            if product as u64 >= bound || product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number above 0, up to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// A coin that shows heads with some probability. It is thrown very often, so it draws how many throws pass until
/// heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coin {
    /// 1 / ln(1-p): infinite where heads never come, 0 where they always do.
    scale: f64,
}

impl Coin {
    /// The probability is from 0 to 1.
    pub(super) fn new(probability: f64) -> Self {
        let scale = if probability == 1.0 {
            0.0
        } else if probability < 0.25 {
            // 1-p would lose the last bits of p.
            -0.5 / inverse_hyperbolic_tangent(probability / (2.0 - probability))
        } else {
            1.0 / logarithm(1.0 - probability)
        };
        Self { scale }
    }

    /// Calls `visit` with those of so many throws that show heads, in order.
    #[inline]
    pub(super) fn heads(&self, throws: u64, stream: &mut Stream, mut visit: impl FnMut(u64)) {
        if self.scale.is_infinite() {
            return;
        }
        let mut tails = || (logarithm(stream.fraction()) * self.scale) as u64;
        let mut throw = tails();
        while throw < throws {
            visit(throw);
            throw = throw.saturating_add(1).saturating_add(tails());
        }
    }
}

/// The natural logarithm of a positive number.
fn logarithm(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & !(u64::MAX << 52) | 1023 << 52);
    let (mantissa, exponent) = if mantissa > SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    f64::from(exponent) * LN_2 + 2.0 * inverse_hyperbolic_tangent((mantissa - 1.0) / (mantissa + 1.0))
}

/// Of a number up to 0.172 in size: (sqrt 2 - 1) / (sqrt 2 + 1). There the terms left out are below the last bit.
fn inverse_hyperbolic_tangent(number: f64) -> f64 {
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
            assert!((logarithm(number) - exact).abs() <= 4.0 * f64::EPSILON * exact.abs().max(0.1), "{number}");
        }
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all() {
        let mut stream = Stream::new(1, Purpose::Row, 2);
        for bound in [1, 2, 3, 7, 100] {
            let mut counts = vec![0u32; bound as usize];
            (0..1000 * bound).for_each(|_| counts[stream.below(bound) as usize] += 1);
            // More than six standard deviations.
            assert!(counts.iter().all(|count| count.abs_diff(1000) < 200), "{counts:?}");
        }
        // Four words for three numbers: without rejection, each third number would come twice as often as the others.
        let mut counts = [0u32; 3];
        (0..9000).for_each(|_| counts[(stream.below(3 << 62) % 3) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(3000) < 300), "{counts:?}");
    }

    #[test]
    fn heads_come_as_often_as_they_should_everywhere() {
        for probability in [0.001, 0.1, 0.24, 0.26, 0.5, 0.9] {
            let coin = Coin::new(probability);
            let (rows, throws) = (4000, 50);
            let mut counts = vec![0u32; throws];
            for row in 0..rows {
                coin.heads(throws as u64, &mut Stream::new(3, Purpose::Row, row), |throw| counts[throw as usize] += 1);
            }
            let mean = rows as f64 * probability;
            let deviation = (mean * (1.0 - probability)).sqrt();
            for count in counts {
                assert!((f64::from(count) - mean).abs() < 5.0 * deviation + 1.0, "{probability}: {count} for {mean}");
            }
        }
    }

    #[test]
    fn sure_coins() {
        let count = |probability: f64| {
            let mut count = 0;
            let coin = Coin::new(probability);
            (0..100).for_each(|row| coin.heads(10, &mut Stream::new(0, Purpose::Row, row), |_| count += 1));
            count
        };
        assert_eq!((count(0.0), count(5e-324), count(1e-30), count(1.0)), (0, 0, 0, 1000));
    }

    #[test]
    fn streams_differ_in_all_that_they_are_made_of() {
        let first = |seed, purpose, row| Stream::new(seed, purpose, row).0.next_u64();
        let numbers = [
            first(1, Purpose::Row, 1),
            first(2, Purpose::Row, 1),
            first(1, Purpose::Row, 2),
            first(2, Purpose::Row, 2),
            first(1, Purpose::Remote, 1),
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
