//! The links that messages pass, and how wide they are: those of the network, and what its routing and noise make of them.

use treepie_schedule::count;
use treepie_topology::{Kind, Network, Tie};

use crate::costs::{Links, Routing};
use crate::error::{Error, Result};
use crate::noise::Noise;

#[derive(Debug)]
pub(crate) struct Ways {
    network: Network,
    /// Links of a leaf of a Clos network where its routing is static; otherwise 0.
    uplinks: u32,
    /// Of one rank for all: how many directions links have. Otherwise 0.
    directions: u32,
    links: u32,
    /// What each link carries at once; empty if all carry 1.
    capacities: Vec<f64>,
}

impl Ways {
    pub(crate) fn new(costs: &Links, network: &Network, noise: &Noise, folded: bool) -> Result<Self> {
        let uplinks = match (network.kind(), costs.routing) {
            (Kind::Clos(clos), Routing::Static) => (clos.mu() * f64::from(clos.terminals())).round() as u32,
            _ => 0,
        };
        let links = match network.clos_kind() {
            Some(clos) if uplinks > 0 => 2 * (clos.places() + clos.leaves() * uplinks),
            _ => network.links(),
        };
        // Links of a direction have numbers that are the same modulo the number of directions.
        let directions = network.torus_kind().map_or(2, |torus| 2 * torus.dims().len() as u32);
        let links = if folded { directions } else { links };
        if let Some(&(link, _)) = noise.slow_links.iter().find(|(link, _)| *link >= links) {
            return Err(Error::NoLink { link, links });
        }
        let bundles = uplinks == 0 && network.clos_kind().is_some();
        let mut capacities = Vec::new();
        if bundles || !noise.slow_links.is_empty() {
            capacities.extend((0..links).map(|link| if bundles { network.capacity(link) } else { 1.0 }));
            noise.slow_links.iter().for_each(|&(link, factor)| capacities[link as usize] /= factor);
        }
        let directions = if folded { directions } else { 0 };
        Ok(Self { network: network.clone(), uplinks, directions, links, capacities })
    }

    /// Whether they are those of the network, as wide as they are there.
    pub(crate) fn are_its_own(&self, noise: &Noise) -> bool {
        self.uplinks == 0 && self.directions == 0 && noise.slow_links.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.capacities.capacity() * size_of::<f64>()
    }

    /// Calls `link` for each link on the way from one rank to another.
    #[inline]
    pub(crate) fn route(&self, from: u32, to: u32, tie: Tie, mut link: impl FnMut(u32)) {
        match self.network.clos_kind() {
            Some(clos) if self.uplinks > 0 => {
                let (from, to) = (self.network.place(from), self.network.place(to));
                let (a, b) = (clos.leaf_of(from), clos.leaf_of(to));
                if from == to {
                    return;
                }
                link(2 * from);
                if a != b {
                    let (first, chosen) = (clos.places(), to % self.uplinks);
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

impl count::Ways for Ways {
    fn ranks(&self) -> u32 {
        self.network.ranks()
    }

    fn links(&self) -> u32 {
        self.links
    }

    fn capacity(&self, link: u32) -> f64 {
        self.capacities.get(link as usize).copied().unwrap_or(1.0)
    }

    fn route(&self, from: u32, to: u32, tie: Tie, link: &mut dyn FnMut(u32)) {
        self.route(from, to, tie, link);
    }
}
