//! Symbolic values: which element a value belongs to, and the contributions combined in it.
//!
//! Many values have contributions of the same ranks, combined in the same order. [`Contributions`] stores these once,
//! so a value is two numbers, and combining is a table lookup.

use std::collections::HashMap;

/// The maximum number of ranks of a schedule to be checked.
pub const MAX_RANKS: u32 = 192;

/// A set of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct RankSet([u64; MAX_RANKS as usize / 64]);

impl RankSet {
    pub(crate) fn single(rank: u32) -> Self {
        let mut set = Self::default();
        set.0[rank as usize / 64] = 1 << (rank % 64);
        set
    }

    pub(crate) fn below(rank: u32) -> Self {
        (0..rank).map(Self::single).fold(Self::default(), Self::union)
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    pub(crate) fn union(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    pub(crate) fn difference(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    pub(crate) fn first(self) -> Option<u32> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word as u32 * 64 + self.0[word].trailing_zeros())
    }
}

/// A symbolic value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymbolicValue {
    /// The element it is a value of; only values of the same element may be combined.
    pub(crate) element: u32,
    /// The contributions it holds: an index into [`Contributions`].
    pub(crate) contribution: u32,
}

impl SymbolicValue {
    /// An uninitialized value.
    pub(crate) const UNDEFINED: Self = Self { element: 0, contribution: 0 };

    /// A rank's contribution to an element.
    pub(crate) fn new(element: u32, rank: u32) -> Self {
        Self { element, contribution: rank + 1 }
    }

    pub(crate) fn is_undefined(self) -> bool {
        self.contribution == 0
    }
}

/// Contributions of a set of ranks, combined in some order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contribution {
    pub(crate) ranks: RankSet,
    /// The interval of ranks, if they were combined in rank order; empty if not.
    interval: (u32, u32),
    /// A hash of the expression tree: equal trees round alike. It does not depend on which operand is the left one,
    /// since an operator that gets its operands in any order must be commutative.
    pub(crate) combine_hash: u64,
}

impl Contribution {
    pub(crate) fn is_ordered(&self) -> bool {
        self.interval.0 < self.interval.1
    }
}

/// Why two values cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CombineError {
    /// They are values of different elements.
    ElementMismatch,
    /// This rank would contribute twice.
    DuplicateRank(u32),
}

/// All contributions that occur in a check.
pub(crate) struct Contributions {
    all: Vec<Contribution>,
    combined: HashMap<(u32, u32), Result<u32, CombineError>>,
    /// The last lookup: the elements of a message mostly repeat it.
    last: ((u32, u32), Result<u32, CombineError>),
}

impl Contributions {
    pub(crate) fn new(ranks: u32) -> Self {
        let empty = Contribution { ranks: RankSet::default(), interval: (0, 0), combine_hash: 0 };
        let single = |rank| Contribution {
            ranks: RankSet::single(rank),
            interval: (rank, rank + 1),
            combine_hash: mix64(u64::from(rank)),
        };
        Self {
            all: std::iter::once(empty).chain((0..ranks).map(single)).collect(),
            combined: HashMap::new(),
            last: ((0, 0), Err(CombineError::ElementMismatch)),
        }
    }

    pub(crate) fn get(&self, value: SymbolicValue) -> &Contribution {
        &self.all[value.contribution as usize]
    }

    /// Combines left op right.
    pub(crate) fn combine(&mut self, left: SymbolicValue, right: SymbolicValue) -> Result<SymbolicValue, CombineError> {
        if left.element != right.element {
            return Err(CombineError::ElementMismatch);
        }
        let pair = (left.contribution, right.contribution);
        if self.last.0 != pair {
            let found = self.combined.get(&pair).copied();
            let contribution = found.unwrap_or_else(|| self.combine_new(pair));
            self.last = (pair, contribution);
        }
        self.last.1.map(|contribution| SymbolicValue { element: left.element, contribution })
    }

    fn combine_new(&mut self, pair: (u32, u32)) -> Result<u32, CombineError> {
        let (left, right) = (self.all[pair.0 as usize], self.all[pair.1 as usize]);
        let result = match left.ranks.intersection(right.ranks).first() {
            Some(rank) => Err(CombineError::DuplicateRank(rank)),
            None => {
                let in_order = left.interval.1 == right.interval.0 && left.is_ordered() && right.is_ordered();
                let interval = if in_order { (left.interval.0, right.interval.1) } else { (0, 0) };
                let combine_hash = mix64(
                    left.combine_hash.min(right.combine_hash).rotate_left(17)
                        ^ mix64(left.combine_hash.max(right.combine_hash)),
                );
                self.all.push(Contribution { ranks: left.ranks.union(right.ranks), interval, combine_hash });
                Ok(self.all.len() as u32 - 1)
            }
        };
        self.combined.insert(pair, result);
        result
    }
}

/// The finalizer of SplitMix64.
fn mix64(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
