//! Where ranks are, as formulas know it, and how many messages share a link when all exchange over a distance.

use treepie_topology::{Kind, Network, Torus};

use super::ceil_lg;

/// A network of which there are formulas.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// Nobody shares anything.
    Flat,
    /// With a rank at every place, in order.
    Grid(&'a Torus),
    /// The same, in full leaves.
    Clos { terminals: u32, mu: f64 },
    /// Any other.
    Other,
}

impl<'a> Place<'a> {
    pub(super) fn of(network: &'a Network) -> Self {
        match network.kind() {
            Kind::Flat(_) => Place::Flat,
            Kind::Torus(torus) if network.is_whole() => Place::Grid(torus),
            Kind::Clos(clos) if network.is_whole() && network.ranks() <= clos.terminals() => Place::Flat,
            Kind::Clos(clos) if network.is_whole() && network.ranks().is_multiple_of(clos.terminals()) => {
                Place::Clos { terminals: clos.terminals(), mu: clos.mu() }
            }
            _ => Place::Other,
        }
    }

    pub(super) fn is_flat(self) -> bool {
        matches!(self, Place::Flat)
    }

    /// The sides of a grid.
    pub(super) fn dims(self) -> &'a [u32] {
        if let Place::Grid(torus) = self { torus.dims() } else { &[] }
    }

    /// Whether exchanges between ranks whose numbers differ in one bit have a formula for all bits of P ranks.
    pub(super) fn has_bits(self, ranks: u32) -> bool {
        let powers = match self {
            Place::Flat => true,
            Place::Grid(torus) => torus.dims().iter().all(|size| size.is_power_of_two()),
            Place::Clos { terminals, .. } => terminals.is_power_of_two(),
            Place::Other => false,
        };
        powers && ranks.is_power_of_two()
    }

    /// Messages that share a link when all ranks exchange with those whose number differs in this bit.
    pub(super) fn congestion(self, bit: u32) -> f64 {
        match self {
            Place::Flat | Place::Other => 1.0,
            Place::Grid(torus) => {
                let mut below = 0;
                for (dimension, size) in torus.dims().iter().enumerate() {
                    let bits = size.trailing_zeros();
                    if bit < below + bits {
                        return along(*size, torus.wraps(dimension), bit - below);
                    }
                    below += bits;
                }
                1.0
            }
            Place::Clos { terminals, mu } => {
                if 1 << bit < terminals {
                    1.0
                } else {
                    1.0 / mu
                }
            }
        }
    }

    /// Messages over the busiest link when each rank has one for each other, if that is also how long they take. On a
    /// grid it is not: a rank drives only some ports at once, and messages that go on at the same time load links
    /// unevenly.
    pub(super) fn all_to_all(self, ranks: u32) -> Option<f64> {
        let all = f64::from(ranks);
        match self {
            Place::Flat => Some(all - 1.0),
            Place::Clos { terminals, mu } => Some((all - 1.0).max((all - f64::from(terminals)) / mu)),
            Place::Grid(_) | Place::Other => None,
        }
    }

    /// ceil(lg) of all sides together: the steps of a tree along one dimension after the other.
    pub(super) fn steps(self) -> f64 {
        self.dims().iter().map(|size| ceil_lg(*size)).sum()
    }
}

/// Messages that share a link when all on a line or ring exchange over 2^bit: as many as it is hops; on a ring, over
/// half of it, half go each way.
pub(super) fn along(size: u32, wraps: bool, bit: u32) -> f64 {
    let hops = 1u32 << bit;
    if wraps && 2 * hops == size { (f64::from(size) / 4.0).max(1.0) } else { f64::from(hops) }
}
