//! Which rank has which vertex, and which number it has there.
//!
//! Inside, vertices are numbered such that each rank has consecutive ones: its own from `starts[rank]` on. How the original names
//! of a graph become such numbers is its [`Distribution`]; nobody needs a table of all vertices for that.

use std::fmt;
use std::str::FromStr;

use treepie_base::Rank;

use crate::scatter::Scatter;
use crate::{Error, Result};

/// How vertices are spread over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Consecutive names together.
    #[default]
    Block,
    /// One after the other to each rank in turn.
    Cyclic,
    /// As if by chance.
    Hashed,
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "block" => Ok(Self::Block),
            "cyclic" => Ok(Self::Cyclic),
            "hashed" => Ok(Self::Hashed),
            _ => Err(Error::Input(format!("`{text}` is no distribution: block, cyclic or hashed"))),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::Hashed => "hashed",
        })
    }
}

/// From original names to inside numbers.
#[derive(Clone, Debug)]
enum Naming {
    /// They are the same.
    Same,
    /// Name `v` is the `v / ranks`th of rank `v % ranks`.
    Cyclic,
    /// Mixed.
    Hashed(Scatter),
    /// Names are any numbers. Each rank knows those of its own vertices, in order.
    Listed(Vec<u64>),
}

/// Which rank has which vertex.
#[derive(Clone, Debug)]
pub struct Layout {
    rank: Rank,
    /// The first number of each rank, and behind the last.
    starts: Vec<u64>,
    /// Vertices of each rank, if all before the last have the same number of them.
    block: Option<u64>,
    naming: Naming,
}

impl Layout {
    /// Spreads `vertices` with the names 0, 1, and so on over `ranks`.
    pub fn new(rank: Rank, ranks: usize, vertices: u64, distribution: Distribution) -> Self {
        let block = vertices.div_ceil(ranks as u64).max(1);
        let (naming, starts) = match distribution {
            Distribution::Block => (Naming::Same, even(block, ranks, vertices)),
            Distribution::Hashed => (Naming::Hashed(Scatter::new(vertices)), even(block, ranks, vertices)),
            Distribution::Cyclic => {
                let (each, more) = (vertices / ranks as u64, vertices % ranks as u64);
                (Naming::Cyclic, (0..=ranks as u64).map(|rank| rank * each + rank.min(more)).collect())
            }
        };
        let block = (distribution != Distribution::Cyclic).then_some(block);
        Self { rank, starts, block, naming }
    }

    /// Ranks have vertices with these names; here are those of this rank, in order, and how many each rank has.
    pub(crate) fn listed(rank: Rank, counts: &[u64], names: Vec<u64>) -> Self {
        let mut starts = vec![0];
        starts.extend(counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        Self { rank, starts, block: None, naming: Naming::Listed(names) }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u64 {
        self.starts[self.ranks()]
    }

    /// How many vertices a rank has.
    pub fn count(&self, rank: Rank) -> usize {
        (self.starts[rank + 1] - self.starts[rank]) as usize
    }

    /// The first number of a rank.
    #[inline]
    pub fn first(&self, rank: Rank) -> u64 {
        self.starts[rank]
    }

    /// Whose a number is, and which of that rank's it is.
    #[inline]
    pub fn place(&self, number: u64) -> (Rank, u32) {
        let rank = match self.block {
            Some(block) => (number / block) as Rank,
            // Ranks without vertices begin where the next one does.
            None => self.starts.partition_point(|start| *start <= number) - 1,
        };
        (rank, (number - self.starts[rank]) as u32)
    }

    /// The number of a vertex with this name. Where names are any numbers, that is known of the own ones only.
    #[inline]
    pub fn number(&self, name: u64) -> Option<u64> {
        match &self.naming {
            _ if name >= self.vertices() && !matches!(self.naming, Naming::Listed(_)) => None,
            Naming::Same => Some(name),
            Naming::Hashed(scatter) => Some(scatter.forth(name)),
            Naming::Cyclic => {
                let ranks = self.ranks() as u64;
                Some(self.starts[(name % ranks) as usize] + name / ranks)
            }
            Naming::Listed(names) => names.binary_search(&name).ok().map(|place| self.starts[self.rank] + place as u64),
        }
    }

    /// The name of one of this rank's own vertices.
    pub fn name(&self, place: usize) -> u64 {
        let number = self.starts[self.rank] + place as u64;
        match &self.naming {
            Naming::Same => number,
            Naming::Hashed(scatter) => scatter.back(number),
            Naming::Cyclic => (place * self.ranks() + self.rank) as u64,
            Naming::Listed(names) => names[place],
        }
    }

    /// Whether names are the numbers below the number of vertices, so that all ranks know whose each is.
    pub fn names_are_numbers(&self) -> bool {
        !matches!(self.naming, Naming::Listed(_))
    }

    /// Bytes that it needs here.
    pub(crate) fn memory(&self) -> usize {
        let names = if let Naming::Listed(names) = &self.naming { names.len() } else { 0 };
        8 * (self.starts.len() + names)
    }
}

fn even(block: u64, ranks: usize, vertices: u64) -> Vec<u64> {
    (0..=ranks as u64).map(|rank| (rank * block).min(vertices)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vertex_has_one_place() {
        for distribution in [Distribution::Block, Distribution::Cyclic, Distribution::Hashed] {
            for (ranks, vertices) in [(1, 0), (1, 7), (3, 1), (3, 10), (5, 100), (7, 3), (4, 64), (5, 1000)] {
                let layouts: Vec<_> = (0..ranks).map(|rank| Layout::new(rank, ranks, vertices, distribution)).collect();
                let mut seen = vec![0; vertices as usize];
                for layout in &layouts {
                    for place in 0..layout.count(layout.rank()) {
                        let name = layout.name(place);
                        seen[name as usize] += 1;
                        let number = layouts[0].number(name).unwrap();
                        assert_eq!(layouts[0].place(number), (layout.rank(), place as u32));
                    }
                    assert_eq!(layout.number(vertices), None);
                }
                assert!(seen.iter().all(|count| *count == 1), "{distribution} {ranks} {vertices}");
            }
        }
    }

    #[test]
    fn listed_names_are_found_where_they_are() {
        let layout = Layout::listed(1, &[2, 0, 3], vec![]);
        assert_eq!((layout.vertices(), layout.place(1), layout.place(2)), (5, (0, 1), (2, 0)));
        let layout = Layout::listed(2, &[2, 0, 3], vec![5, 1 << 40, u64::MAX]);
        assert_eq!((layout.number(1 << 40), layout.number(6), layout.name(2)), (Some(3), None, u64::MAX));
    }
}
