//! The links between ranks on which the cost of a schedule is computed.

use treepie_topology::{Network, TieBreak};

/// Links and routes other than those of a [`Network`], or with other capacities.
pub trait LinkRoutes {
    /// The number of ranks.
    fn ranks(&self) -> u32;

    /// The number of links; ids are 0 to `links() - 1`.
    fn links(&self) -> u32;

    /// The bandwidth of a link, relative to a node's injection link.
    fn capacity(&self, link: u32) -> f64;

    /// Calls `link` for each link on the route from one rank to another.
    fn route(&self, from: u32, to: u32, tie_break: TieBreak, link: &mut dyn FnMut(u32));
}

/// A [`Network`] or [`LinkRoutes`]: both are monomorphized here, so the count is fast however its users are compiled.
pub(super) trait RoutedLinks {
    fn ranks(&self) -> u32;
    fn links(&self) -> u32;
    fn capacity(&self, link: u32) -> f64;
    fn route(&self, from: u32, to: u32, tie_break: TieBreak, link: impl FnMut(u32));
}

impl RoutedLinks for &Network {
    fn ranks(&self) -> u32 {
        Network::ranks(self)
    }

    fn links(&self) -> u32 {
        Network::links(self)
    }

    fn capacity(&self, link: u32) -> f64 {
        Network::capacity(self, link)
    }

    fn route(&self, from: u32, to: u32, tie_break: TieBreak, link: impl FnMut(u32)) {
        Network::route(self, from, to, tie_break, link);
    }
}

impl RoutedLinks for &dyn LinkRoutes {
    fn ranks(&self) -> u32 {
        (**self).ranks()
    }

    fn links(&self) -> u32 {
        (**self).links()
    }

    fn capacity(&self, link: u32) -> f64 {
        (**self).capacity(link)
    }

    fn route(&self, from: u32, to: u32, tie_break: TieBreak, mut link: impl FnMut(u32)) {
        (**self).route(from, to, tie_break, &mut link);
    }
}
