//! Communicator split by a parallel sort of colors and keys: collect, splitters, exchange, merge.   [thesis 2.2, 2.4]
//!
//! Of n ranks p sort. Each sorter collects n/p entries by merging (n/p), finds splitters in lg n rounds of p + lg(n/p),
//! exchanges the entries of other sorters, n/p (p-1)/p, and merges p sequences, n/p lg p. Total: O(p lg n + lg^2 n +
//! n/p lg p).

use crate::Result;
use crate::error::not_negative;

/// Costs of the steps in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitCosts {
    /// To collect an entry.
    pub collect: f64,
    /// Per sorting rank, in each round of the splitter search.
    pub round: f64,
    /// Per bisection of a rank's entries, in each round of the splitter search.
    pub probe: f64,
    /// To exchange an entry.
    pub exchange: f64,
    /// To merge an entry once.
    pub merge: f64,
}

/// Times of the phases in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitPhaseTimes {
    /// Until the sorters have collected their entries.
    pub collect: f64,
    /// Until the splitters are known.
    pub splitters: f64,
    /// Until entries are exchanged.
    pub exchange: f64,
    /// Until entries are merged.
    pub merge: f64,
}

impl SplitPhaseTimes {
    /// The sum of all phases.
    pub fn total(&self) -> f64 {
        self.collect + self.splitters + self.exchange + self.merge
    }
}

impl SplitCosts {
    /// Refuses negative costs.
    pub fn new(collect: f64, round: f64, probe: f64, exchange: f64, merge: f64) -> Result<Self> {
        not_negative("the cost of collecting an entry", collect)?;
        not_negative("the cost of a round for each sorting rank", round)?;
        not_negative("the cost of a probe", probe)?;
        not_negative("the cost of exchanging an entry", exchange)?;
        not_negative("the cost of merging an entry", merge)?;
        Ok(Self { collect, round, probe, exchange, merge })
    }

    /// Phase times for n ranks of which p sort. If p exceeds n, a sorter has less than an entry, and nothing to bisect.
    pub fn phase_times(&self, ranks: f64, sorting: f64) -> SplitPhaseTimes {
        let entries = ranks / sorting;
        let bisections = entries.log2().max(0.0);
        SplitPhaseTimes {
            collect: self.collect * entries,
            splitters: ranks.log2() * (self.round * sorting + self.probe * bisections),
            exchange: self.exchange * entries * (sorting - 1.0) / sorting,
            merge: self.merge * entries * sorting.log2(),
        }
    }

    /// The power of two of sorting ranks, at most `max_sorting` and all ranks, with the least time. A single sorter
    /// only collects, which is merging in place.
    pub fn best_num_sorters(&self, ranks: f64, max_sorting: u32) -> u32 {
        let time = |sorting: u32| self.phase_times(ranks, sorting.into()).total();
        let powers = (0..u32::BITS).map(|bit| 1 << bit);
        let powers = powers.take_while(|sorting: &u32| *sorting <= max_sorting && f64::from(*sorting) <= ranks);
        powers.min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1)
    }
}

/// Costs of the thesis's simulated processors, fitted to its table 2.1 (128M ranks, 2 and 64 sorting).
pub fn thesis_costs() -> SplitCosts {
    let entries = 2f64.powi(26);
    SplitCosts {
        collect: 2.58e6 / entries,
        round: 0.08e6 / (64.0 * 27.0),
        probe: 0.0,
        exchange: 0.80e6 * 2.0 / entries,
        merge: 1.01e6 / entries,
    }
}

/// An entry to sort, one per rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortedEntry {
    /// Color: ranks of the same color form a communicator.
    pub color: u32,
    /// Key: the order within the communicator.
    pub key: u32,
    /// The rank of the entry.
    pub rank: u32,
}

/// Bytes of the entries of a sorting rank where p sort: those of n/p ranks; of the whole table if one sorts.
pub fn memory(ranks: u64, sorting: u64) -> u64 {
    ranks.div_ceil(sorting) * size_of::<SortedEntry>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_sorters_than_ranks() {
        // More sorters than ranks must not pay because probes become free.
        for split in [thesis_costs(), SplitCosts::new(1.0, 0.1, 50.0, 1.0, 1.0).unwrap()] {
            for ranks in [1u32, 2, 3, 5, 8, 100] {
                let best = split.best_num_sorters(ranks.into(), 1024);
                assert!(best <= ranks && best.is_power_of_two(), "{best} of {ranks}: {split:?}");
            }
        }
        let probes = SplitCosts::new(0.0, 0.0, 1.0, 0.0, 0.0).unwrap();
        assert_eq!((probes.best_num_sorters(8.0, 1024), probes.best_num_sorters(8.0, 4)), (8, 4), "all ranks sort");
        assert_eq!((probes.phase_times(8.0, 8.0).total(), probes.phase_times(8.0, 64.0).total()), (0.0, 0.0));
    }
}
