//! Operations over clusters on any number of levels, over hosts, or over the leaves of a Clos network: within each
//! outermost group along a tree to and from its coordinator, and among the coordinators directly. An all-to-all has no
//! trees.

pub mod allreduce;
pub mod allreduce_linear;
pub mod alltoall;
pub mod barrier;
pub mod core;
pub mod forest;
pub mod magpie;
pub mod scan;
pub mod smp;

pub use allreduce::HierarchicalAllreduce;
pub use allreduce_linear::HierarchicalLinear;
pub use alltoall::HierarchicalAlltoall;
pub use barrier::HierarchicalBarrier;
pub use core::HierarchicalCore;
pub use forest::{Forest, ForestPosition};
pub use scan::HierarchicalScan;
pub use smp::{Hosts, Smp};
