//! The balanced graph of the NBX paper: evenly distributed over processes, with few edges between them.
//! [Hoefler, Siebert, Lumsdaine, Scalable communication protocols for dynamic sparse data exchange, PPoPP 2010, 5.1.1]
//!
//! There is a group of vertices for each process. Each ordered pair of different vertices of a group has an arc with
//! the same probability. Each group has some arcs from random vertices to random vertices of other groups; none if
//! there is only one group. A Hamiltonian cycle through all vertices, in order, keeps the graph connected. An arc of
//! one kind may coincide with one of another.

use std::fmt;

use super::random::{Bernoulli, RandomStream, StreamPurpose};
use super::seeding::{Seeding, impl_seeding};
use super::text::GeneratorArguments;
use super::{check_probability, check_vertices};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// A directed graph of groups of vertices. Group g begins at vertex g times the group size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balanced {
    groups: u64,
    /// The number of vertices of a group.
    group_size: u64,
    probability: f64,
    /// The number of arcs that leave a group, without those of the cycle.
    remote: u64,
    seeding: Seeding,
}

impl_seeding!(Balanced);

impl Balanced {
    /// `groups` groups of `group_size` vertices, arcs within a group with a probability, and `remote` arcs from each
    /// group to others.
    pub fn new(groups: u64, group_size: u64, probability: f64, remote: u64) -> Result<Self> {
        check_vertices(groups.checked_mul(group_size))?;
        if groups.checked_mul(remote).is_none() {
            return Err(Error::Input(format!("{groups} groups of {remote} remote edges are too many")));
        }
        let probability = check_probability(probability)?;
        Ok(Self { groups, group_size, probability, remote, seeding: Seeding::default() })
    }

    pub(super) fn parse(arguments: &mut GeneratorArguments) -> Result<Self> {
        let (groups, group_size) = (arguments.required("groups")?, arguments.required("vertices")?);
        let (probability, remote) = (arguments.required("p")?, arguments.required("k")?);
        let graph = Self::new(groups, group_size, probability, remote)?;
        Ok(Self { seeding: Seeding::parse(arguments)?, ..graph })
    }

    /// The number of groups.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    fn count(&self) -> u64 {
        self.groups * self.group_size
    }

    /// The endpoints of a remote arc.
    fn remote_edge(&self, number: u64) -> (u64, u64) {
        let begin = number / self.remote * self.group_size;
        let mut stream = RandomStream::new(self.seeding.seed, StreamPurpose::Remote, number);
        let from = begin + stream.below(self.group_size);
        let other = stream.below(self.count() - self.group_size);
        (from, if other < begin { other } else { other + self.group_size })
    }
}

impl fmt::Display for Balanced {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { groups, group_size, probability, remote, seeding } = self;
        write!(f, "balanced:groups={groups},vertices={group_size},p={probability},k={remote}{seeding}")
    }
}

impl EdgeSource for Balanced {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.count())
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> WeightKind {
        self.seeding.weights()
    }

    /// If there is a part for each group, each part has the arcs that begin in its group.
    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let bernoulli = Bernoulli::new(self.probability);
        let mut batcher = EdgeBatcher::new(sink);
        for from in block_range(self.count(), part, parts) {
            let offset = from % self.group_size;
            let mut stream = RandomStream::new(self.seeding.seed, StreamPurpose::Row, from);
            bernoulli.for_each_success(self.group_size - 1, &mut stream, |other| {
                let to = from - offset + other + u64::from(other >= offset);
                batcher.push(self.seeding.edge(from, to));
            });
            let next = (from + 1) % self.count();
            if next != from {
                batcher.push(self.seeding.edge(from, next));
            }
        }
        if self.groups > 1 {
            for number in block_range(self.groups * self.remote, part, parts) {
                let (from, to) = self.remote_edge(number);
                batcher.push(self.seeding.edge(from, to));
            }
        }
        batcher.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(graph: Balanced, part: usize, parts: usize) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        graph.read_part(part, parts, &mut |some| edges.extend(some.iter().map(|edge| (edge.from, edge.to)))).unwrap();
        edges
    }

    #[test]
    fn groups_of_the_paper_have_the_edges_it_says() {
        for (vertices, expected) in [(15_000, 6.75e6), (10_000, 3.0e6)] {
            let graph = Balanced::new(8, vertices, 0.03, 6).unwrap();
            let mut local = 0;
            graph.read_part(3, 8, &mut |some| local += some.len()).unwrap();
            let local = local as f64 - vertices as f64 - 6.0;
            // Self-loops are left out, which is one edge in `vertices`; the rest is random.
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
