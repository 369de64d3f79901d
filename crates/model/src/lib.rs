//! Cost models of communication from the papers that Treepie implements.
//!
//! - [`loggp`]: LogGP, broadcasts and sparse exchanges in it;
//! - [`plogp`]: P-LogP: measured curves, pipelines along trees, and the search for the best tree and segment size;
//! - [`congestion`]: start-ups and bytes over links of any schedule on any network, counted from the schedule;
//! - [`closed_form`]: the same as formulas by algorithm id, for selection at run time;
//! - [`profile`]: what a machine's communication costs, as choices use it;
//! - [`predict`] and [`walk`]: the time of a schedule with a profile;
//! - [`randomaccess`] and [`split`]: models of two applications;
//! - [`machines`]: the papers' machines by name.
//!
//! Times are microseconds and sizes are bytes, as in the papers.
//!
//! ```
//! use treepie_model::{closed_form, machines::PaperMachine};
//! use treepie_schedule::Operation;
//! use treepie_topology::Network;
//!
//! let params = "bgp".parse::<PaperMachine>()?.cost_params();
//! let torus: Network = "torus:32x32x32".parse().unwrap();
//! let time = |id| closed_form::time(id, Operation::Allgather, &torus, 16384.0, &params).unwrap();
//! assert!(time("allgather/bucket_k:moved") < time("allgather/bucket"));
//! assert!(time("allgather/bucket") < time("allgather/distance_doubling"));
//! # Ok::<(), treepie_model::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod closed_form;
pub mod congestion;
mod error;
pub mod loggp;
pub mod machines;
pub mod plogp;
pub mod predict;
pub mod profile;
pub mod randomaccess;
pub mod split;
pub mod walk;

pub use congestion::{CostParams, CostTerms};
pub use error::{Error, Result};
pub use loggp::LogGP;
pub use machines::PaperMachine;
pub use plogp::PLogP;
pub use profile::Profile;

/// The book's page, whose code blocks are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/models.md")]
struct Book;
