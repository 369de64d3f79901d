//! Measures what communication costs on a machine: a [`Profile`] by messages of the ranks themselves.
//!
//! [`measure`] finds the levels of the machine by the latencies between its ranks, measures the P-LogP parameters of a
//! link of each level, and what is specific to ranks on one machine. All ranks get the same profile.
//!
//! | file | contents |
//! |---|---|
//! | `probe`, `mirror` | the two processes of a P-LogP measurement, over messages |
//! | `latency`, `levels` | latencies between pairs of ranks; levels and groups by clustering |
//! | `pair`, `links` | both directions of a link; links that differ from it |
//! | `local`, `segment` | costs of a rank; of collective operations over the shared segment |
//! | `host_mpi`, `collective_sample` | the MPI library's own collective operations; a call to be timed |
//! | `profile` | the whole |
//! | `refine` | a default profile, scaled to this machine in a few milliseconds |
//!
//! [`Profile`]: treepie_model::Profile

#![forbid(unsafe_code)]

mod collective_sample;
mod config;
mod date;
mod error;
mod host_mpi;
mod latency;
mod levels;
mod links;
mod local;
mod mirror;
mod pair;
mod probe;
mod profile;
mod refine;
mod segment;

#[doc(hidden)]
pub use collective_sample::CollectiveSample;
pub use config::TuneConfig;
pub use error::{Error, Result};
pub use levels::{LevelGroups, find_levels};
pub use links::measure_links;
pub use mirror::serve;
pub use probe::MessageProbe;
pub use profile::measure;
pub use refine::refine;

/// The book's page, whose code blocks are compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/tuning.md")]
struct Book;
