//! Breadth-first search (BFS): the level of each vertex, and its parent in a BFS tree.
//!
//! - [`active_messages`]: level-synchronous, each arc of the frontier an active message.   [active messages paper,
//!   algorithm 2]
//! - [`direction_optimizing`]: top-down steps, and bottom-up steps while the frontier is large.   [Beamer, Asanović,
//!   Patterson: Direction-optimizing breadth-first search, SC 2012]
//! - [`sparse_exchange`]: level-synchronous, one sparse exchange per level.   [NBX paper, algorithm 3]

pub mod active_messages;
pub mod direction_optimizing;
pub mod sparse_exchange;
mod verify;

use treepie_comm::{Comm, Max, Sum};

use crate::csr::CsrEdge;
use crate::vertex_id::VertexId;
use crate::{Graph, Result};

pub use verify::verify;

/// The level of unreached vertices.
pub const UNREACHED: u32 = u32::MAX;

/// The result of BFS for a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<I> {
    /// The global id of its parent; the root is its own parent. Unspecified for unreached vertices.
    pub parent: I,
    /// The number of arcs from the root.
    pub level: u32,
}

impl<I: VertexId> Label<I> {
    /// The label of an unreached vertex.
    pub const NONE: Self = Self { parent: I::NONE, level: UNREACHED };
}

/// The summary of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfsSummary {
    /// The number of reached vertices.
    pub reached: u64,
    /// The number of vertices on each level.
    pub level_sizes: Vec<u64>,
    /// The number of their arcs without self-loops.
    pub num_arcs: u64,
}

/// Summarizes the labels of a search. All ranks call it.
pub fn summarize<A: CsrEdge, I: VertexId>(comm: &Comm, graph: &Graph<A>, labels: &[Label<I>]) -> Result<BfsSummary> {
    let reached = || labels.iter().enumerate().filter(|(_, label)| label.level != UNREACHED);
    let levels = reached().map(|(_, label)| u64::from(label.level) + 1).max().unwrap_or(0);
    let levels = comm.allreduce(&[levels], Max)?[0];
    let mut sizes = vec![0; levels as usize + 1];
    for (local_index, label) in reached() {
        sizes[label.level as usize] += 1;
        sizes[levels as usize] += graph.degree_without_self_loops(local_index);
    }
    comm.allreduce_in_place(&mut sizes, Sum)?;
    let num_arcs = sizes.pop().unwrap_or(0);
    Ok(BfsSummary { reached: sizes.iter().sum(), level_sizes: sizes, num_arcs })
}
