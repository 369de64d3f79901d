//! Operations along trees.

pub mod bcast;
pub mod blocks;
pub mod mesh;
pub mod placed;
pub mod reduce;
pub mod shape;
pub mod tree;
pub mod two_layer;

pub use bcast::Bcast;
pub use blocks::Blocks;
pub use placed::{Placed, Stand, Turn};
pub use reduce::Reduce;
pub use shape::{Layer, Shape, Unfit};
pub use tree::Tree;
