//! Clos networks (fat trees) as modelled in section 3.1 of the thesis.
//!
//! Routing is perfect, so the uplinks of a leaf switch count as one link of their total capacity, and so do its
//! downlinks. Higher levels are never narrower than the leaves, so they are not modelled.

use crate::error::link_count;
use crate::{Error, Result, two_level};

/// Leaf switches of radix R with T terminals each; node p is on leaf p / T. The last leaf may be partly filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clos {
    radix: u32,
    terminals: u32,
    nodes: u32,
}

impl Clos {
    pub(crate) fn new(radix: u32, terminals: u32, nodes: u32) -> Result<Self> {
        if terminals == 0 || terminals >= radix {
            return Err(Error::Terminals { radix, terminals });
        }
        let clos = Clos { radix, terminals, nodes };
        link_count(two_level::links(nodes, clos.leaves()))?;
        Ok(clos)
    }

    /// R, the ports of a switch.
    pub fn radix(&self) -> u32 {
        self.radix
    }

    /// T, the nodes on one leaf switch.
    pub fn terminals(&self) -> u32 {
        self.terminals
    }

    /// Bisection bandwidth over injection bandwidth: (R-T)/T, at most 1.
    pub fn mu(&self) -> f64 {
        self.uplink_capacity() / f64::from(self.terminals)
    }

    /// Number of nodes; 0 if it is open.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Number of leaf switches.
    pub fn leaves(&self) -> u32 {
        self.nodes.div_ceil(self.terminals)
    }

    /// The leaf switch of a node.
    pub fn leaf_of(&self, node: u32) -> u32 {
        node / self.terminals
    }

    /// Capacity of a leaf's uplinks, mu T. T nodes cannot fill more than T links.
    fn uplink_capacity(&self) -> f64 {
        f64::from((self.radix - self.terminals).min(self.terminals))
    }

    /// Checks a given mu. The tolerance allows for values rounded to two decimals.
    pub(crate) fn check_mu(&self, mu: f64) -> Result<()> {
        let actual = self.mu();
        if (mu - actual).abs() <= 0.005 {
            return Ok(());
        }
        Err(Error::MuMismatch { mu, actual, radix: self.radix, terminals: self.terminals })
    }

    pub(crate) fn links(&self) -> u32 {
        2 * (self.nodes + self.leaves())
    }

    pub(crate) fn capacity(&self, link: u32) -> f64 {
        if two_level::is_group_link(self.nodes, link) { self.uplink_capacity() } else { 1.0 }
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        two_level::route(self.nodes, (from, self.leaf_of(from)), (to, self.leaf_of(to)), link);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, Network, TieBreak};

    #[test]
    fn a_leaf_that_sends_to_another_fills_its_uplinks() {
        let network = Network::clos(80, 64, 4096).unwrap();
        let mut load = vec![0; network.links() as usize];
        for rank in 0..64 {
            network.route(rank, rank + 64, TieBreak::default(), |link| load[link as usize] += 1);
        }
        let (busiest, max) = load.iter().enumerate().max_by_key(|&(_, &load)| load).unwrap();
        assert_eq!(*max, 64);
        assert_eq!(network.capacity(busiest as u32), 16.0);
        assert_eq!(load.iter().filter(|&&load| load == 64).count(), 2);
        assert_eq!(load.iter().sum::<u32>(), 64 * 4);
    }

    #[test]
    fn a_route_inside_a_leaf_stays_there() {
        let network = Network::clos(10, 6, 20).unwrap();
        let mut route = Vec::new();
        network.route(12, 17, TieBreak::default(), |link| route.push(link));
        assert_eq!(route, [24, 35]);
        assert!(route.iter().all(|&link| network.capacity(link) == 1.0));
        route.clear();
        network.route(12, 18, TieBreak::default(), |link| route.push(link));
        assert_eq!(route, [24, 44, 47, 37]);
        assert_eq!(network.links(), 48);
    }

    #[test]
    fn mu_follows_from_the_switches_and_is_at_most_one() {
        let mu = |radix, terminals| Network::clos(radix, terminals, 1).unwrap().as_clos().unwrap().mu();
        assert_eq!(mu(80, 64), 0.25);
        assert_eq!(mu(128, 64), 1.0);
        assert_eq!(mu(128, 32), 1.0);
        assert_eq!(Network::clos(64, 64, 1), Err(Error::Terminals { radix: 64, terminals: 64 }));
        assert_eq!(Network::clos(64, 0, 1), Err(Error::Terminals { radix: 64, terminals: 0 }));
    }
}
