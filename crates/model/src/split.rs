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

    /// The parts, for n ranks of which p sort. Where p is more than n there is less than an entry for each, and nothing
    /// to be halved.
    pub fn parts(&self, ranks: f64, sorting: f64) -> Parts {
        let entries = ranks / sorting;
        let halvings = entries.log2().max(0.0);
        Parts {
            collect: self.collect * entries,
            splitters: ranks.log2() * (self.round * sorting + self.probe * halvings),
            exchange: self.exchange * entries * (sorting - 1.0) / sorting,
            merge: self.merge * entries * sorting.log2(),
        }
    }

    /// The power of two of sorting ranks, up to `most` and to all ranks, with which it takes least. One alone only
    /// collects, which is merging in place.
    pub fn best(&self, ranks: f64, most: u32) -> u32 {
        let time = |sorting: u32| self.parts(ranks, sorting.into()).total();
        let powers = (0..u32::BITS).map(|bit| 1 << bit);
        let powers = powers.take_while(|sorting: &u32| *sorting <= most && f64::from(*sorting) <= ranks);
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

/// What is sorted of each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Ranks with the same are to be together.
    pub colour: u32,
    /// In the order of these.
    pub key: u32,
    /// Whose it is.
    pub rank: u32,
}

/// Bytes of the entries that a rank holds where p sort: those of n/p ranks; of a table of all where one does.
pub fn memory(ranks: u64, sorting: u64) -> u64 {
    ranks.div_ceil(sorting) * size_of::<Entry>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sorts_who_is_not_there() {
        // Probes for nothing must not be worth having more ranks than there are.
        for split in [thesis(), Split::new(1.0, 0.1, 50.0, 1.0, 1.0).unwrap()] {
            for ranks in [1u32, 2, 3, 5, 8, 100] {
                let best = split.best(ranks.into(), 1024);
                assert!(best <= ranks && best.is_power_of_two(), "{best} of {ranks}: {split:?}");
            }
        }
        let probes = Split::new(0.0, 0.0, 1.0, 0.0, 0.0).unwrap();
        assert_eq!((probes.best(8.0, 1024), probes.best(8.0, 4)), (8, 4), "all that there are");
        assert_eq!((probes.parts(8.0, 8.0).total(), probes.parts(8.0, 64.0).total()), (0.0, 0.0));
    }
}
