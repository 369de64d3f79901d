//! Trees over clusters: a message crosses the slow links between clusters once for each cluster.
//!
//! One rank of each cluster is its coordinator, in the root's cluster the root. There is a tree over the coordinators, and
//! one within each cluster. A coordinator serves other coordinators first: their way is the longest.   [P-LogP 3.1]

use super::placed::Placed;
use super::shape::Layer;
use super::tree::Tree;

impl Placed {
    /// Over clusters that need not be equal, nor consecutive ranks: `clusters` gives the cluster of each rank. `wan` is
    /// the shape over coordinators, `lan` that within clusters.
    pub fn two_layer(clusters: &[u32], root: u32, wan: Layer, lan: Layer) -> Self {
        let members = members(clusters, root);
        let over = wan.tree(members.len() as u32);
        let within: Vec<Tree> = members.iter().map(|ranks| lan.tree(ranks.len() as u32)).collect();
        // Clusters in the order of the tree over coordinators, in each of them the places of its own tree: depth first,
        // with a coordinator's own cluster nearest to it.
        let mut begins: Vec<u32> = Vec::with_capacity(members.len());
        let mut parents = Vec::with_capacity(clusters.len());
        for (cluster, tree) in (0..).zip(&within) {
            let begin = parents.len() as u32;
            begins.push(begin);
            parents.push(begins[over.parent(cluster) as usize]);
            parents.extend((1..tree.places()).map(|place| begin + tree.parent(place)));
        }
        let coordinators = (0..over.places()).flat_map(|cluster| over.children(cluster));
        let coordinators = coordinators.map(|cluster| begins[*cluster as usize]);
        let others = begins.iter().zip(&within).flat_map(|(begin, tree)| {
            (0..tree.places()).flat_map(move |place| tree.children(place).iter().map(move |child| begin + child))
        });
        Self::ordered(Tree::from_parents(parents, coordinators.chain(others)), members.concat())
    }

    /// A flat tree that uses the links to clusters in turn: first the first rank of each cluster is served, then the
    /// second of each, and so on, other clusters before the root's own.   [P-LogP 3.2]
    pub fn in_turn(clusters: &[u32], root: u32) -> Self {
        let mut members = members(clusters, root);
        members.rotate_left(1);
        if let Some(own) = members.last_mut() {
            own.remove(0);
        }
        let most = members.iter().map(Vec::len).max().unwrap_or(0);
        let others = (0..most).flat_map(|number| members.iter().filter_map(move |ranks| ranks.get(number)));
        let order = std::iter::once(&root).chain(others).copied().collect();
        Self::ordered(Tree::flat(clusters.len() as u32), order)
    }
}

/// The ranks of each cluster that has any: the root's cluster first, in it the root first.
fn members(clusters: &[u32], root: u32) -> Vec<Vec<u32>> {
    let count = clusters.iter().max().map_or(0, |most| most + 1);
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
    fn coordinators_serve_coordinators_first() {
        let clusters = [0, 1, 0, 1, 2, 2, 2, 0, 0];
        let tree = Placed::two_layer(&clusters, 7, Layer::Flat, Layer::Binomial);
        assert_eq!(tree.children(7).collect::<Vec<_>>(), [1, 4, 0, 8]);
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [2]);
        assert_eq!(tree.children(1).collect::<Vec<_>>(), [3]);
        assert_eq!(tree.children(4).collect::<Vec<_>>(), [6, 5]);
        assert!(Placed::two_layer(&[0, 0, 1, 1, 1, 2], 0, Layer::Chain, Layer::Kary(2)).is_in_order());
    }

    #[test]
    fn links_to_clusters_are_used_in_turn() {
        let tree = Placed::in_turn(&[0, 0, 0, 1, 1, 2, 2, 2], 1);
        assert_eq!(tree.children(1).collect::<Vec<_>>(), [3, 5, 2, 4, 6, 0, 7]);
    }
}
