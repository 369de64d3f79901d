//! Splitting a communicator by a parallel sort of colours and keys: collect, splitters, exchange, merge.
//! [thesis 2.2, 2.4]
//!
//! Of n ranks, groups of p sort. Each collects n/p entries by merging (n/p), finds splitters in lg n rounds of p +
//! lg(n/p), exchanges what is not its own, n/p (p-1)/p, and merges p parts, n/p lg p. In all O(p lg n + lg^2 n + n/p lg
//! p).

use crate::Result;
use crate::error::not_negative;

/// What a step costs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// To collect an entry.
    pub collect: f64,
    /// In each round of the search for splitters, for each rank that sorts.
    pub round: f64,
    /// In each round, for each halving of a rank's entries.
    pub probe: f64,
    /// To exchange an entry.
    pub exchange: f64,
    /// To merge an entry once.
    pub merge: f64,
}

/// How long each part takes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Until those who sort have their entries.
    pub collect: f64,
    /// Until they know which entries are whose.
    pub splitters: f64,
    /// Until they have those.
    pub exchange: f64,
    /// Until those are in order.
    pub merge: f64,
}

impl Parts {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.collect + self.splitters + self.exchange + self.merge
    }
}

impl Split {
    /// Refuses costs that cannot be.
    pub fn new(collect: f64, round: f64, probe: f64, exchange: f64, merge: f64) -> Result<Self> {
        not_negative("the cost of collecting an entry", collect)?;
        not_negative("the cost of a round for each sorting rank", round)?;
        not_negative("the cost of a probe", probe)?;
        not_negative("the cost of exchanging an entry", exchange)?;
        not_negative("the cost of merging an entry", merge)?;
        Ok(Self { collect, round, probe, exchange, merge })
    }

    /// The parts, for n ranks of which p sort.
    pub fn parts(&self, ranks: f64, sorting: f64) -> Parts {
        let entries = ranks / sorting;
        Parts {
            collect: self.collect * entries,
            splitters: ranks.log2() * (self.round * sorting + self.probe * entries.log2()),
            exchange: self.exchange * entries * (sorting - 1.0) / sorting,
            merge: self.merge * entries * sorting.log2(),
        }
    }

    /// The power of two of sorting ranks, up to `most`, with which it takes least. One alone only collects, which is
    /// merging in place.
    pub fn best(&self, ranks: f64, most: u32) -> u32 {
        let time = |sorting: u32| self.parts(ranks, sorting.into()).total();
        let powers = (0..u32::BITS).map(|bit| 1 << bit).take_while(|sorting| *sorting <= most);
        powers.min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1)
    }
}

/// The thesis's simulated processors as fitted to its table 2.1 (128M ranks, 2 and 64 sorting).
pub fn thesis() -> Split {
    let entries = 2f64.powi(26);
    Split {
        collect: 2.58e6 / entries,
        round: 0.08e6 / (64.0 * 27.0),
        probe: 0.0,
        exchange: 0.80e6 * 2.0 / entries,
        merge: 1.01e6 / entries,
    }
}

/// Bytes of a table of all ranks, with so many fields of 32 bits.
pub fn table(ranks: u64, fields: u64) -> u64 {
    4 * fields * ranks
}

/// Entries that a rank holds where p sort: n/p.
pub fn entries(ranks: u64, sorting: u64) -> u64 {
    ranks.div_ceil(sorting)
}
