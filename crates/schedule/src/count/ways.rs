//! What a schedule is counted on: the links between ranks.

use treepie_topology::{Network, Tie};

/// Links that are not those of a [`Network`], or not as wide.
pub trait Ways {
    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// How many links there are: their ids are below it.
    fn links(&self) -> u32;

    /// What a link carries at once.
    fn capacity(&self, link: u32) -> f64;

    /// Calls `link` for each link on the way from one rank to another.
    fn route(&self, from: u32, to: u32, tie: Tie, link: &mut dyn FnMut(u32));
}

/// Either: the count is compiled here for both, so that it is fast however its users are compiled.
pub(super) trait Links {
    fn ranks(&self) -> u32;
    fn links(&self) -> u32;
    fn capacity(&self, link: u32) -> f64;
    fn route(&self, from: u32, to: u32, tie: Tie, link: impl FnMut(u32));
}

impl Links for &Network {
    fn ranks(&self) -> u32 {
        Network::ranks(self)
    }

    fn links(&self) -> u32 {
        Network::links(self)
    }

    fn capacity(&self, link: u32) -> f64 {
        Network::capacity(self, link)
    }

    fn route(&self, from: u32, to: u32, tie: Tie, link: impl FnMut(u32)) {
        Network::route(self, from, to, tie, link);
    }
}

impl Links for &dyn Ways {
    fn ranks(&self) -> u32 {
        (**self).ranks()
    }

    fn links(&self) -> u32 {
        (**self).links()
    }

    fn capacity(&self, link: u32) -> f64 {
        (**self).capacity(link)
    }

    fn route(&self, from: u32, to: u32, tie: Tie, mut link: impl FnMut(u32)) {
        (**self).route(from, to, tie, &mut link);
    }
}
