//! Distributed graphs: input, storage and algorithms.
//!
//! Edges come from an [`EdgeSource`]: files or a generator. [`Graph::build`] gives each rank the adjacency of its local
//! vertices as a [`Csr`], whose targets are indices into the rank's [`LocalView`] (local vertices and ghosts). Each
//! algorithm is one module and a method of [`Graph`]: `graph.bfs(root)`, or `graph.bfs_with(root, &options)`. Its
//! result has a value of each vertex as a [`PropertyMap`].
#![forbid(unsafe_code)]

mod agree;
mod am_config;
pub mod betweenness;
pub mod bfs;
mod bitmap;
mod build;
mod component_labels;
pub mod components;
pub mod cores;
mod csr;
pub mod degrees;
mod directory;
mod edge;
mod edge_batcher;
mod error;
mod external_ids;
pub mod generate;
mod graph;
mod graph_file;
mod hash;
mod hash_permutation;
mod hubs;
mod id_table;
pub mod independent_set;
mod local_view;
mod neighbors;
pub mod pagerank;
mod partition;
pub mod patterns;
mod property_map;
pub mod reach;
mod read;
pub mod scc;
mod simple;
mod sorted_rows;
pub mod sssp;
pub mod triangles;
mod vertex_id;
mod vertex_layout;
mod weight;
mod write;

pub use agree::agree;
pub use am_config::{AmConfig, AmTraffic};
pub use bitmap::Bitmap;
pub use build::BuildOptions;
pub use csr::{Csr, CsrEdge};
pub use edge::{Edge, EdgeSource, Orientation, WeightKind, block_range};
pub use error::{Error, Result};
pub use generate::Generator;
pub use graph::{Graph, GraphMemory};
pub use hubs::{Hub, Hubs};
pub use local_view::{GhostPolicy, LocalView};
pub use neighbors::Neighbor;
pub use property_map::{PropertyMap, PropertyReads, PropertyUpdates};
pub use read::{EdgeColumns, EdgeFiles, InputFormat};
pub use vertex_id::VertexId;
pub use vertex_layout::{Distribution, VertexLayout};
pub use weight::{EdgeWeight, Weight};
pub use write::{Column, OutputFormat, Values, write};
