//! Distributed graphs: where they come from, how they lie in memory, and algorithms on them.
//!
//! Edges come from a source ([`Edges`]): files, or a generator. [`Graph::build`] gives each rank the rows of its own vertices
//! ([`Rows`]), which lead to places of what the rank sees ([`View`]). Algorithms are one file each.
#![forbid(unsafe_code)]

mod agree;
pub mod betweenness;
pub mod bfs;
mod bits;
mod build;
pub mod components;
mod directory;
mod edge;
mod error;
pub mod generate;
mod graph;
mod hubs;
mod id;
mod layout;
mod messages;
mod mix;
mod outlet;
pub mod pagerank;
mod partition;
mod parts;
pub mod patterns;
pub mod property;
pub mod reach;
mod read;
mod rows;
mod saved;
mod scatter;
pub mod scc;
pub mod sssp;
mod top;
mod view;
mod write;

pub use agree::agree;
pub use bits::Bits;
pub use build::Shape;
pub use edge::{Edge, Edges, Orientation, Weights, share};
pub use error::{Error, Result};
pub use generate::Generator;
pub use graph::{Graph, Memory};
pub use hubs::{Hub, Hubs};
pub use id::Id;
pub use layout::{Distribution, Layout};
pub use messages::{Messages, Traffic};
pub use read::{Files, Format};
pub use rows::{Arc, Rows, Weight, Weighted};
pub use top::top;
pub use view::{Seeing, View};
pub use write::{Column, OutputFormat, Values, write};
