//! Clos networks, also called fat trees, as the thesis models them in section 3.1.
//!
//! Routing is perfect, so above a leaf switch only the sum of its links counts: one bundle up and one bundle down.
//! Higher levels are never narrower than the leaves, and so they are not described.

use crate::error::link_count;
use crate::{Error, Result, tree};

/// Leaf switches of radix R with T terminals each; place p is on leaf p / T, and the last leaf may be partly filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clos {
    radix: u32,
    terminals: u32,
    places: u32,
}

impl Clos {
    pub(crate) fn new(radix: u32, terminals: u32, places: u32) -> Result<Self> {
        if terminals == 0 || terminals >= radix {
            return Err(Error::Terminals { radix, terminals });
        }
        let clos = Clos { radix, terminals, places };
        link_count(tree::links(places, clos.leaves()))?;
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

    /// Bisection bandwidth by injection bandwidth: (R-T)/T, at most 1.
    pub fn mu(&self) -> f64 {
        self.bundle() / f64::from(self.terminals)
    }

    /// Number of places, 0 if it is open.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Number of leaf switches.
    pub fn leaves(&self) -> u32 {
        self.places.div_ceil(self.terminals)
    }

    /// The leaf switch of a place.
    pub fn leaf_of(&self, place: u32) -> u32 {
        place / self.terminals
    }

    /// Capacity of a leaf's bundle, mu T. More than T links cannot be filled by T nodes.
    fn bundle(&self) -> f64 {
        f64::from((self.radix - self.terminals).min(self.terminals))
    }

    /// Refuses a ratio that is not this network's. People write two decimals, so that near is good enough.
    pub(crate) fn check_mu(&self, mu: f64) -> Result<()> {
        let actual = self.mu();
        if (mu - actual).abs() <= 0.005 {
            return Ok(());
        }
        Err(Error::Mu { mu, actual, radix: self.radix, terminals: self.terminals })
    }

    pub(crate) fn links(&self) -> u32 {
        2 * (self.places + self.leaves())
    }

    pub(crate) fn capacity(&self, link: u32) -> f64 {
        if tree::is_group_link(self.places, link) { self.bundle() } else { 1.0 }
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        tree::route(self.places, (from, self.leaf_of(from)), (to, self.leaf_of(to)), link);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, Network, Tie};

    #[test]
    fn a_leaf_that_sends_out_fills_its_bundle() {
        let network = Network::clos(80, 64, 4096).unwrap();
        let mut load = vec![0; network.links() as usize];
        for rank in 0..64 {
            network.route(rank, rank + 64, Tie::default(), |link| load[link as usize] += 1);
        }
        let (busiest, most) = load.iter().enumerate().max_by_key(|&(_, &load)| load).unwrap();
        assert_eq!(*most, 64);
        assert_eq!(network.capacity(busiest as u32), 16.0);
        assert_eq!(load.iter().filter(|&&load| load == 64).count(), 2);
        assert_eq!(load.iter().sum::<u32>(), 64 * 4);
    }

    #[test]
    fn a_route_inside_a_leaf_stays_there() {
        let network = Network::clos(10, 6, 20).unwrap();
        let mut way = Vec::new();
        network.route(12, 17, Tie::default(), |link| way.push(link));
        assert_eq!(way, [24, 35]);
        assert!(way.iter().all(|&link| network.capacity(link) == 1.0));
        way.clear();
        network.route(12, 18, Tie::default(), |link| way.push(link));
        assert_eq!(way, [24, 44, 47, 37]);
        assert_eq!(network.links(), 48);
    }

    #[test]
    fn mu_follows_from_the_switches_and_is_at_most_one() {
        let mu = |radix, terminals| Network::clos(radix, terminals, 1).unwrap().clos_kind().unwrap().mu();
        assert_eq!(mu(80, 64), 0.25);
        assert_eq!(mu(128, 64), 1.0);
        assert_eq!(mu(128, 32), 1.0);
        assert_eq!(Network::clos(64, 64, 1), Err(Error::Terminals { radix: 64, terminals: 64 }));
        assert_eq!(Network::clos(64, 0, 1), Err(Error::Terminals { radix: 64, terminals: 0 }));
    }
}
