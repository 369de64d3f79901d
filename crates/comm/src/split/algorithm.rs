//! The algorithms to split a communicator, by their ids.

use std::fmt;
use std::str::FromStr;

use treepie_base::{Error, Result};

use super::parallel_sort::SplitterOptions;

/// How a communicator is split. All algorithms create the same communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitAlgorithm {
    /// Allgather of the table, then a local sort of the entries of the own color.
    AllgatherSort,
    /// Allgather of the table, merged after each step of Bruck's algorithm.
    Merge,
    /// A parallel sort, then an allgather of the table.
    ParallelSort {
        /// Number of ranks that sort together.
        sorters: u32,
    },
    /// A parallel sort; the table stays distributed over the sorters.
    Distributed {
        /// Number of ranks that sort together.
        sorters: u32,
    },
    /// The same with approximate splitters and overlapped phases.
    Overlapped {
        /// Number of ranks that sort together.
        sorters: u32,
    },
    /// A quicksort with one entry on each rank; the table is distributed.
    Quick {
        /// Number of ranks that share a table.
        sorters: u32,
    },
}

impl SplitAlgorithm {
    /// One of each, with this number of sorters.
    pub fn all(sorters: u32) -> [Self; 6] {
        [
            Self::AllgatherSort,
            Self::Merge,
            Self::ParallelSort { sorters },
            Self::Distributed { sorters },
            Self::Overlapped { sorters },
            Self::Quick { sorters },
        ]
    }

    /// Its id, without the parameter.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllgatherSort => "split/allgather_sort",
            Self::Merge => "split/merge",
            Self::ParallelSort { .. } => "split/parallel_sort",
            Self::Distributed { .. } => "split/distributed",
            Self::Overlapped { .. } => "split/overlapped",
            Self::Quick { .. } => "split/quick",
        }
    }

    /// Number of ranks that sort together, or share a table.
    pub fn sorters(&self) -> Option<u32> {
        match *self {
            Self::AllgatherSort | Self::Merge => None,
            Self::ParallelSort { sorters }
            | Self::Distributed { sorters }
            | Self::Overlapped { sorters }
            | Self::Quick { sorters } => Some(sorters),
        }
    }

    /// Whether the table is distributed.
    pub fn shares_table(&self) -> bool {
        matches!(self, Self::Distributed { .. } | Self::Overlapped { .. } | Self::Quick { .. })
    }

    /// Maximum number of rows of a part of a distributed table of `ranks` ranks.
    pub(crate) fn max_rows(&self, ranks: u32) -> u32 {
        let sorters = self.sorters().unwrap_or(1).clamp(1, ranks.max(1));
        let even = ranks.div_ceil(sorters);
        match self {
            Self::Overlapped { .. } => even + 2 * SplitterOptions::overlapped(ranks.into(), sorters).tolerance as u32,
            _ => even,
        }
    }

    /// Its number in messages.
    pub(super) fn number(&self) -> u32 {
        Self::all(0).iter().position(|other| other.name() == self.name()).expect("`all` lists each algorithm") as u32
    }

    /// The algorithm with this id; `sorters` is used unless the id has the parameter.
    pub fn parse(id: &str, sorters: u32) -> Result<Self> {
        let (name, parameter) = id.split_once(':').map_or((id, None), |(name, parameter)| (name, Some(parameter)));
        let refused = |why: String| Error::Algorithm(format!("`{id}`: {why}"));
        let sorters = match parameter.map(|parameter| parameter.split_once('=')) {
            None => sorters,
            Some(Some(("sorters", count))) => {
                let count = u32::from_str(count).ok().filter(|count| *count > 0);
                count.ok_or_else(|| refused("the number of sorters is an integer from 1 on".to_owned()))?
            }
            Some(_) => {
                return Err(refused("the only parameter is `sorters`, as in `split/quick:sorters=8`".to_owned()));
            }
        };
        let algorithms = Self::all(sorters);
        let algorithm = algorithms.into_iter().find(|algorithm| algorithm.name() == name);
        let algorithm = algorithm.ok_or_else(|| {
            let known: Vec<&str> = algorithms.iter().map(Self::name).collect();
            refused(format!("there is no such split algorithm; there are split/auto, {}", known.join(", ")))
        })?;
        if parameter.is_some() && algorithm.sorters().is_none() {
            return Err(refused("all ranks sort in it, so it has no `sorters`".to_owned()));
        }
        Ok(algorithm)
    }
}

impl fmt::Display for SplitAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sorters() {
            Some(sorters) => write!(f, "{}:sorters={sorters}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_and_invalid_ones_are_refused() {
        for algorithm in SplitAlgorithm::all(7) {
            assert_eq!(SplitAlgorithm::parse(algorithm.name(), 7), Ok(algorithm));
            assert_eq!(SplitAlgorithm::parse(&algorithm.to_string(), 99), Ok(algorithm));
        }
        for bad in ["split/best", "split/quick:sorters=0", "split/quick:p=3", "split/merge:sorters=2", "split/quick:"] {
            assert!(SplitAlgorithm::parse(bad, 4).is_err(), "{bad}");
        }
    }
}
