//! Orders of the ranks for recursive doubling, and the algorithms that they make.
//!
//! Far partners first is best where near ones are cheap; the order says who is near. [thesis 3.3.1, 3.4.1, 3.4.3]

use treepie_topology::Network;

use super::{Distance, Doubling, Parallel};

/// The ranks as they are numbered.
pub fn identity(ranks: u32) -> Vec<u32> {
    (0..ranks).collect()
}

/// The ranks of a torus or mesh in Morton order, without places that have no rank. Nothing on other networks.
pub fn morton(network: &Network) -> Option<Vec<u32>> {
    let places = network.torus_kind()?.morton();
    let Some(at) = network.placement() else { return Some(places) };
    let mut rank_at = vec![None; network.places() as usize];
    at.iter().zip(0u32..).for_each(|(place, rank)| rank_at[*place as usize] = Some(rank));
    Some(places.into_iter().filter_map(|place| rank_at[place as usize]).collect())
}

/// The nearest first. Cost: ceil(lg P) alpha + n(P-1) beta; on a p x p x p torus (1+p+p^2)(5p^2/24-1/3) n delta.
pub fn distance_doubling(ranks: u32) -> Doubling {
    Doubling::new(Distance::Doubling, identity(ranks), false)
}

/// The farthest first. Cost on a Clos network with T nodes a leaf: (P/T-1)/mu + P-P/T for the bytes. Its mirror keeps
/// the order of ranks.
pub fn distance_halving(ranks: u32, moved: bool) -> Doubling {
    Doubling::new(Distance::Halving, identity(ranks), moved)
}

/// The farthest in any dimension first. Cost on a torus: about 7/6 n P delta. Nothing on networks that are no torus or
/// mesh.
pub fn torus_reordered(network: &Network, moved: bool) -> Option<Doubling> {
    Some(Doubling::new(Distance::Halving, morton(network)?, moved))
}

/// The farthest along a Hamiltonian path first: for irregular partitions of any network.
pub fn hamiltonian(network: &Network, moved: bool) -> Doubling {
    let path = network.lanes().into_iter().next().expect("every network has a path");
    Doubling::new(Distance::Halving, path, moved)
}

/// The same along several paths that share no link, each with a share of every block.
pub fn hamiltonian_lanes(network: &Network, moved: bool) -> Parallel<Doubling> {
    let paths = network.lanes().into_iter().map(|path| Doubling::new(Distance::Halving, path, moved));
    Parallel::new(paths.collect(), moved)
}
