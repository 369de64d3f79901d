//! Shapes of trees by name, for choosing among them.

use std::fmt;

use treepie_topology::{Kind, Network};

use super::placed::Placed;
use super::tree::Tree;

/// The shape of a tree over ranks that are all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layer {
    /// The root serves all.
    Flat,
    /// Each rank serves the next.
    Chain,
    /// In each step everybody who has the message serves another.
    Binomial,
    /// The same with so many minus one in each step.
    Knomial(u32),
    /// So many children at most.
    Kary(u32),
    /// The one that reaches all first, if a rank can send every `gap` and a message takes `time`.
    Greedy {
        /// Between two messages of a rank.
        gap: f64,
        /// From the beginning of a send until the receiver can send it on.
        time: f64,
    },
}

impl Layer {
    /// The tree over so many places.
    pub fn tree(self, places: u32) -> Tree {
        match self {
            Layer::Flat => Tree::flat(places),
            Layer::Chain => Tree::chain(places),
            Layer::Binomial => Tree::knomial(places, 2),
            Layer::Knomial(radix) => Tree::knomial(places, radix),
            Layer::Kary(degree) => Tree::kary(places, degree),
            Layer::Greedy { gap, time } => Tree::greedy(places, gap, time),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Flat => f.write_str("flat"),
            Layer::Chain => f.write_str("chain"),
            Layer::Binomial => f.write_str("binomial"),
            Layer::Knomial(radix) => write!(f, "knomial({radix})"),
            Layer::Kary(degree) => write!(f, "kary({degree})"),
            Layer::Greedy { gap, time } => write!(f, "greedy({gap}, {time})"),
        }
    }
}

/// The shape of a tree over the ranks of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Whatever the network is.
    One(Layer),
    /// Over clusters, or over the leaves of a Clos network.
    TwoLayer {
        /// Over the coordinators.
        wan: Layer,
        /// Within a cluster.
        lan: Layer,
    },
    /// Flat, with the links to clusters or leaves used in turn.
    InTurn,
    /// Halving the way in each dimension of a mesh or torus.
    Mesh,
}

/// A shape that a network has no tree of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("a tree of shape {shape} needs {needs}")]
pub struct Unfit {
    /// The shape.
    pub shape: Shape,
    /// What it needs.
    pub needs: &'static str,
}

impl Shape {
    /// The tree with this root over the ranks of a network.
    pub fn place(self, network: &Network, root: u32) -> Result<Placed, Unfit> {
        let needs = |needs| Unfit { shape: self, needs };
        let clusters = || clusters(network).ok_or(needs("clusters, or a Clos network"));
        Ok(match self {
            Shape::One(layer) => Placed::rooted(layer.tree(network.ranks()), root),
            Shape::TwoLayer { wan, lan } => Placed::two_layer(&clusters()?, root, wan, lan),
            Shape::InTurn => Placed::in_turn(&clusters()?, root),
            Shape::Mesh => Placed::mesh(network, root).ok_or(needs("a mesh or torus"))?,
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::One(layer) => layer.fmt(f),
            Shape::TwoLayer { wan, lan } => write!(f, "two_layer({wan}, {lan})"),
            Shape::InTurn => f.write_str("in_turn"),
            Shape::Mesh => f.write_str("mesh"),
        }
    }
}

/// The cluster or leaf of each rank.
fn clusters(network: &Network) -> Option<Vec<u32>> {
    let places = (0..network.ranks()).map(|rank| network.place(rank));
    match network.kind() {
        Kind::Clusters(clusters) => Some(places.map(|place| clusters.cluster_of(place)).collect()),
        Kind::Clos(clos) => Some(places.map(|place| clos.leaf_of(place)).collect()),
        _ => None,
    }
}
