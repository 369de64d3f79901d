//! A graph that is well distributed over the processes that use it, with few edges between them.
//! [Hoefler, Siebert, Lumsdaine, Scalable communication protocols for dynamic sparse data exchange, PPoPP 2010, 5.1.1]
//!
//! Vertices lie in groups, one for each process that the graph was made for. Each ordered pair of different vertices of
//! a group has an arc with the same probability. Each group has some arcs from random vertices of it to random vertices
//! of other groups; where there is one group only, there are none. A Hamiltonian cycle through all vertices, in order,
//! keeps the graph connected. An arc of one kind may coincide with one of another.

use std::fmt;

use super::chance::{Chance, by_chance};
use super::random::{Coin, Purpose, Stream};
use super::text::Arguments;
use super::{checked_probability, checked_vertices};
use crate::outlet::Outlet;
use crate::{Edge, Edges, Error, Orientation, Result, Weights, share};

/// A directed graph of groups of vertices. Group g has those from g times its size on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balanced {
    groups: u64,
    /// Vertices of a group.
    size: u64,
    probability: f64,
    /// Arcs that leave a group, without those of the cycle.
    remote: u64,
    chance: Chance,
}

by_chance!(Balanced);

impl Balanced {
    /// Groups of so many vertices each, joined with this probability, and `remote` arcs from each group to others.
    pub fn new(groups: u64, vertices: u64, probability: f64, remote: u64) -> Result<Self> {
        checked_vertices(groups.checked_mul(vertices))?;
        if groups.checked_mul(remote).is_none() {
            return Err(Error::Input(format!("{groups} groups of {remote} remote edges are too many")));
        }
        let probability = checked_probability(probability)?;
        Ok(Self { groups, size: vertices, probability, remote, chance: Chance::default() })
    }

    pub(super) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let (groups, vertices) = (arguments.required("groups")?, arguments.required("vertices")?);
        let (probability, remote) = (arguments.required("p")?, arguments.required("k")?);
        let graph = Self::new(groups, vertices, probability, remote)?;
        Ok(Self { chance: Chance::parse(arguments)?, ..graph })
    }

    /// How many groups there are.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    fn count(&self) -> u64 {
        self.groups * self.size
    }

    /// Ends of a remote arc.
    fn remote(&self, number: u64) -> (u64, u64) {
        let begin = number / self.remote * self.size;
        let mut stream = Stream::new(self.chance.seed, Purpose::Remote, number);
        let from = begin + stream.below(self.size);
        let other = stream.below(self.count() - self.size);
        (from, if other < begin { other } else { other + self.size })
    }
}

impl fmt::Display for Balanced {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { groups, size, probability, remote, chance } = self;
        write!(f, "balanced:groups={groups},vertices={size},p={probability},k={remote}{chance}")
    }
}

impl Edges for Balanced {
    fn vertices(&self) -> Option<u64> {
        Some(self.count())
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> Weights {
        self.chance.weights()
    }

    /// With as many parts as groups, each part has the arcs that begin in its group.
    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let coin = Coin::new(self.probability);
        let mut outlet = Outlet::new(sink);
        for from in share(self.count(), part, parts) {
            let place = from % self.size;
            let mut stream = Stream::new(self.chance.seed, Purpose::Row, from);
            coin.heads(self.size - 1, &mut stream, |other| {
                let to = from - place + other + u64::from(other >= place);
                outlet.put(self.chance.edge(from, to));
            });
            let next = (from + 1) % self.count();
            if next != from {
                outlet.put(self.chance.edge(from, next));
            }
        }
        if self.groups > 1 {
            for number in share(self.groups * self.remote, part, parts) {
                let (from, to) = self.remote(number);
                outlet.put(self.chance.edge(from, to));
            }
        }
        outlet.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(graph: Balanced, part: usize, parts: usize) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        graph.part(part, parts, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
        edges
    }

    #[test]
    fn groups_of_the_paper_have_the_edges_it_says() {
        for (vertices, expected) in [(15_000, 6.75e6), (10_000, 3.0e6)] {
            let graph = Balanced::new(8, vertices, 0.03, 6).unwrap();
            let mut local = 0;
            graph.part(3, 8, &mut |some| local += some.len()).unwrap();
            let local = local as f64 - vertices as f64 - 6.0;
            // Self-loops are left out, which is one edge in `vertices`; the rest is chance.
            assert!((local - expected).abs() < expected / vertices as f64 + 4.0 * expected.sqrt(), "A25: {local}");
        }
    }

    #[test]
    fn a_part_a_group() {
        let (groups, size, remote) = (5, 40, 7);
        let graph = Balanced::new(groups, size, 0.1, remote).unwrap();
        let mut entered = [0; 5];
        for group in 0..groups {
            let inside = group * size..(group + 1) * size;
            let edges = part(graph, group as usize, groups as usize);
            assert!(edges.iter().all(|(from, to)| inside.contains(from) && from != to));
            let leaving: Vec<_> = edges.iter().filter(|(_, to)| !inside.contains(to)).collect();
            // And one of the cycle.
            assert_eq!(leaving.len() as u64, remote + 1);
            leaving.iter().for_each(|(_, to)| entered[(to / size) as usize] += 1);
        }
        assert!(entered.iter().all(|count| *count > 1), "{entered:?}");
    }

    #[test]
    fn all_local_pairs_are_alike() {
        let mut counts = [[0u32; 6]; 6];
        for seed in 0..2000 {
            for (from, to) in part(Balanced::new(2, 3, 0.4, 0).unwrap().with_seed(seed), 0, 1) {
                counts[from as usize][to as usize] += 1;
            }
        }
        for (from, row) in counts.into_iter().enumerate() {
            for (to, count) in row.into_iter().enumerate() {
                let cycle = if to == (from + 1) % 6 { 2000 } else { 0 };
                let local = if from / 3 == to / 3 && from != to { 800 } else { 0 };
                assert!(count.abs_diff(cycle + local) <= local / 6, "{from} {to}: {count}");
            }
        }
    }

    #[test]
    fn small_ones() {
        assert_eq!(part(Balanced::new(1, 1, 1.0, 3).unwrap(), 0, 1), []);
        assert_eq!(part(Balanced::new(1, 3, 0.0, 3).unwrap(), 0, 1), [(0, 1), (1, 2), (2, 0)]);
        assert_eq!(part(Balanced::new(2, 1, 1.0, 1).unwrap(), 0, 1), [(0, 1), (1, 0), (0, 1), (1, 0)]);
        for bad in [
            Balanced::new(0, 4, 0.5, 1),
            Balanced::new(4, 0, 0.5, 1),
            Balanced::new(4, 4, 1.5, 1),
            Balanced::new(1 << 40, 1 << 40, 0.5, 1),
            Balanced::new(4, 4, 0.5, u64::MAX / 2),
        ] {
            assert!(matches!(bad, Err(Error::Input(_))), "{bad:?}");
        }
    }
}
