//! Allgather cores; see [`treepie_schedule::allgather_core`].

pub mod alternating;
pub(crate) mod bits;
pub mod bruck;
pub mod bucket;
pub mod direct;
pub mod doubling;
pub mod hybrid;
pub mod multi_port_buckets;
pub mod orders;
pub mod parallel;

pub use alternating::Alternating;
pub use bruck::Bruck;
pub use bucket::Bucket;
pub use direct::Direct;
pub use doubling::{Distance, Doubling};
pub use hybrid::{DoublingRing, hybrid};
pub use multi_port_buckets::{bucket_k, buckets};
pub use orders::{distance_doubling, distance_halving, hamiltonian, hamiltonian_lanes, torus_reordered};
pub use parallel::Parallel;
