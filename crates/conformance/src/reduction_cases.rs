//! Operators with contributions and expected results of reductions.

use std::ops::Range;

use treepie::{Commutative, MaxLoc, MinLoc, Pod, Reduction, Sum, ValueLoc, commutative};

use crate::payload::{Element, remembered};

/// An operator, and a function that makes its elements from numbers.
pub(crate) struct ReductionCase<T, R> {
    pub(crate) operator: fn() -> R,
    pub(crate) element: fn(u64) -> T,
}

impl<T: Pod + Send, R: Reduction<T> + 'static> ReductionCase<T, R> {
    /// The contribution of a rank.
    pub(crate) fn contribution(&self, rank: usize, len: usize) -> Vec<T> {
        self.remembered(rank..rank + 1, len, || {
            (0..len as u64).map(|i| (self.element)(rank as u64 * 1_000_003 + i)).collect()
        })
    }

    /// The reduction of the contributions of `ranks` in rank order.
    pub(crate) fn result(&self, ranks: Range<usize>, len: usize) -> Vec<T> {
        let operator = (self.operator)();
        let combine = |left: Vec<T>, right: Vec<T>| {
            left.into_iter().zip(right).map(|(left, right)| operator.combine(left, right)).collect()
        };
        self.remembered(ranks.clone(), len, || {
            ranks.map(|rank| self.contribution(rank, len)).reduce(combine).unwrap_or_default()
        })
    }

    /// That of one rank is its contribution.
    fn remembered(&self, ranks: Range<usize>, len: usize, compute: impl FnOnce() -> Vec<T>) -> Vec<T> {
        remembered::<Self, T>([self.element as usize, ranks.start, ranks.end, len], compute)
    }
}

/// A commutative reduction.
pub(crate) const SUM: ReductionCase<u64, Sum> = ReductionCase { operator: || Sum, element: u64::from_number };

/// Composition of affine maps x -> ax + b modulo a prime: not commutative, and every operand changes the result.
pub(crate) const AFFINE_MAPS: ReductionCase<[u64; 2], AffineMapOp> =
    ReductionCase { operator: || compose, element: affine_map };

type AffineMapOp = fn([u64; 2], [u64; 2]) -> [u64; 2];

const PRIME: u64 = (1 << 31) - 1;

fn compose([a, b]: [u64; 2], [c, d]: [u64; 2]) -> [u64; 2] {
    [a * c % PRIME, (b * c + d) % PRIME]
}

fn affine_map(number: u64) -> [u64; 2] {
    [u64::from_number(number) % (PRIME - 1) + 1, u64::from_number(number + 77) % PRIME]
}

/// Integers as floats, whose sums are exact.
pub(crate) const FLOATS: ReductionCase<f64, Sum> =
    ReductionCase { operator: || Sum, element: |number| (u64::from_number(number) % 1000) as f64 };

pub(crate) const MIN_LOC: ReductionCase<ValueLoc<f64>, MinLoc> =
    ReductionCase { operator: || MinLoc, element: located };
pub(crate) const MAX_LOC: ReductionCase<ValueLoc<f64>, MaxLoc> =
    ReductionCase { operator: || MaxLoc, element: located };

/// Elements with few different values, so that locations decide.
fn located(number: u64) -> ValueLoc<f64> {
    ValueLoc { value: (u64::from_number(number) % 5) as f64, loc: number / 1_000_003 }
}

type TripleOp = fn([i32; 3], [i32; 3]) -> [i32; 3];

/// A commutative closure on plain data.
pub(crate) const TRIPLES: ReductionCase<[i32; 3], Commutative<TripleOp>> =
    ReductionCase { operator: || commutative(combine_componentwise as TripleOp), element: <[i32; 3]>::from_number };

fn combine_componentwise(a: [i32; 3], b: [i32; 3]) -> [i32; 3] {
    [a[0].wrapping_add(b[0]), a[1].max(b[1]), a[2] ^ b[2]]
}
