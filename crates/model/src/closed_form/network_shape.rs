//! Network shapes with formulas, and the congestion of bit exchanges on them.

use treepie_topology::{Network, NetworkKind, Torus};

/// The shape of a network, as formulas distinguish it.
#[derive(Clone, Copy, Debug)]
pub(super) enum NetworkShape<'a> {
    /// Messages share no links.
    Flat,
    /// A torus or mesh with a rank at every node, in order.
    Grid(&'a Torus),
    /// A Clos network with full leaves, ranks in order.
    Clos { terminals: u32, mu: f64 },
    /// Any other network.
    Other,
}

impl<'a> NetworkShape<'a> {
    pub(super) fn from_network(network: &'a Network) -> Self {
        match network.kind() {
            NetworkKind::Flat(_) => NetworkShape::Flat,
            NetworkKind::Torus(torus) if network.has_identity_placement() => NetworkShape::Grid(torus),
            NetworkKind::Clos(clos) if network.has_identity_placement() && network.ranks() <= clos.terminals() => {
                NetworkShape::Flat
            }
            NetworkKind::Clos(clos)
                if network.has_identity_placement() && network.ranks().is_multiple_of(clos.terminals()) =>
            {
                NetworkShape::Clos { terminals: clos.terminals(), mu: clos.mu() }
            }
            _ => NetworkShape::Other,
        }
    }

    pub(super) fn is_flat(self) -> bool {
        matches!(self, NetworkShape::Flat)
    }

    /// The sides of a grid.
    pub(super) fn dims(self) -> &'a [u32] {
        if let NetworkShape::Grid(torus) = self { torus.dims() } else { &[] }
    }

    /// Whether exchanges between ranks that differ in one bit have a formula for all bits of P ranks.
    pub(super) fn has_bit_exchanges(self, ranks: u32) -> bool {
        let powers = match self {
            NetworkShape::Flat => true,
            NetworkShape::Grid(torus) => torus.dims().iter().all(|size| size.is_power_of_two()),
            NetworkShape::Clos { terminals, .. } => terminals.is_power_of_two(),
            NetworkShape::Other => false,
        };
        powers && ranks.is_power_of_two()
    }

    /// Messages that share a link when all ranks exchange with those that differ in this bit.
    pub(super) fn congestion(self, bit: u32) -> f64 {
        match self {
            NetworkShape::Flat | NetworkShape::Other => 1.0,
            NetworkShape::Grid(torus) => {
                let mut below = 0;
                for (dimension, size) in torus.dims().iter().enumerate() {
                    let bits = size.trailing_zeros();
                    if bit < below + bits {
                        return line_congestion(*size, torus.wraps(dimension), bit - below);
                    }
                    below += bits;
                }
                1.0
            }
            NetworkShape::Clos { terminals, mu } => {
                if 1 << bit < terminals {
                    1.0
                } else {
                    1.0 / mu
                }
            }
        }
    }

    /// Messages over the busiest link of an all-to-all. On a grid its time can be half as much again: a rank drives
    /// only some ports at once, and concurrent messages load links unevenly.
    pub(super) fn alltoall_congestion(self, ranks: u32) -> Option<f64> {
        let all = f64::from(ranks);
        match self {
            NetworkShape::Flat => Some(all - 1.0),
            NetworkShape::Clos { terminals, mu } => Some((all - 1.0).max((all - f64::from(terminals)) / mu)),
            // Half of the messages along a line cross its middle; on a ring each takes the shorter way.
            NetworkShape::Grid(torus) => {
                let crossing = |(dimension, &size): (usize, &u32)| {
                    let size = f64::from(size);
                    let pairs = size * size / if torus.wraps(dimension) && size > 2.0 { 8.0 } else { 4.0 };
                    (if size % 2.0 == 0.0 { pairs } else { pairs - pairs / (size * size) }) * all / size
                };
                Some(torus.dims().iter().enumerate().map(crossing).fold(0.0, f64::max))
            }
            NetworkShape::Other => None,
        }
    }

    /// Sum of ceil(lg) of all sides: the steps of a tree along one dimension after the other.
    pub(super) fn tree_steps(self) -> f64 {
        self.dims().iter().map(|size| ceil_lg(*size)).sum()
    }
}

/// Messages that share a link when all ranks of a line or ring exchange over 2^bit hops: the number of hops; over half
/// a ring, half of the messages go in each direction.
pub(super) fn line_congestion(size: u32, wraps: bool, bit: u32) -> f64 {
    let hops = 1u32 << bit;
    if wraps && 2 * hops == size { (f64::from(size) / 4.0).max(1.0) } else { f64::from(hops) }
}

/// ceil(lg n).
pub(super) fn ceil_lg(number: u32) -> f64 {
    f64::from(number.next_power_of_two().trailing_zeros())
}
