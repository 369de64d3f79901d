//! The patterns that graph algorithms are assembled from.   [active messages paper, section 4]

pub mod buckets;
pub mod coarsening;
pub mod fixpoint;
pub mod search;
pub mod wavefront;
