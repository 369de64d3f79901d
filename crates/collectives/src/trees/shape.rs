//! Tree shapes by name.

use std::fmt;

use treepie_topology::{LinkClasses, Network, NetworkKind};

use super::rank_tree::RankTree;
use super::tree::Tree;

/// The shape of a tree over equivalent ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TreeShape {
    /// The root sends to all.
    Flat,
    /// Each rank sends to the next.
    Chain,
    /// In each step every rank that has the message sends it to another.
    Binomial,
    /// Binomial with this radix k: to k - 1 others in each step.
    Knomial(u32),
    /// At most this number of children.
    Kary(u32),
    /// Over the outermost groups of clusters along their fastest links; flat over others.
    Links(LinkClasses),
    /// The optimal tree if a rank can send every `gap` and a message takes `time`.
    Greedy {
        /// The time between two sends of a rank.
        gap: f64,
        /// The time from the start of a send until the receiver can forward it.
        time: f64,
    },
}

impl TreeShape {
    /// The tree over `vranks` virtual ranks.
    pub fn tree(self, vranks: u32) -> Tree {
        match self {
            TreeShape::Flat | TreeShape::Links(_) => Tree::flat(vranks),
            TreeShape::Chain => Tree::chain(vranks),
            TreeShape::Binomial => Tree::knomial(vranks, 2),
            TreeShape::Knomial(radix) => Tree::knomial(vranks, radix),
            TreeShape::Kary(degree) => Tree::kary(vranks, degree),
            TreeShape::Greedy { gap, time } => Tree::greedy(vranks, gap, time),
        }
    }
}

impl fmt::Display for TreeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeShape::Flat => f.write_str("flat"),
            TreeShape::Chain => f.write_str("chain"),
            TreeShape::Binomial => f.write_str("binomial"),
            TreeShape::Knomial(radix) => write!(f, "knomial({radix})"),
            TreeShape::Kary(degree) => write!(f, "kary({degree})"),
            TreeShape::Links(classes) => classes.fmt(f),
            TreeShape::Greedy { gap, time } => write!(f, "greedy({gap}, {time})"),
        }
    }
}

/// The levels of nested clusters that an algorithm distinguishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levels {
    /// All.
    #[default]
    All,
    /// The innermost clusters. A short message then takes one latency between any two of them.
    Innermost,
    /// The outermost groups.
    Outermost,
}

/// The kind of a tree over the ranks of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TreeKind {
    /// Independent of the network.
    SingleLayer(TreeShape),
    /// Over the clusters, on these levels if they are nested, over hosts, or over the leaves of a Clos network.
    Hierarchical {
        /// The levels.
        levels: Levels,
        /// Over the coordinators.
        wan: TreeShape,
        /// Within a cluster.
        lan: TreeShape,
    },
    /// Flat, with the links to clusters or leaves used round-robin.
    InTurn,
    /// Recursive halving of each dimension of a mesh or torus.
    Mesh,
}

/// A tree that the network does not support.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("a tree of shape {shape} needs {needs}")]
pub struct UnsupportedTree {
    /// The shape.
    pub shape: Box<TreeKind>,
    /// The required network.
    pub needs: &'static str,
}

impl TreeKind {
    /// The tree with this root over the ranks of a network.
    pub fn build(self, network: &Network, root: u32) -> Result<RankTree, UnsupportedTree> {
        let needs = |needs| UnsupportedTree { shape: Box::new(self), needs };
        let groups = |levels| groups(network, levels).ok_or_else(|| needs("clusters, hosts or a Clos network"));
        Ok(match self {
            TreeKind::SingleLayer(shape) => RankTree::with_root(shape.tree(network.ranks()), root),
            TreeKind::Hierarchical { levels, wan, lan } => RankTree::multi_layer(&groups(levels)?, root, wan, lan),
            TreeKind::InTurn => RankTree::in_turn(&groups(Levels::Innermost)?[0], root),
            TreeKind::Mesh => RankTree::mesh(network, root).ok_or_else(|| needs("a mesh or torus"))?,
        })
    }
}

impl fmt::Display for TreeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeKind::SingleLayer(shape) => shape.fmt(f),
            TreeKind::Hierarchical { wan, lan, .. } => write!(f, "hierarchical({wan}, {lan})"),
            TreeKind::InTurn => f.write_str("in_turn"),
            TreeKind::Mesh => f.write_str("mesh"),
        }
    }
}

/// The cluster, host or leaf of each rank; for nested clusters also its group on each level above. Outer levels with a single
/// group are left out.
pub(crate) fn groups(network: &Network, levels: Levels) -> Option<Vec<Vec<u32>>> {
    let of_each = |group: &dyn Fn(u32) -> u32| (0..network.ranks()).map(|rank| group(network.node_of(rank))).collect();
    let mut all: Vec<Vec<u32>> = match network.kind() {
        NetworkKind::Clusters(clusters) => {
            (0..clusters.levels()).map(|level| of_each(&|node| clusters.group_of(level, node))).collect()
        }
        NetworkKind::Clos(clos) => vec![of_each(&|node| clos.leaf_of(node))],
        NetworkKind::Flat(flat) if network.has_hosts() => vec![of_each(&|node| node / flat.nodes_per_host())],
        _ => return None,
    };
    while all.len() > 1 && all.last().is_some_and(|groups| groups.iter().all(|group| *group == groups[0])) {
        all.pop();
    }
    match levels {
        Levels::All => {}
        Levels::Innermost => all.truncate(1),
        Levels::Outermost => all = all.split_off(all.len() - 1),
    }
    Some(all)
}
