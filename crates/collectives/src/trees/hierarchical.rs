//! Hierarchical trees over clusters: a message crosses the slow links between clusters once per cluster.
//!
//! One rank of each cluster is its coordinator, in the root's cluster the root. There is a tree over the coordinators,
//! and one within each cluster. A coordinator sends to other coordinators first: their links are the slowest.
//! [P-LogP 3.1]
//!
//! Nested clusters have a coordinator per group on each level, which is also that of its first group on the level
//! below, and a tree over the coordinators within each group. So a message enters each group of each level once.

use super::rank_tree::RankTree;
use super::shape::TreeShape;
use super::tree::Tree;

impl RankTree {
    /// `clusters` gives the cluster of each rank; sizes may differ, and ranks of a cluster need not be consecutive.
    /// `wan` is the shape over coordinators, `lan` that within clusters.
    pub fn two_layer(clusters: &[u32], root: u32, wan: TreeShape, lan: TreeShape) -> Self {
        Self::multi_layer(&[clusters], root, wan, lan)
    }

    /// As [`two_layer`](Self::two_layer) over nested clusters: `groups` has a list per level, the group of each rank,
    /// beginning with the innermost clusters. `wan` is the shape over coordinators on every level.
    pub fn multi_layer(groups: &[impl AsRef<[u32]>], root: u32, wan: TreeShape, lan: TreeShape) -> Self {
        TreeLayers::build(groups, Coordinators { root: Some(root), number: 0 }, Outermost::Shape(wan), (wan, lan))
    }

    /// One of several trees with the same root that use different links between the outermost groups, and other
    /// coordinators: number k leads from the root to the k-th other group, and from its coordinator to all others.
    pub fn relayed(groups: &[impl AsRef<[u32]>], root: u32, number: u32, wan: TreeShape, lan: TreeShape) -> Self {
        TreeLayers::build(groups, Coordinators { root: Some(root), number }, Outermost::Relay(number), (wan, lan))
    }

    /// The trees of all outermost groups, whose roots are the children of the first. Trees of other numbers have other
    /// coordinators.
    pub(crate) fn joined_forest(groups: &[impl AsRef<[u32]>], number: u32, wan: TreeShape, lan: TreeShape) -> Self {
        TreeLayers::build(groups, Coordinators { root: None, number }, Outermost::Shape(TreeShape::Flat), (wan, lan))
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

/// Which rank of a group is its coordinator.
#[derive(Clone, Copy)]
struct Coordinators {
    /// The coordinator of all groups that have it.
    root: Option<u32>,
    /// The coordinator of other groups, in a list of their ranks round-robin over subgroups: trees of different numbers
    /// have different ones, in different subgroups first.
    number: u32,
}

/// The tree over the outermost groups.
#[derive(Clone, Copy)]
enum Outermost {
    Shape(TreeShape),
    /// To one of the other groups, and from there to all others.
    Relay(u32),
}

/// A tree under construction. Virtual ranks are depth first, with a coordinator's group directly after it.
struct TreeLayers<'a> {
    /// The group of each rank, by level.
    groups: Vec<&'a [u32]>,
    root: Option<u32>,
    outermost: Outermost,
    wan: TreeShape,
    lan: TreeShape,
    /// The parent of each virtual rank.
    parents: Vec<u32>,
    /// The rank of each virtual rank.
    ranks: Vec<u32>,
    /// The children that are sent to on each layer: within clusters, then over groups of each level. The slowest links
    /// are used first.
    children: Vec<Vec<u32>>,
}

impl<'a> TreeLayers<'a> {
    fn build(
        groups: &'a [impl AsRef<[u32]>],
        Coordinators { root, number }: Coordinators,
        outermost: Outermost,
        (wan, lan): (TreeShape, TreeShape),
    ) -> RankTree {
        let ranks = groups[0].as_ref().len();
        let mut layers = Self {
            groups: groups.iter().map(AsRef::as_ref).collect(),
            root,
            outermost,
            wan,
            lan,
            parents: Vec::with_capacity(ranks),
            ranks: Vec::with_capacity(ranks),
            children: vec![Vec::new(); groups.len() + 1],
        };
        let first = root.unwrap_or(0);
        layers.add(groups.len(), (0..ranks as u32).collect(), first, number);
        let children = layers.children.iter().rev().flatten().copied();
        RankTree::with_order(Tree::from_parents(layers.parents, children), layers.ranks)
    }

    /// The subgroups of a group, in the order of their first ranks; ranks stay in order.
    fn parts(&self, layer: usize, members: &[u32]) -> Vec<Vec<u32>> {
        let group = |rank: &u32| self.groups[layer - 1][*rank as usize];
        let mut sorted = members.to_vec();
        sorted.sort_by_key(group);
        let mut parts: Vec<Vec<u32>> = sorted.chunk_by(|a, b| group(a) == group(b)).map(<[u32]>::to_vec).collect();
        parts.sort_by_key(|part| part[0]);
        parts
    }

    /// The ranks of a group, round-robin over its subgroups.
    fn round_robin(&self, layer: usize, members: &[u32]) -> Vec<u32> {
        if layer == 0 {
            return members.to_vec();
        }
        let parts: Vec<Vec<u32>> =
            self.parts(layer, members).iter().map(|part| self.round_robin(layer - 1, part)).collect();
        let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|turn| parts.iter().filter_map(move |part| part.get(turn))).copied().collect()
    }

    fn coordinator(&self, layer: usize, members: &[u32], number: u32) -> u32 {
        match self.root.filter(|root| members.contains(root)) {
            Some(root) => root,
            None => self.round_robin(layer, members)[number as usize % members.len()],
        }
    }

    /// Adds the ranks of a group, of a cluster on layer 0. Its coordinator becomes its own parent.
    fn add(&mut self, layer: usize, mut members: Vec<u32>, coordinator: u32, number: u32) {
        let first = self.parents.len() as u32;
        if layer == 0 {
            let at = members.iter().position(|rank| *rank == coordinator);
            members.rotate_left(at.unwrap_or(0));
            let tree = self.lan.tree(members.len() as u32);
            self.parents.extend((0..tree.vranks()).map(|vrank| first + tree.parent(vrank)));
            let children = (0..tree.vranks()).flat_map(|vrank| tree.children(vrank).iter().map(|child| first + child));
            self.children[0].extend(children);
            self.ranks.append(&mut members);
            return;
        }
        let groups = self.groups[layer - 1];
        let group = |rank: &u32| groups[*rank as usize];
        let mut parts = self.parts(layer, &members);
        let is_outermost = layer == self.groups.len();
        // Group numbers are unique on a level, so a group with the coordinator's number has it.
        let at = parts.iter().position(|part| group(&part[0]) == group(&coordinator)).unwrap_or(0);
        parts.rotate_left(at);
        let tree = match self.outermost {
            Outermost::Relay(relay) if is_outermost && parts.len() > 2 => {
                // The relay's subtree is an interval if the relay comes directly after the root.
                let others = parts.len() - 1;
                parts[1..].rotate_left(relay as usize % others);
                Tree::from_parents((0..=others as u32).map(|vrank| u32::from(vrank > 1)).collect(), 0..=others as u32)
            }
            Outermost::Shape(TreeShape::Links(classes)) if is_outermost => {
                let numbers: Vec<u32> = parts.iter().map(|part| group(&part[0])).collect();
                let (parents, order) = depth_first(&classes.bottleneck_tree(&numbers));
                parts = order.iter().map(|index| parts[*index].clone()).collect();
                let vranks = parents.len() as u32;
                Tree::from_parents(parents, 0..vranks)
            }
            Outermost::Shape(shape) if is_outermost => shape.tree(parts.len() as u32),
            _ => self.wan.tree(parts.len() as u32),
        };
        // Those of other subgroups differ in turn, too.
        let below = if is_outermost { number } else { number / parts.len() as u32 };
        let mut coordinators: Vec<u32> = Vec::with_capacity(parts.len());
        for (vrank, part) in (0..).zip(parts) {
            let position = self.parents.len() as u32;
            coordinators.push(position);
            let of_part = match vrank == 0 && !is_outermost {
                true => coordinator,
                false => self.coordinator(layer - 1, &part, below),
            };
            self.add(layer - 1, part, of_part, below);
            self.parents[position as usize] = coordinators[tree.parent(vrank) as usize];
        }
        let children = (0..tree.vranks()).flat_map(|vrank| tree.children(vrank));
        self.children[layer].extend(children.map(|child| coordinators[*child as usize]));
    }
}

/// A tree from the parents of its nodes, the first of which is the root, with its nodes in depth-first order: the
/// parent of each in that order, and the node.
fn depth_first(parents: &[usize]) -> (Vec<u32>, Vec<usize>) {
    let (mut numbered, mut order) = (vec![0; parents.len()], Vec::with_capacity(parents.len()));
    let mut stack = vec![0];
    while let Some(node) = stack.pop() {
        numbered[node] = order.len() as u32;
        order.push(node);
        stack.extend((1..parents.len()).rev().filter(|child| parents[*child] == node));
    }
    (order.iter().map(|node| numbered[parents[*node]]).collect(), order)
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
    use treepie_topology::LinkClasses;

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
    fn the_fastest_links_make_the_tree_over_groups() {
        let clusters = [0, 0, 1, 1, 2, 2, 3, 3];
        // Between 0 and 2 the link is slow both ways, and from 1 to 3.
        let slow = [(0, 2), (2, 0), (1, 3)];
        let time = |from, to| if slow.contains(&(from, to)) { 4.0 } else { 1.0 };
        let wan = TreeShape::Links(LinkClasses::from_times(4, time).unwrap());
        let children = |root: u32, rank: u32| {
            let tree = RankTree::two_layer(&clusters, root, wan, TreeShape::Flat);
            tree.children(rank).collect::<Vec<_>>()
        };
        // To 1 and 3, and from 1 to 2; a coordinator is the first rank of its cluster.
        assert_eq!((children(0, 0), children(0, 2), children(0, 6)), (vec![2, 6, 1], vec![4, 3], vec![7]));
        assert_eq!((children(5, 5), children(5, 6), children(5, 2)), (vec![6, 2, 4], vec![0, 7], vec![3]));
    }

    #[test]
    fn coordinators_of_outer_groups_come_first() {
        // Two sites of two clusters of three, and a third of one; the ranks of a site are scattered.
        let clusters = [0, 0, 2, 1, 1, 3, 2, 1, 3, 2, 0, 3, 4];
        let sites = clusters.map(|cluster| cluster / 2);
        let tree = RankTree::multi_layer(&[clusters, sites], 7, TreeShape::Flat, TreeShape::Chain);
        // From rank 7 to the sites, then to the other cluster of its site, then within its own.
        assert_eq!(tree.children(7).collect::<Vec<_>>(), [2, 12, 0, 3]);
        assert_eq!(tree.children(2).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [1]);
        assert_eq!(tree.children(12).count(), 0);
        let ordered = [[0, 0, 1, 1, 1, 2, 3], [0, 0, 0, 0, 0, 1, 1]];
        assert!(RankTree::multi_layer(&ordered, 0, TreeShape::Chain, TreeShape::Kary(2)).is_rank_ordered());
    }

    #[test]
    fn links_to_clusters_are_used_round_robin() {
        let tree = RankTree::in_turn(&[0, 0, 0, 1, 1, 2, 2, 2], 1);
        assert_eq!(tree.children(1).collect::<Vec<_>>(), [3, 5, 2, 4, 6, 0, 7]);
    }
}
