//! All-to-all algorithms. Pairwise also supports unequal counts (alltoallv), as the linear one does (`exchange`).

pub mod bruck;
pub mod grid;
pub mod pairwise;

pub use bruck::Bruck;
pub use grid::{Grid, balanced_factors};
pub use pairwise::Pairwise;
