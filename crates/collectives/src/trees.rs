//! Operations along trees.

pub mod bcast;
pub mod hierarchical;
pub mod mesh;
pub mod rank_tree;
pub mod reduce;
pub mod scatter_gather;
pub mod shape;
pub mod tree;

pub use bcast::Bcast;
pub use rank_tree::{RankTree, TreePeers, TreePosition};
pub use reduce::Reduce;
pub use scatter_gather::ScatterGather;
pub use shape::{Levels, TreeKind, TreeShape, UnsupportedTree};
pub use tree::Tree;
