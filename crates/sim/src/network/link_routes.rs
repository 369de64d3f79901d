//! Routes of messages as link ids, and link capacities: the network's, adapted by routing and noise.

use treepie_schedule::count;
use treepie_topology::{Network, NetworkKind, TieBreak};

use crate::costs::{LinkCosts, Routing};
use crate::error::{Error, Result};
use crate::noise::Noise;

#[derive(Debug)]
pub(crate) struct RouteTable {
    network: Network,
    /// Uplinks per leaf of a statically routed Clos network; otherwise 0.
    uplinks: u32,
    /// Number of link directions if one representative rank is simulated; otherwise 0.
    directions: u32,
    links: u32,
    /// Capacity of each link; empty if all are 1.
    capacities: Vec<f64>,
}

impl RouteTable {
    pub(crate) fn new(costs: &LinkCosts, network: &Network, noise: &Noise, is_representative: bool) -> Result<Self> {
        let uplinks = match (network.kind(), costs.routing) {
            (NetworkKind::Clos(clos), Routing::Static) => (clos.mu() * f64::from(clos.terminals())).round() as u32,
            _ => 0,
        };
        let links = match network.as_clos() {
            Some(clos) if uplinks > 0 => 2 * (clos.nodes() + clos.leaves() * uplinks),
            _ => network.links(),
        };
        // Links of one direction have ids that are equal modulo the number of directions.
        let directions = network.as_torus().map_or(2, |torus| 2 * torus.dims().len() as u32);
        let links = if is_representative { directions } else { links };
        if let Some(&(link, _)) = noise.slow_links.iter().find(|(link, _)| *link >= links) {
            return Err(Error::InvalidLink { link, links });
        }
        let bundles = uplinks == 0 && network.as_clos().is_some();
        let mut capacities = Vec::new();
        if bundles || !noise.slow_links.is_empty() {
            capacities.extend((0..links).map(|link| if bundles { network.capacity(link) } else { 1.0 }));
            noise.slow_links.iter().for_each(|&(link, factor)| capacities[link as usize] /= factor);
        }
        let directions = if is_representative { directions } else { 0 };
        Ok(Self { network: network.clone(), uplinks, directions, links, capacities })
    }

    /// Whether links and capacities are exactly the network's.
    pub(crate) fn is_unmodified(&self, noise: &Noise) -> bool {
        self.uplinks == 0 && self.directions == 0 && noise.slow_links.is_empty()
    }

    /// Whether two ranks are on one host of several ranks.
    #[inline]
    pub(crate) fn share_host(&self, a: u32, b: u32) -> bool {
        self.network.nodes_per_host() > 1 && self.network.host_of(a) == self.network.host_of(b)
    }

    pub(crate) fn memory(&self) -> usize {
        self.capacities.capacity() * size_of::<f64>()
    }

    /// Calls `link` for each link of the route from one rank to another.
    #[inline]
    pub(crate) fn route(&self, from: u32, to: u32, tie: TieBreak, mut link: impl FnMut(u32)) {
        match self.network.as_clos() {
            Some(clos) if self.uplinks > 0 => {
                let (from, to) = (self.network.node_of(from), self.network.node_of(to));
                let (a, b) = (clos.leaf_of(from), clos.leaf_of(to));
                if from == to {
                    return;
                }
                link(2 * from);
                if a != b {
                    let (first, chosen) = (clos.nodes(), to % self.uplinks);
                    link(2 * (first + a * self.uplinks + chosen));
                    link(2 * (first + b * self.uplinks + chosen) + 1);
                }
                link(2 * to + 1);
            }
            _ if self.directions > 0 => self.network.route(from, to, tie, |passed| link(passed % self.directions)),
            _ => self.network.route(from, to, tie, link),
        }
    }
}

impl count::LinkRoutes for RouteTable {
    fn ranks(&self) -> u32 {
        self.network.ranks()
    }

    fn links(&self) -> u32 {
        self.links
    }

    fn capacity(&self, link: u32) -> f64 {
        self.capacities.get(link as usize).copied().unwrap_or(1.0)
    }

    fn route(&self, from: u32, to: u32, tie: TieBreak, link: &mut dyn FnMut(u32)) {
        self.route(from, to, tie, link);
    }
}
