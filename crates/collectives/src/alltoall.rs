//! Algorithms for the all-to-all exchange. Linear and pairwise also do it with unequal counts.

pub mod bruck;
pub mod grid;
pub mod linear;
pub mod pairwise;

pub use bruck::Bruck;
pub use grid::{Grid, balanced_factors};
pub use linear::Linear;
pub use pairwise::Pairwise;
