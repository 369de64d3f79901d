//! Operations that are made of allgather cores.

pub mod allgather;
pub mod allreduce;
mod order;
pub mod reduce_scatter;

pub use allgather::Allgather;
pub use allreduce::Allreduce;
pub use reduce_scatter::ReduceScatter;
