//! Two-layer trees over clusters: a message crosses the slow links between clusters once per cluster.
//!
//! One rank of each cluster is its coordinator, in the root's cluster the root. There is a tree over the coordinators,
//! and one within each cluster. A coordinator sends to other coordinators first: their links are the slowest.
//! [P-LogP 3.1]

use super::rank_tree::RankTree;
use super::shape::TreeShape;
use super::tree::Tree;

impl RankTree {
    /// `clusters` gives the cluster of each rank; sizes may differ, and ranks of a cluster need not be consecutive.
    /// `wan` is the shape over coordinators, `lan` that within clusters.
    pub fn two_layer(clusters: &[u32], root: u32, wan: TreeShape, lan: TreeShape) -> Self {
        let members = members(clusters, root);
        let over = wan.tree(members.len() as u32);
        let within: Vec<Tree> = members.iter().map(|ranks| lan.tree(ranks.len() as u32)).collect();
        // Clusters in the order of the tree over coordinators, each with the virtual ranks of its tree: depth first,
        // with the coordinator's cluster directly after it.
        let mut offsets: Vec<u32> = Vec::with_capacity(members.len());
        let mut parents = Vec::with_capacity(clusters.len());
        for (cluster, tree) in (0..).zip(&within) {
            let offset = parents.len() as u32;
            offsets.push(offset);
            parents.push(offsets[over.parent(cluster) as usize]);
            parents.extend((1..tree.vranks()).map(|vrank| offset + tree.parent(vrank)));
        }
        let coordinators = (0..over.vranks()).flat_map(|cluster| over.children(cluster));
        let coordinators = coordinators.map(|cluster| offsets[*cluster as usize]);
        let others = offsets.iter().zip(&within).flat_map(|(offset, tree)| {
            (0..tree.vranks()).flat_map(move |vrank| tree.children(vrank).iter().map(move |child| offset + child))
        });
        Self::with_order(Tree::from_parents(parents, coordinators.chain(others)), members.concat())
    }

    /// A flat tree that uses the links to clusters round-robin: the root sends to the first rank of each cluster, then
    /// to the second of each, and so on, to other clusters before its own.   [P-LogP 3.2]
    pub fn in_turn(clusters: &[u32], root: u32) -> Self {
        let mut members = members(clusters, root);
        members.rotate_left(1);
        if let Some(own) = members.last_mut() {
            own.remove(0);
        }
        let max = members.iter().map(Vec::len).max().unwrap_or(0);
        let others = (0..max).flat_map(|number| members.iter().filter_map(move |ranks| ranks.get(number)));
        let order = std::iter::once(&root).chain(others).copied().collect();
        Self::with_order(Tree::flat(clusters.len() as u32), order)
    }
}

/// The ranks of each nonempty cluster: the root's cluster first, and in it the root first.
fn members(clusters: &[u32], root: u32) -> Vec<Vec<u32>> {
    let count = clusters.iter().max().map_or(0, |max| max + 1);
    let mut members = vec![Vec::new(); count as usize];
    (0..).zip(clusters).for_each(|(rank, cluster)| members[*cluster as usize].push(rank));
    members.rotate_left(clusters[root as usize] as usize);
    let at = members[0].iter().position(|rank| *rank == root).expect("the root is in its cluster");
    members[0].rotate_left(at);
    members.retain(|ranks| !ranks.is_empty());
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinators_send_to_coordinators_first() {
        let clusters = [0, 1, 0, 1, 2, 2, 2, 0, 0];
        let tree = RankTree::two_layer(&clusters, 7, TreeShape::Flat, TreeShape::Binomial);
        assert_eq!(tree.children(7).collect::<Vec<_>>(), [1, 4, 0, 8]);
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [2]);
        assert_eq!(tree.children(1).collect::<Vec<_>>(), [3]);
        assert_eq!(tree.children(4).collect::<Vec<_>>(), [6, 5]);
        assert!(RankTree::two_layer(&[0, 0, 1, 1, 1, 2], 0, TreeShape::Chain, TreeShape::Kary(2)).is_rank_ordered());
    }

    #[test]
    fn links_to_clusters_are_used_round_robin() {
        let tree = RankTree::in_turn(&[0, 0, 0, 1, 1, 2, 2, 2], 1);
        assert_eq!(tree.children(1).collect::<Vec<_>>(), [3, 5, 2, 4, 6, 0, 7]);
    }
}
