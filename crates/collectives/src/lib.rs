//! Collective algorithms, each written once as a [`Schedule`](treepie_schedule::Schedule), and their registry.
//!
//! - [`allgather_cores`]: allgather cores, and [`from_allgather`]: allgather, reduce-scatter and allreduce from each
//!   core;
//! - [`trees`]: broadcast, scatter, gather and reduction along trees of all shapes;
//! - [`rooted`]: operations composed of a tree and a core or another tree;
//! - [`hierarchy`]: operations over clusters on any number of levels;
//! - [`exchange`], [`alltoall`], [`scan`], [`barrier`]: the others;
//! - [`registry`]: all algorithms by id, with their requirements and costs.

#![forbid(unsafe_code)]

pub mod allgather_cores;
pub mod alltoall;
pub mod barrier;
pub mod exchange;
mod fold;
pub mod from_allgather;
pub mod hierarchy;
pub mod registry;
pub mod rooted;
pub mod scan;
pub mod trees;
