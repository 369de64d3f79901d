//! Operations with a root that are made of a tree and something else.

pub mod gather_bcast;
pub mod kept;
pub mod reduce_scatter_gather;
pub mod scatter_allgather;

pub use gather_bcast::GatherBcast;
pub use reduce_scatter_gather::ReduceScatterGather;
pub use scatter_allgather::ScatterAllgather;
