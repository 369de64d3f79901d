//! Operations composed of allgather cores.

pub mod allgather;
pub mod allreduce;
pub mod reduce_scatter;
mod view_buffers;

pub use allgather::Allgather;
pub use allreduce::Allreduce;
pub use reduce_scatter::ReduceScatter;
