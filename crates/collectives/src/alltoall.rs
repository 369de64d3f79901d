//! All-to-all algorithms. Linear and pairwise also support unequal counts (alltoallv).

pub mod bruck;
pub mod grid;
pub mod linear;
pub mod pairwise;

pub use bruck::Bruck;
pub use grid::{Grid, balanced_factors};
pub use linear::Linear;
pub use pairwise::Pairwise;
