//! What communication costs, by the models of the papers that Treepie is made of.
//!
//! - [`loggp`]: LogGP, and what sparse exchanges cost in it;
//! - [`plogp`]: P-LogP, its measured tables, pipelines along trees, and the search for the best tree and segment;
//! - [`congestion`]: start-ups and bytes over links, of any schedule on any network, counted from the schedule;
//! - [`closed`]: the same as formulas of an algorithm's id, for a choice at run time;
//! - [`randomaccess`] and [`split`]: the models of two applications;
//! - [`machines`]: the papers' machines by name.
//!
//! Times are microseconds and sizes are bytes, as in the papers.
//!
//! ```
//! use treepie_model::{closed, machines::Machine};
//! use treepie_schedule::Operation;
//! use treepie_topology::Network;
//!
//! let prices = "bgp".parse::<Machine>()?.prices();
//! let torus: Network = "torus:32x32x32".parse().unwrap();
//! let time = |id| closed::time(id, Operation::Allgather, &torus, 16384.0, &prices).unwrap();
//! assert!(time("allgather/bucket_k:moved") < time("allgather/bucket"));
//! assert!(time("allgather/bucket") < time("allgather/distance_doubling"));
//! # Ok::<(), treepie_model::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod closed;
pub mod congestion;
mod error;
pub mod loggp;
pub mod machines;
pub mod plogp;
pub mod randomaccess;
pub mod split;

pub use congestion::{Prices, Terms};
pub use error::{Error, Result};
pub use loggp::LogGP;
pub use machines::Machine;
pub use plogp::PLogP;

/// The page of the book, whose code is compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct Book;
