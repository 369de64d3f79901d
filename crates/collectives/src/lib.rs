//! Collective algorithms, each written once as a [`Schedule`](treepie_schedule::Schedule), and the table of them.
//!
//! - [`cores`]: allgather cores, and in [`from_core`] the allgather, reduce-scatter and allreduce that each of them makes;
//! - [`trees`]: broadcast, scatter, gather and reduction along trees of all shapes;
//! - [`rooted`]: operations made of a tree and a core or another tree;
//! - [`exchange`], [`alltoall`], [`scan`], [`barrier`]: the others;
//! - [`registry`]: all of them by id, with what they require and cost.

#![forbid(unsafe_code)]

pub mod alltoall;
pub mod barrier;
pub mod cores;
pub mod exchange;
pub mod from_core;
pub mod registry;
pub mod rooted;
pub mod scan;
pub mod trees;
