//! Contributions and operators, and what they come to.

use std::ops::Range;

use treepie::{Commutative, Located, MaxLoc, MinLoc, Pod, Reduction, Sum, commutative};

use crate::payload::Element;

/// An operator, and how the elements that it is used on are made of numbers.
pub(crate) struct Fold<T, R> {
    pub(crate) operator: fn() -> R,
    pub(crate) of: fn(u64) -> T,
}

impl<T: Pod, R: Reduction<T>> Fold<T, R> {
    /// What a rank contributes.
    pub(crate) fn data(&self, rank: usize, len: usize) -> Vec<T> {
        (0..len as u64).map(|i| (self.of)(rank as u64 * 1_000_003 + i)).collect()
    }

    /// What ranks' contributions come to, in their order.
    pub(crate) fn result(&self, ranks: Range<usize>, len: usize) -> Vec<T> {
        let operator = (self.operator)();
        let all = ranks.map(|rank| self.data(rank, len));
        let combine = |left: Vec<T>, right: Vec<T>| {
            left.into_iter().zip(right).map(|(left, right)| operator.combine(left, right)).collect()
        };
        all.reduce(combine).unwrap_or_default()
    }
}

/// Where the order of operands does not matter.
pub(crate) const SUM: Fold<u64, Sum> = Fold { operator: || Sum, of: u64::of };

/// Affine maps x -> ax + b modulo a prime, one after the other: the order of operands matters, and each of them.
pub(crate) const MAPS: Fold<[u64; 2], OfMaps> = Fold { operator: || one_after_the_other, of: map_of };

type OfMaps = fn([u64; 2], [u64; 2]) -> [u64; 2];

const PRIME: u64 = (1 << 31) - 1;

fn one_after_the_other([a, b]: [u64; 2], [c, d]: [u64; 2]) -> [u64; 2] {
    [a * c % PRIME, (b * c + d) % PRIME]
}

fn map_of(number: u64) -> [u64; 2] {
    [u64::of(number) % (PRIME - 1) + 1, u64::of(number + 77) % PRIME]
}

/// Whole numbers, whose sums are exact.
pub(crate) const FLOATS: Fold<f64, Sum> = Fold { operator: || Sum, of: |number| (u64::of(number) % 1000) as f64 };

pub(crate) const LEAST: Fold<Located<f64>, MinLoc> = Fold { operator: || MinLoc, of: located };
pub(crate) const GREATEST: Fold<Located<f64>, MaxLoc> = Fold { operator: || MaxLoc, of: located };

/// Many have the same value.
fn located(number: u64) -> Located<f64> {
    Located { value: (u64::of(number) % 5) as f64, place: number / 1_000_003 }
}

type OfTriples = fn([i32; 3], [i32; 3]) -> [i32; 3];

/// A closure on plain data that commutes.
pub(crate) const TRIPLES: Fold<[i32; 3], Commutative<OfTriples>> =
    Fold { operator: || commutative(each_its_own as OfTriples), of: <[i32; 3]>::of };

fn each_its_own(a: [i32; 3], b: [i32; 3]) -> [i32; 3] {
    [a[0].wrapping_add(b[0]), a[1].max(b[1]), a[2] ^ b[2]]
}
