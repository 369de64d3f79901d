//! A network and the placement of ranks on its nodes.

use std::collections::HashMap;

use crate::{Clos, Clusters, Error, Flat, Result, TieBreak, Torus};

/// A network and the placement of ranks on its nodes.
///
/// Flat and Clos networks may be *open*: described without a number of ranks, which [`Network::for_ranks`] or
/// [`Network::with_placement`] fixes. Until then they have neither ranks nor routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    kind: NetworkKind,
    /// The node of each rank; `None` for the identity.
    placement: Option<Vec<u32>>,
}

/// The kind of a network.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkKind {
    /// A full crossbar: only the hosts' injection and ejection links.
    Flat(Flat),
    /// A torus, a mesh, or a grid of which some dimensions wrap.
    Torus(Torus),
    /// A fat tree.
    Clos(Clos),
    /// Clusters connected through gateways.
    Clusters(Clusters),
}

impl Network {
    /// A flat network; open if `ranks` is 0.
    ///
    /// # Panics
    /// With 2^31 ranks or more.
    pub fn flat(ranks: u32) -> Self {
        Flat::new(ranks, 1).map(|flat| NetworkKind::Flat(flat).into()).expect("fewer than 2^31 ranks")
    }

    /// A flat network with `per_host` consecutive ranks on each host, which share its links; open if `ranks` is 0.
    pub fn flat_with_hosts(ranks: u32, per_host: u32) -> Result<Self> {
        if per_host == 0 {
            return Err(Error::NoRanks);
        }
        Ok(NetworkKind::Flat(Flat::new(ranks, per_host)?).into())
    }

    /// A torus if every dimension wraps, a mesh if none does, or a mixture.
    ///
    /// The first dimension varies fastest: node = x + X (y + Y z).
    pub fn torus(dims: &[u32], wrap: &[bool]) -> Result<Self> {
        Ok(NetworkKind::Torus(Torus::new(dims, wrap)?).into())
    }

    /// A Clos network of switches with `radix` ports and `terminals` nodes per leaf; open if `ranks` is 0.
    pub fn clos(radix: u32, terminals: u32, ranks: u32) -> Result<Self> {
        Ok(NetworkKind::Clos(Clos::new(radix, terminals, ranks)?).into())
    }

    /// Clusters of consecutive ranks.
    pub fn clusters(sizes: &[u32]) -> Result<Self> {
        Ok(NetworkKind::Clusters(Clusters::new(sizes)?).into())
    }

    /// Clusters of consecutive ranks in groups on several levels: `levels[0]` has the ranks of each cluster,
    /// `levels[1]` the number of clusters of each group of clusters (a site), `levels[2]` the number of those of each
    /// group of sites, and so on.
    ///
    /// ```
    /// use treepie_topology::Network;
    ///
    /// // Two sites of four clusters of eight ranks.
    /// assert_eq!(Network::nested_clusters(&[vec![8; 8], vec![4, 4]])?.to_string(), "clusters:2x4x8");
    /// # Ok::<(), treepie_topology::Error>(())
    /// ```
    pub fn nested_clusters(levels: &[Vec<u32>]) -> Result<Self> {
        Ok(NetworkKind::Clusters(Clusters::nested(levels)?).into())
    }

    /// This network with rank r on the r-th of these nodes.
    ///
    /// There may be fewer ranks than nodes (an irregular partition). An open network gets the nodes up to the highest.
    pub fn with_placement(self, nodes: Vec<u32>) -> Result<Self> {
        let Some(&highest) = nodes.iter().max() else { return Err(Error::NoRanks) };
        let network = if self.nodes() == 0 { self.with_nodes(highest.saturating_add(1))? } else { self };
        // Checked before memory is allocated for all of them.
        if let Some((&node, rank)) = nodes.iter().zip(0..).find(|(node, _)| **node >= network.nodes()) {
            return Err(Error::NodeOutOfRange { rank, node, nodes: network.nodes() });
        }
        let mut rank_at = HashMap::new();
        rank_at.try_reserve(nodes.len()).map_err(|_| Error::OutOfMemory { entries: nodes.len() })?;
        for (&node, rank) in nodes.iter().zip(0..) {
            if let Some(first) = rank_at.insert(node, rank) {
                return Err(Error::DuplicateNode { node, first, second: rank });
            }
        }
        let is_identity =
            nodes.len() == network.nodes() as usize && nodes.iter().zip(0..).all(|(&node, rank)| node == rank);
        Ok(Network { kind: network.kind, placement: (!is_identity).then_some(nodes) })
    }

    /// This network with the given number of ranks: fixes that of an open network; an error if it has another number.
    pub fn for_ranks(self, ranks: u32) -> Result<Self> {
        match (ranks, self.ranks()) {
            (0, _) => Err(Error::NoRanks),
            (_, 0) => self.with_nodes(ranks),
            (asked, ranks) if asked != ranks => {
                Err(Error::RankCountMismatch { asked, ranks, network: self.to_string() })
            }
            _ => Ok(self),
        }
    }

    /// Fixes the number of nodes of an open network.
    fn with_nodes(self, nodes: u32) -> Result<Self> {
        match self.kind {
            NetworkKind::Flat(flat) => Network::flat_with_hosts(nodes, flat.nodes_per_host()),
            NetworkKind::Clos(clos) => Network::clos(clos.radix(), clos.terminals(), nodes),
            NetworkKind::Torus(_) | NetworkKind::Clusters(_) => unreachable!("tori and clusters are never open"),
        }
    }

    /// The kind of network.
    pub fn kind(&self) -> &NetworkKind {
        &self.kind
    }

    /// The torus or mesh, if it is one.
    pub fn as_torus(&self) -> Option<&Torus> {
        if let NetworkKind::Torus(torus) = &self.kind { Some(torus) } else { None }
    }

    /// The Clos network, if it is one.
    pub fn as_clos(&self) -> Option<&Clos> {
        if let NetworkKind::Clos(clos) = &self.kind { Some(clos) } else { None }
    }

    /// The clusters, if it consists of clusters.
    pub fn as_clusters(&self) -> Option<&Clusters> {
        if let NetworkKind::Clusters(clusters) = &self.kind { Some(clusters) } else { None }
    }

    /// Number of ranks; 0 only for an open network.
    pub fn ranks(&self) -> u32 {
        self.placement.as_ref().map_or(self.nodes(), |placement| placement.len() as u32)
    }

    /// Number of nodes, with and without ranks.
    pub fn nodes(&self) -> u32 {
        match &self.kind {
            NetworkKind::Flat(flat) => flat.nodes(),
            NetworkKind::Torus(torus) => torus.nodes(),
            NetworkKind::Clos(clos) => clos.nodes(),
            NetworkKind::Clusters(clusters) => clusters.nodes(),
        }
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        debug_assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        self.placement.as_ref().map_or(rank, |placement| placement[rank as usize])
    }

    /// Number of nodes of a host, which share its links; 1 except on flat networks that state more.
    pub fn nodes_per_host(&self) -> u32 {
        if let NetworkKind::Flat(flat) = &self.kind { flat.nodes_per_host() } else { 1 }
    }

    /// Whether there are several hosts of several nodes each.
    pub fn has_hosts(&self) -> bool {
        (2..self.nodes()).contains(&self.nodes_per_host())
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: u32) -> u32 {
        self.node_of(rank) / self.nodes_per_host()
    }

    /// The node of each rank; `None` for the identity.
    pub fn placement(&self) -> Option<&[u32]> {
        self.placement.as_deref()
    }

    /// Whether every node r has rank r.
    pub fn has_identity_placement(&self) -> bool {
        self.placement.is_none()
    }

    /// Links that one node can drive concurrently: both directions of each dimension on a torus, otherwise 1.
    pub fn ports(&self) -> u32 {
        self.as_torus().map_or(1, Torus::ports)
    }

    /// Number of directed links; ids are 0 to `links() - 1`.
    pub fn links(&self) -> u32 {
        match &self.kind {
            NetworkKind::Flat(flat) => flat.links(),
            NetworkKind::Torus(torus) => torus.links(),
            NetworkKind::Clos(clos) => clos.links(),
            NetworkKind::Clusters(clusters) => clusters.links(),
        }
    }

    /// The bandwidth of a link, relative to a node's injection link.
    ///
    /// Gateways of clusters count as 1: their slowdown belongs to the cost model.
    pub fn capacity(&self, link: u32) -> f64 {
        self.as_clos().map_or(1.0, |clos| clos.capacity(link))
    }

    /// Calls `link` for each directed link on the route from one rank to another, in order; for none if they are equal.
    pub fn route(&self, from: u32, to: u32, tie: TieBreak, link: impl FnMut(u32)) {
        let (from, to) = (self.node_of(from), self.node_of(to));
        match &self.kind {
            NetworkKind::Flat(flat) => flat.route(from, to, link),
            NetworkKind::Torus(torus) => torus.route(from, to, tie, link),
            NetworkKind::Clos(clos) => clos.route(from, to, link),
            NetworkKind::Clusters(clusters) => clusters.route(from, to, link),
        }
    }

    /// All nodes in an order of near neighbors: one hop apart on a torus or mesh, leaf by leaf on a Clos network,
    /// cluster by cluster on clusters, by number on a flat network.
    pub fn hamiltonian_path(&self) -> Vec<u32> {
        self.as_torus().map_or_else(|| (0..self.nodes()).collect(), Torus::hamiltonian_path)
    }

    /// Edge-disjoint Hamiltonian paths over nodes; see [`Torus::disjoint_hamiltonian_paths`]. Other networks have one.
    pub fn disjoint_hamiltonian_paths(&self) -> Vec<Vec<u32>> {
        self.as_torus().map_or_else(|| vec![self.hamiltonian_path()], Torus::disjoint_hamiltonian_paths)
    }

    /// [`Network::disjoint_hamiltonian_paths`] as orders of ranks, without nodes that have no rank. [thesis 3.4.3]
    pub fn disjoint_rank_paths(&self) -> Vec<Vec<u32>> {
        let paths = self.disjoint_hamiltonian_paths();
        let Some(placement) = &self.placement else { return paths };
        let mut rank_at = vec![None; self.nodes() as usize];
        for (&node, rank) in placement.iter().zip(0..) {
            rank_at[node as usize] = Some(rank);
        }
        let present = |path: Vec<u32>| path.into_iter().filter_map(|node| rank_at[node as usize]).collect();
        paths.into_iter().map(present).collect()
    }
}

impl From<NetworkKind> for Network {
    fn from(kind: NetworkKind) -> Self {
        Network { kind, placement: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_on_their_nodes() {
        let network = Network::torus(&[4, 4], &[true, true]).unwrap().with_placement(vec![5, 0, 9]).unwrap();
        assert_eq!((network.ranks(), network.nodes(), network.has_identity_placement()), (3, 16, false));
        assert_eq!(network.node_of(2), 9);
        let mut route = Vec::new();
        network.route(0, 2, TieBreak::default(), |link| route.push(link));
        assert_eq!(route, [22]);
    }

    #[test]
    fn rank_r_on_node_r_is_the_identity_placement() {
        let network = Network::flat(3);
        assert_eq!(network.clone().with_placement(vec![0, 1, 2]), Ok(network.clone()));
        assert!(!network.clone().with_placement(vec![0, 2, 1]).unwrap().has_identity_placement());
        assert!(!network.with_placement(vec![0, 1]).unwrap().has_identity_placement());
    }

    #[test]
    fn invalid_placements_are_errors() {
        let network = Network::flat(4);
        assert_eq!(network.clone().with_placement(vec![]), Err(Error::NoRanks));
        assert_eq!(
            network.clone().with_placement(vec![1, 4]),
            Err(Error::NodeOutOfRange { rank: 1, node: 4, nodes: 4 })
        );
        assert_eq!(network.with_placement(vec![2, 1, 2]), Err(Error::DuplicateNode { node: 2, first: 0, second: 2 }));
    }

    #[test]
    fn open_networks_take_any_number_of_ranks() {
        let open = Network::clos(80, 64, 0).unwrap();
        assert_eq!(open.ranks(), 0);
        assert_eq!(open.clone().for_ranks(100), Network::clos(80, 64, 100));
        assert_eq!(open.clone().for_ranks(0), Err(Error::NoRanks));
        assert_eq!(open.with_placement(vec![7, 70]).unwrap().nodes(), 71);
        assert_eq!(Network::flat(0).for_ranks(9), Ok(Network::flat(9)));
    }

    #[test]
    fn other_networks_have_a_fixed_number_of_ranks() {
        let network = Network::torus(&[4, 2], &[true, false]).unwrap();
        assert_eq!(network.clone().for_ranks(8), Ok(network.clone()));
        let error = network.for_ranks(7).unwrap_err();
        assert_eq!(error.to_string(), "7 ranks requested, but the network `torus:4x2,wrap=yn` has 8");
    }

    #[test]
    fn paths_skip_nodes_without_ranks() {
        let network = Network::torus(&[5, 5], &[true, true]).unwrap().with_placement(vec![24, 3, 11, 7]).unwrap();
        for path in network.disjoint_rank_paths() {
            let mut ranks = path.clone();
            ranks.sort();
            assert_eq!(ranks, [0, 1, 2, 3]);
        }
        assert_eq!(network.disjoint_rank_paths().len(), 2);
        assert_eq!(
            Network::clusters(&[2, 3]).unwrap().with_placement(vec![4, 1]).unwrap().disjoint_rank_paths(),
            [[1, 0]]
        );
    }
}
