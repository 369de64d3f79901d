//! Operations in which ranks exchange with each other directly, without a core or a tree.

pub mod bucket_fan;
pub mod fan;
pub mod halving;
pub mod linear;
pub mod reduce_scatter_pairwise;

pub use bucket_fan::BucketFan;
pub use fan::FanInFanOut;
pub use halving::HalvingExchange;
pub use linear::Linear;
pub use reduce_scatter_pairwise::ReduceScatterPairwise;
