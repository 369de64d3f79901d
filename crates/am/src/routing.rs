//! Routing: the next hop to each destination.
//!
//! | routing | hops | neighbors |
//! |---|---|---|
//! | direct | 1 | P - 1 |
//! | rook | 2 | rows + columns - 2 |
//! | grid of sides s | one per dimension | the sum of s - 1 |
//! | hypercube | log2 P | log2 P, rounded up |
//! | clusters | 3 | the ranks of its cluster, and gateways of others |
//!
//! All but direct routing forward messages, and all work for any P: a grid may have more positions than ranks, and a
//! route that would lead over an empty position takes the dimensions in another order.

mod clusters;
mod grid;

use treepie_base::{Error, Result};

use crate::config::Routing;
use clusters::Clusters;
use grid::Grid;

/// The routes from one rank to all others.
#[derive(Clone, Debug)]
pub(crate) struct RoutingTable {
    rank: u32,
    topology: RouteTopology,
    /// Ranks to which this one sends, sorted.
    neighbors: Vec<u32>,
    /// Index in `neighbors` of the next hop to each rank, for up to `MAX_TABLE_RANKS` ranks.
    next_hop_indices: Option<Vec<u32>>,
}

#[derive(Clone, Debug)]
enum RouteTopology {
    Direct { ranks: u32 },
    Grid(Grid),
    Clusters(Clusters),
}

/// For more ranks the next hop of each message is computed: the table would not fit the first-level cache, and simulated
/// ranks have one each.
const MAX_TABLE_RANKS: u32 = 1 << 12;

impl RoutingTable {
    pub(crate) fn new(rank: u32, ranks: u32, routing: &Routing) -> Result<Self> {
        let topology = match routing {
            Routing::Direct => RouteTopology::Direct { ranks },
            Routing::Rook => RouteTopology::Grid(Grid::square(ranks)),
            Routing::Grid(sides) => RouteTopology::Grid(Grid::new(sides, ranks).ok_or_else(|| {
                let positions: u64 = sides.iter().map(|side| u64::from(*side)).product();
                Error::Algorithm(format!("routing={routing} has {positions} positions for {ranks} ranks"))
            })?),
            Routing::Hypercube => RouteTopology::Grid(Grid::cube(ranks)),
            Routing::Clusters(sizes) => RouteTopology::Clusters(Clusters::new(sizes, ranks).ok_or_else(|| {
                let sum: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
                Error::Algorithm(format!("routing={routing} has {sum} ranks where there are {ranks}"))
            })?),
        };
        let mut neighbors = match &topology {
            RouteTopology::Direct { .. } => Vec::new(),
            RouteTopology::Grid(grid) => grid.neighbors(rank),
            RouteTopology::Clusters(clusters) => clusters.neighbors(rank),
        };
        neighbors.sort_unstable();
        neighbors.dedup();
        neighbors.retain(|neighbor| *neighbor != rank);
        let mut routes = Self { rank, topology, neighbors, next_hop_indices: None };
        if !routes.is_direct() && ranks <= MAX_TABLE_RANKS {
            routes.next_hop_indices = Some((0..ranks).map(|to| routes.compute_next_hop_index(to)).collect());
        }
        Ok(routes)
    }

    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.topology, RouteTopology::Direct { .. })
    }

    /// The number of neighbors. With direct routing these are all ranks, including this one.
    pub(crate) fn num_neighbors(&self) -> usize {
        match self.topology {
            RouteTopology::Direct { ranks } => ranks as usize,
            _ => self.neighbors.len(),
        }
    }

    pub(crate) fn neighbor(&self, index: usize) -> u32 {
        if self.is_direct() { index as u32 } else { self.neighbors[index] }
    }

    /// The neighbor index of the next hop to a rank; for this rank itself, the number of neighbors.
    #[inline]
    pub(crate) fn next_hop_index(&self, to: u32) -> usize {
        match &self.next_hop_indices {
            Some(indices) => indices[to as usize] as usize,
            None if self.is_direct() => to as usize,
            None => self.compute_next_hop_index(to) as usize,
        }
    }

    fn compute_next_hop_index(&self, to: u32) -> u32 {
        if to == self.rank {
            return self.neighbors.len() as u32;
        }
        let next = self.next_hop(to);
        self.neighbors.binary_search(&next).expect("the next hop is a neighbor") as u32
    }

    /// The next hop to another rank.
    fn next_hop(&self, to: u32) -> u32 {
        match &self.topology {
            RouteTopology::Direct { .. } => to,
            RouteTopology::Grid(grid) => grid.next_hop(self.rank, to),
            RouteTopology::Clusters(clusters) => clusters.next_hop(self.rank, to),
        }
    }

    /// Whether a neighbor may forward messages that it gets from this rank.
    pub(crate) fn may_forward(&self, index: usize) -> bool {
        let neighbor = self.neighbor(index);
        match &self.topology {
            RouteTopology::Direct { .. } => false,
            RouteTopology::Grid(grid) => grid.may_forward(self.rank, neighbor),
            RouteTopology::Clusters(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routings(ranks: u32) -> Vec<Routing> {
        let halves = vec![ranks / 2, ranks - ranks / 2];
        let mut all = vec![Routing::Direct, Routing::Rook, Routing::Hypercube, Routing::Grid(vec![ranks])];
        all.push(Routing::Grid(vec![3, 2, ranks.div_ceil(6)]));
        all.push(Routing::Grid(vec![ranks.div_ceil(4), 2, 2]));
        all.extend((ranks >= 2).then_some(Routing::Clusters(halves)));
        all.extend((ranks >= 7).then(|| Routing::Clusters(vec![1, 4, ranks - 6, 1])));
        all
    }

    #[test]
    fn every_rank_is_reached_over_neighbors_only_and_in_few_hops() {
        for ranks in (1..=40).chain([64, 100, 127, 128, 129]) {
            for routing in routings(ranks) {
                let all: Vec<RoutingTable> =
                    (0..ranks).map(|rank| RoutingTable::new(rank, ranks, &routing).unwrap()).collect();
                let max_hops = match &routing {
                    Routing::Direct => 1,
                    Routing::Rook => 2,
                    Routing::Grid(sides) => sides.len() as u32,
                    Routing::Hypercube => ranks.next_power_of_two().ilog2(),
                    Routing::Clusters(_) => 3,
                };
                for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
                    let (mut at, mut hops) = (from, 0);
                    while at != to {
                        let routes = &all[at as usize];
                        let index = routes.next_hop_index(to);
                        let next = routes.neighbor(index);
                        assert!(next == to || routes.may_forward(index), "{routing}, {ranks}: {at} to {next} for {to}");
                        at = next;
                        hops += 1;
                        assert!(hops <= max_hops, "{routing}, {ranks} ranks: {from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_number_of_neighbors_is_bounded() {
        for ranks in [4, 9, 16, 30, 100, 1000, 1024, 4096, 5000] {
            let root = f64::from(ranks).sqrt();
            for rank in [0, 1, ranks / 2, ranks - 1] {
                let rook = RoutingTable::new(rank, ranks, &Routing::Rook).unwrap().num_neighbors();
                assert!(rook as f64 <= 2.0 * root, "{ranks}: {rook}");
                let cube = RoutingTable::new(rank, ranks, &Routing::Hypercube).unwrap().num_neighbors();
                let bits = ranks.next_power_of_two().ilog2();
                assert!(cube as u32 <= bits, "{ranks}: {cube}");
            }
        }
    }

    #[test]
    fn routings_that_do_not_fit_are_rejected() {
        let error = |routing: Routing| RoutingTable::new(0, 8, &routing).unwrap_err().to_string();
        assert_eq!(error(Routing::Grid(vec![2, 3])), "routing=grid:2x3 has 6 positions for 8 ranks");
        assert_eq!(error(Routing::Clusters(vec![4, 5])), "routing=clusters:4+5 has 9 ranks where there are 8");
    }
}
