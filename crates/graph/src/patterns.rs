//! Patterns that graph algorithms are composed of.   [active messages paper, section 4]

pub mod buckets;
pub mod coarsening;
pub mod fixpoint;
pub mod traversal;
pub mod wavefront;
