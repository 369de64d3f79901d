//! Operations composed of a tree and a core or another tree.

pub mod gather_bcast;
pub mod initial_blocks;
pub mod reduce_scatter_gather;
pub mod scatter_allgather;

pub use gather_bcast::GatherBcast;
pub use reduce_scatter_gather::ReduceScatterGather;
pub use scatter_allgather::ScatterAllgather;
