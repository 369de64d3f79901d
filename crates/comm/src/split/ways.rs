//! The ways to split a communicator, by their ids.

use std::fmt;
use std::str::FromStr;

use treepie_base::{Error, Result};

use super::sorting::Manner;

/// How a communicator is split. All ways give the same communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All get the whole table, and sort those of their colour.
    AllgatherSort,
    /// All get the whole table, and merge after each step of the doubling.
    Merge,
    /// A parallel sort, and then all get the whole table.
    ParallelSort {
        /// How many sort together.
        sorters: u32,
    },
    /// A parallel sort, and the table stays with those who sorted it.
    Distributed {
        /// How many sort together.
        sorters: u32,
    },
    /// The same with splitters that are only about right, and everything at once.
    Overlapped {
        /// How many sort together.
        sorters: u32,
    },
    /// A quicksort of one entry on each rank, and the table is shared.
    Quick {
        /// How many share a table.
        sorters: u32,
    },
}

impl Way {
    /// One of each, with so many sorters.
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

    /// What it is called, without its parameter.
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

    /// How many sort together, or share a table.
    pub fn sorters(&self) -> Option<u32> {
        match *self {
            Self::AllgatherSort | Self::Merge => None,
            Self::ParallelSort { sorters }
            | Self::Distributed { sorters }
            | Self::Overlapped { sorters }
            | Self::Quick { sorters } => Some(sorters),
        }
    }

    /// Whether tables are shared.
    pub fn shares(&self) -> bool {
        matches!(self, Self::Distributed { .. } | Self::Overlapped { .. } | Self::Quick { .. })
    }

    /// The most rows of a part, where tables of so many ranks are shared.
    pub(crate) fn most_rows(&self, ranks: u32) -> u32 {
        let sorters = self.sorters().unwrap_or(1).clamp(1, ranks.max(1));
        let even = ranks.div_ceil(sorters);
        match self {
            Self::Overlapped { .. } => even + 2 * Manner::overlapped(ranks.into(), sorters).tolerance as u32,
            _ => even,
        }
    }

    /// In messages.
    pub(super) fn number(&self) -> u32 {
        Self::all(0).iter().position(|way| way.name() == self.name()).expect("all ways are there") as u32
    }

    /// The way that an id names; where it does not say how many are to sort, so many do.
    pub fn parse(id: &str, sorters: u32) -> Result<Self> {
        let (name, parameter) = id.split_once(':').map_or((id, None), |(name, parameter)| (name, Some(parameter)));
        let refused = |why: String| Error::Algorithm(format!("`{id}`: {why}"));
        let sorters = match parameter.map(|parameter| parameter.split_once('=')) {
            None => sorters,
            Some(Some(("sorters", count))) => {
                let count = u32::from_str(count).ok().filter(|count| *count > 0);
                count.ok_or_else(|| refused("so many ranks cannot sort; it is a number from 1 on".to_owned()))?
            }
            Some(_) => {
                return Err(refused("the only parameter is `sorters`, as in `split/quick:sorters=8`".to_owned()));
            }
        };
        let ways = Self::all(sorters);
        let way = ways.into_iter().find(|way| way.name() == name);
        let way = way.ok_or_else(|| {
            let known: Vec<&str> = ways.iter().map(Self::name).collect();
            refused(format!("there is no such way to split; there are split/auto, {}", known.join(", ")))
        })?;
        if parameter.is_some() && way.sorters().is_none() {
            return Err(refused("all ranks sort there, so there are no `sorters`".to_owned()));
        }
        Ok(way)
    }
}

impl fmt::Display for Way {
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
    fn ids_name_ways_and_bad_ones_are_refused() {
        for way in Way::all(7) {
            assert_eq!(Way::parse(way.name(), 7), Ok(way));
            assert_eq!(Way::parse(&way.to_string(), 99), Ok(way));
        }
        for bad in ["split/best", "split/quick:sorters=0", "split/quick:p=3", "split/merge:sorters=2", "split/quick:"] {
            assert!(Way::parse(bad, 4).is_err(), "{bad}");
        }
    }
}
