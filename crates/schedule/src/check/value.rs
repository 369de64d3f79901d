//! What an element is in a proof: of which item, and whose contributions to it.
//!
//! Many elements have contributions of the same ranks, combined in the same way. That is kept once for all of them, in
//! [`Contributions`], so an element is two numbers, and combining is a look into a table.

use std::collections::HashMap;

/// Most ranks that a proof can have.
pub const MOST_RANKS: u32 = 192;

/// A set of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Set([u64; MOST_RANKS as usize / 64]);

impl Set {
    pub(crate) fn one(rank: u32) -> Self {
        let mut set = Self::default();
        set.0[rank as usize / 64] = 1 << (rank % 64);
        set
    }

    pub(crate) fn below(rank: u32) -> Self {
        (0..rank).map(Self::one).fold(Self::default(), Self::or)
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    pub(crate) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    pub(crate) fn first(self) -> Option<u32> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word as u32 * 64 + self.0[word].trailing_zeros())
    }
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// What it is an element of; only the same things may be combined.
    pub(crate) item: u32,
    /// Whose contributions it holds: a number in [`Contributions`].
    pub(crate) whose: u32,
}

impl Value {
    /// Where nothing has been written.
    pub(crate) const NOTHING: Self = Self { item: 0, whose: 0 };

    /// A rank's own.
    pub(crate) fn of(item: u32, rank: u32) -> Self {
        Self { item, whose: rank + 1 }
    }

    pub(crate) fn is_nothing(self) -> bool {
        self.whose == 0
    }
}

/// Contributions that were combined in some way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub(crate) set: Set,
    /// From which rank to which, if they were combined in the order of ranks; empty if not.
    interval: (u32, u32),
    /// The way in which they were combined, as a hash: two of the same are rounded alike. Which operand is the left
    /// one makes no difference to it, as an operator that is given its operands in any order must not care.
    pub(crate) way: u64,
}

impl Whose {
    pub(crate) fn is_ordered(&self) -> bool {
        self.interval.0 < self.interval.1
    }
}

/// Why two elements cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// They are not elements of the same thing.
    Different,
    /// This rank would be counted twice.
    Twice(u32),
}

/// All contributions that came up in a proof.
pub(crate) struct Contributions {
    all: Vec<Whose>,
    combined: HashMap<(u32, u32), Result<u32, Unfit>>,
    /// The last that was asked for: the elements of a message mostly ask for the same.
    last: ((u32, u32), Result<u32, Unfit>),
}

impl Contributions {
    pub(crate) fn new(ranks: u32) -> Self {
        let nobody = Whose { set: Set::default(), interval: (0, 0), way: 0 };
        let own = |rank| Whose { set: Set::one(rank), interval: (rank, rank + 1), way: mixed(u64::from(rank)) };
        Self {
            all: std::iter::once(nobody).chain((0..ranks).map(own)).collect(),
            combined: HashMap::new(),
            last: ((0, 0), Err(Unfit::Different)),
        }
    }

    pub(crate) fn of(&self, value: Value) -> &Whose {
        &self.all[value.whose as usize]
    }

    /// Left operand, then right.
    pub(crate) fn combine(&mut self, left: Value, right: Value) -> Result<Value, Unfit> {
        if left.item != right.item {
            return Err(Unfit::Different);
        }
        let pair = (left.whose, right.whose);
        if self.last.0 != pair {
            let found = self.combined.get(&pair).copied();
            let whose = found.unwrap_or_else(|| self.combine_new(pair));
            self.last = (pair, whose);
        }
        self.last.1.map(|whose| Value { item: left.item, whose })
    }

    fn combine_new(&mut self, pair: (u32, u32)) -> Result<u32, Unfit> {
        let (left, right) = (self.all[pair.0 as usize], self.all[pair.1 as usize]);
        let result = match left.set.and(right.set).first() {
            Some(twice) => Err(Unfit::Twice(twice)),
            None => {
                let in_order = left.interval.1 == right.interval.0 && left.is_ordered() && right.is_ordered();
                let interval = if in_order { (left.interval.0, right.interval.1) } else { (0, 0) };
                let way = mixed(left.way.min(right.way).rotate_left(17) ^ mixed(left.way.max(right.way)));
                self.all.push(Whose { set: left.set.or(right.set), interval, way });
                Ok(self.all.len() as u32 - 1)
            }
        };
        self.combined.insert(pair, result);
        result
    }
}

/// SplitMix64's last steps.
fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
