//! Orders of the ranks for recursive doubling, and the resulting algorithms.
//!
//! Farthest partners first is best where near ones are cheap; the order defines the distance.
//! [thesis 3.3.1, 3.4.1, 3.4.3]

use treepie_topology::Network;

use super::{Distance, Doubling, Parallel};

/// The identity order.
pub fn identity(ranks: u32) -> Vec<u32> {
    (0..ranks).collect()
}

/// The ranks of a torus or mesh in Morton order of their nodes. `None` on other networks.
pub fn morton_order(network: &Network) -> Option<Vec<u32>> {
    let nodes = network.as_torus()?.morton_order();
    let Some(placement) = network.placement() else { return Some(nodes) };
    let mut rank_at = vec![None; network.nodes() as usize];
    placement.iter().zip(0u32..).for_each(|(node, rank)| rank_at[*node as usize] = Some(rank));
    Some(nodes.into_iter().filter_map(|node| rank_at[node as usize]).collect())
}

/// Nearest first. Cost: ceil(lg P) alpha + n(P-1) beta; on a p x p x p torus (1+p+p^2)(5p^2/24-1/3) n delta.
pub fn distance_doubling(ranks: u32) -> Doubling {
    Doubling::new(Distance::Doubling, identity(ranks), false)
}

/// Farthest first. Cost on a Clos network with T nodes per leaf: ((P/T-1)/mu + P-P/T) n delta. Its mirror image is
/// rank-ordered.
pub fn distance_halving(ranks: u32, shuffled: bool) -> Doubling {
    Doubling::new(Distance::Halving, identity(ranks), shuffled)
}

/// Farthest in any dimension first. Cost on a torus: about 7/6 n P delta. `None` unless the network is a torus or mesh.
pub fn torus_reordered(network: &Network, shuffled: bool) -> Option<Doubling> {
    Some(Doubling::new(Distance::Halving, morton_order(network)?, shuffled))
}

/// Farthest along a Hamiltonian path first: for irregular partitions of any network.
pub fn hamiltonian(network: &Network, shuffled: bool) -> Doubling {
    let path = network.disjoint_rank_paths().into_iter().next().expect("every network has a path");
    Doubling::new(Distance::Halving, path, shuffled)
}

/// The same along edge-disjoint Hamiltonian paths, each with a segment of every block.
pub fn hamiltonian_lanes(network: &Network, shuffled: bool) -> Parallel<Doubling> {
    let paths = network.disjoint_rank_paths().into_iter().map(|path| Doubling::new(Distance::Halving, path, shuffled));
    Parallel::new(paths.collect(), shuffled)
}
