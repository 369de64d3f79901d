//! Network topologies: the placement of ranks on nodes, routes over links, and Hamiltonian paths.
//!
//! A [`Network`] is a [`NetworkKind`] with numbered *nodes*, and a placement of ranks on nodes. Routes are computed
//! arithmetically; nothing is stored per link. Link ids are dense, so an array can hold the load of every link:
//!
//! ```
//! use treepie_topology::{Network, TieBreak};
//!
//! let network: Network = "torus:8x8x8".parse()?;
//! let mut load = vec![0; network.links() as usize];
//! for rank in 0..network.ranks() {
//!     network.route(rank, rank ^ 256, TieBreak::Parity, |link| load[link as usize] += 1);
//! }
//! assert_eq!(load.iter().max(), Some(&2));
//! # Ok::<(), treepie_topology::Error>(())
//! ```

#![forbid(unsafe_code)]

mod clos;
mod clusters;
mod error;
mod file;
mod flat;
mod link_classes;
mod nested_sizes;
mod network;
mod occupied;
mod subnetwork;
mod text;
#[doc(hidden)]
pub mod toml_file;
mod torus;
mod two_level;

pub use clos::Clos;
pub use clusters::{Clusters, GroupLink, MAX_CLUSTER_LEVELS};
pub use error::{Error, Result};
pub use flat::Flat;
pub use link_classes::{InvalidLinkClasses, LinkClasses};
pub use network::{Network, NetworkKind};
pub use torus::{Coordinates, MAX_DIMENSIONS, TieBreak, Torus};
