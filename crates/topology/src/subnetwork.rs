//! The network of some of the ranks: that of a sub-communicator.

use crate::{Network, NetworkKind, Torus};

impl Network {
    /// The network of these ranks, in this order.
    ///
    /// Where they are a network of the same kind by themselves, it is that one: a box of a torus or mesh, the ranks of
    /// whole leaves, clusters or parts of them. Otherwise they keep their nodes ([`Network::with_placement`]).
    ///
    /// # Panics
    /// If a rank does not exist or is named twice, or if there are none.
    pub fn subnetwork(&self, ranks: &[u32]) -> Network {
        let nodes: Vec<u32> = ranks.iter().map(|rank| self.node_of(*rank)).collect();
        let smaller = match self.kind() {
            NetworkKind::Flat(flat) => {
                let per_host = flat.nodes_per_host();
                let whole_hosts = nodes.len().is_multiple_of(per_host as usize)
                    && nodes.chunks(per_host as usize).all(|host| {
                        host[0].is_multiple_of(per_host) && host.windows(2).all(|two| two[1] == two[0] + 1)
                    });
                let on_one_host = nodes.iter().all(|node| node / per_host == nodes[0] / per_host);
                match per_host {
                    _ if on_one_host => Some(Network::flat(nodes.len() as u32)),
                    1 => Some(Network::flat(nodes.len() as u32)),
                    _ if whole_hosts => Network::flat_with_hosts(nodes.len() as u32, per_host).ok(),
                    _ => None,
                }
            }
            NetworkKind::Torus(torus) => sub_box(torus, &nodes),
            NetworkKind::Clos(clos) => {
                let consecutive = nodes.windows(2).all(|two| two[1] == two[0] + 1);
                let from_a_leaf = nodes[0].is_multiple_of(clos.terminals());
                let on_one_leaf = clos.leaf_of(nodes[0]) == clos.leaf_of(nodes[nodes.len() - 1]);
                (consecutive && (from_a_leaf || on_one_leaf))
                    .then(|| Network::clos(clos.radix(), clos.terminals(), nodes.len() as u32).ok())
                    .flatten()
            }
            NetworkKind::Clusters(clusters) => {
                let mut parts: Vec<(u32, u32)> = Vec::new();
                for cluster in nodes.iter().map(|node| clusters.cluster_of(*node)) {
                    match parts.last_mut() {
                        Some((last, size)) if *last == cluster => *size += 1,
                        _ => parts.push((cluster, 1)),
                    }
                }
                let mut seen: Vec<u32> = parts.iter().map(|(cluster, _)| *cluster).collect();
                seen.sort_unstable();
                seen.dedup();
                let sizes: Vec<u32> = parts.iter().map(|(_, size)| *size).collect();
                match sizes.len() {
                    1 => Some(Network::flat(sizes[0])),
                    // Nested ones keep their nodes.
                    _ if clusters.levels() > 1 => None,
                    parts if parts == seen.len() => Network::clusters(&sizes).ok(),
                    _ => None,
                }
            }
        };
        smaller.unwrap_or_else(|| {
            Network::from(self.kind().clone()).with_placement(nodes).expect("ranks exist, and are named once")
        })
    }
}

/// The box of a torus that these nodes fill in order, if they do. A dimension of which all is in the box wraps as
/// before.
fn sub_box(torus: &Torus, nodes: &[u32]) -> Option<Network> {
    let dims = torus.dims();
    let coordinates = |mut node: u32| {
        dims.iter().map(move |side| {
            let coordinate = node % side;
            node /= side;
            coordinate
        })
    };
    let low: Vec<u32> = coordinates(nodes[0]).collect();
    let sides: Vec<u32> = coordinates(nodes[nodes.len() - 1])
        .zip(&low)
        .map(|(high, low)| Some(high.checked_sub(*low)? + 1))
        .collect::<Option<_>>()?;
    if sides.iter().map(|side| u64::from(*side)).product::<u64>() != nodes.len() as u64 {
        return None;
    }
    let in_order = (0..).zip(nodes).all(|(index, node)| {
        let mut rest: u32 = index;
        coordinates(*node).zip(low.iter().zip(&sides)).all(|(coordinate, (low, side))| {
            let expected = low + rest % side;
            rest /= side;
            coordinate == expected
        })
    });
    // Without the dimensions in which it has no extent; a single node keeps one.
    let kept = (0..dims.len()).filter(|dim| sides[*dim] > 1 || *dim == 0 && nodes.len() == 1);
    let (sides, wraps): (Vec<u32>, Vec<bool>) =
        kept.map(|dim| (sides[dim], torus.wraps(dim) && sides[dim] == dims[dim])).unzip();
    in_order.then(|| Network::torus(&sides, &wraps).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(network: &str, ranks: impl IntoIterator<Item = u32>) -> String {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        network.parse::<Network>().unwrap().subnetwork(&ranks).to_string()
    }

    #[test]
    fn rows_planes_and_boxes_of_a_torus_are_tori_and_meshes() {
        assert_eq!(sub("torus:4x4x8", 0..16), "torus:4x4");
        assert_eq!(sub("torus:4x8", 4..8), "torus:4", "a row");
        assert_eq!(sub("torus:4x8", (0..8).map(|y| 4 * y + 1)), "torus:8", "a column");
        assert_eq!(sub("torus:4x8", 2..4), "mesh:2", "a part of a row");
        assert_eq!(sub("torus:4x8", [7]).parse::<Network>().unwrap().ranks(), 1);
        let network: Network = sub("torus:4x8", [1, 2, 5, 6]).parse().unwrap();
        assert_eq!(network.as_torus().map(|torus| (torus.dims().to_vec(), torus.wraps(0))), Some((vec![2, 2], false)));
        assert_eq!(sub("mesh:4x4", 0..16), "mesh:4x4");
        for ranks in [vec![0, 2, 1], vec![0, 5, 10], vec![3, 0]] {
            let network = "torus:4x4".parse::<Network>().unwrap().subnetwork(&ranks);
            assert_eq!((network.ranks(), network.placement()), (ranks.len() as u32, Some(&ranks[..])), "{network}");
        }
    }

    #[test]
    fn parts_of_clusters_and_clos_networks() {
        assert_eq!(sub("clusters:4x4", 4..8), "flat:4");
        assert_eq!(sub("clusters:4x4", [0, 1, 4, 5, 6, 12]), sub("clusters:2+3+1", 0..6));
        let network = "clusters:2x4".parse::<Network>().unwrap().subnetwork(&[0, 4, 1]);
        assert_eq!(network.placement(), Some(&[0, 4, 1][..]), "ranks of a cluster are not together");
        assert_eq!(sub("clos:r8,t4,n16", 4..12), "clos:r8,t4,n8");
        assert_eq!(sub("flat:8", [5, 1, 2]), "flat:3");
    }
}
