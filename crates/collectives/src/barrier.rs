//! Barriers.

pub mod dissemination;
pub mod recursive_doubling;
pub mod tree;

pub use dissemination::Dissemination;
pub use recursive_doubling::RecursiveDoubling;
pub use tree::TreeBarrier;
