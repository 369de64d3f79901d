//! Networks: where the ranks are, which links a message takes, and paths that visit every place.
//!
//! A [`Network`] is a [`Kind`] of network with numbered *places*, and a map from ranks to places. Routes are computed
//! by arithmetic, nothing is stored per link. Link ids are dense, so that a counter can keep loads in an array:
//!
//! ```
//! use treepie_topology::{Network, Tie};
//!
//! let network: Network = "torus:8x8x8".parse()?;
//! let mut load = vec![0; network.links() as usize];
//! for rank in 0..network.ranks() {
//!     network.route(rank, rank ^ 256, Tie::Parity, |link| load[link as usize] += 1);
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
mod network;
mod text;
mod torus;
mod tree;

pub use clos::Clos;
pub use clusters::Clusters;
pub use error::{Error, Result};
pub use flat::Flat;
pub use network::{Kind, Network};
pub use torus::{Coordinates, MAX_DIMENSIONS, Tie, Torus};
