//! Operations in which ranks exchange with each other directly, without a core or a tree.

pub mod allgather_linear;
pub mod allgather_reduce;
pub mod bucket_fan;
pub mod fan;
pub mod halving;
pub mod reduce_scatter_linear;
pub mod reduce_scatter_pairwise;

pub use allgather_linear::AllgatherLinear;
pub use allgather_reduce::AllgatherReduce;
pub use bucket_fan::BucketFan;
pub use fan::FanInFanOut;
pub use halving::HalvingExchange;
pub use reduce_scatter_linear::ReduceScatterLinear;
pub use reduce_scatter_pairwise::ReduceScatterPairwise;
