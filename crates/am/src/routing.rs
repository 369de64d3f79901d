//! Which way messages go: for each destination the neighbour to which they go next.
//!
//! | routing | hops | neighbours |
//! |---|---|---|
//! | direct | 1 | P - 1 |
//! | rook | 2 | rows + columns - 2 |
//! | grid of sides s | one a dimension | the sum of s - 1 |
//! | hypercube | log2 P | log2 P, rounded up |
//! | clusters | 3 | the own cluster, and some of the others |
//!
//! All but the first pass messages on, and all work for any P: a grid has room for more ranks than there are, and a way that
//! would lead over a place without a rank takes the dimensions in another order.

mod clusters;
mod grid;

use treepie_base::{Error, Result};

use crate::config::Routing;
use clusters::Clusters;
use grid::Grid;

/// The way from one rank to all others.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    rank: u32,
    kind: Kind,
    /// Ranks to which this one sends, in order.
    neighbours: Vec<u32>,
    /// The place among them of the next hop to each rank, if there are not too many to list.
    listed: Option<Vec<u32>>,
}

#[derive(Clone, Debug)]
enum Kind {
    Direct { ranks: u32 },
    Grid(Grid),
    Clusters(Clusters),
}

/// For more ranks each message's way is computed.
const LISTED: u32 = 1 << 14;

impl Routes {
    pub(crate) fn new(rank: u32, ranks: u32, routing: &Routing) -> Result<Self> {
        let kind = match routing {
            Routing::Direct => Kind::Direct { ranks },
            Routing::Rook => Kind::Grid(Grid::square(ranks)),
            Routing::Grid(sides) => Kind::Grid(Grid::new(sides, ranks).ok_or_else(|| {
                let places: u64 = sides.iter().map(|side| u64::from(*side)).product();
                Error::Algorithm(format!("routing={routing} has {places} places for {ranks} ranks"))
            })?),
            Routing::Hypercube => Kind::Grid(Grid::cube(ranks)),
            Routing::Clusters(sizes) => Kind::Clusters(Clusters::new(sizes, ranks).ok_or_else(|| {
                let sum: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
                Error::Algorithm(format!("routing={routing} has {sum} ranks where there are {ranks}"))
            })?),
        };
        let mut neighbours = match &kind {
            Kind::Direct { .. } => Vec::new(),
            Kind::Grid(grid) => grid.neighbours(rank),
            Kind::Clusters(clusters) => clusters.neighbours(rank),
        };
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours.retain(|neighbour| *neighbour != rank);
        let mut routes = Self { rank, kind, neighbours, listed: None };
        if !routes.is_direct() && ranks <= LISTED {
            routes.listed = Some((0..ranks).map(|to| routes.find(to)).collect());
        }
        Ok(routes)
    }

    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::Direct { .. })
    }

    /// How many neighbours there are; that of a direct route is its rank, this one among them.
    pub(crate) fn neighbours(&self) -> usize {
        match self.kind {
            Kind::Direct { ranks } => ranks as usize,
            _ => self.neighbours.len(),
        }
    }

    pub(crate) fn neighbour(&self, place: usize) -> u32 {
        if self.is_direct() { place as u32 } else { self.neighbours[place] }
    }

    /// The place among the neighbours of the next hop to another rank. Behind all of them for this rank itself.
    #[inline]
    pub(crate) fn place(&self, to: u32) -> usize {
        match &self.listed {
            Some(listed) => listed[to as usize] as usize,
            None if self.is_direct() => to as usize,
            None => self.find(to) as usize,
        }
    }

    fn find(&self, to: u32) -> u32 {
        if to == self.rank {
            return self.neighbours.len() as u32;
        }
        let next = self.next(to);
        self.neighbours.binary_search(&next).expect("the next hop is a neighbour") as u32
    }

    /// The next hop to another rank.
    fn next(&self, to: u32) -> u32 {
        match &self.kind {
            Kind::Direct { .. } => to,
            Kind::Grid(grid) => grid.next(self.rank, to),
            Kind::Clusters(clusters) => clusters.next(self.rank, to),
        }
    }

    /// Whether a neighbour passes on some of what it gets from this rank. What it gets from others does not matter.
    pub(crate) fn passes_on(&self, place: usize) -> bool {
        let neighbour = self.neighbour(place);
        match &self.kind {
            Kind::Direct { .. } => false,
            Kind::Grid(grid) => grid.passes_on(self.rank, neighbour),
            Kind::Clusters(_) => true,
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
    fn every_rank_is_reached_over_neighbours_only_and_in_few_hops() {
        for ranks in (1..=40).chain([64, 100, 127, 128, 129]) {
            for routing in routings(ranks) {
                let all: Vec<Routes> = (0..ranks).map(|rank| Routes::new(rank, ranks, &routing).unwrap()).collect();
                let most = match &routing {
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
                        let place = routes.place(to);
                        let next = routes.neighbour(place);
                        assert!(next == to || routes.passes_on(place), "{routing}, {ranks}: {at} to {next} for {to}");
                        at = next;
                        hops += 1;
                        assert!(hops <= most, "{routing}, {ranks} ranks: {from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn neighbours_are_as_few_as_promised() {
        for ranks in [4, 9, 16, 30, 100, 1000, 1024, 4096, 5000] {
            let root = f64::from(ranks).sqrt();
            for rank in [0, 1, ranks / 2, ranks - 1] {
                let rook = Routes::new(rank, ranks, &Routing::Rook).unwrap().neighbours();
                assert!(rook as f64 <= 2.0 * root, "{ranks}: {rook}");
                let cube = Routes::new(rank, ranks, &Routing::Hypercube).unwrap().neighbours();
                let bits = ranks.next_power_of_two().ilog2();
                assert!(cube as u32 <= bits, "{ranks}: {cube}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = |routing: Routing| Routes::new(0, 8, &routing).unwrap_err().to_string();
        assert_eq!(error(Routing::Grid(vec![2, 3])), "routing=grid:2x3 has 6 places for 8 ranks");
        assert_eq!(error(Routing::Clusters(vec![4, 5])), "routing=clusters:4+5 has 9 ranks where there are 8");
    }
}
