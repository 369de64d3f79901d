//! Breadth-first search: how far each vertex is from a root, and over which neighbour the way goes.
//!
//! - [`messages`]: level by level, each edge of the front an active message.   [active messages paper, algorithm 2]
//! - [`direction`]: the same, but when the front is large, vertices that are not reached look for a neighbour in it.
//!   [Beamer, Asanovic, Patterson: Direction-optimizing breadth-first search, SC 2012]
//! - [`exchange`]: level by level, remote vertices of the next front in one sparse exchange.   [NBX paper, algorithm 3]

pub mod direction;
pub mod exchange;
pub mod messages;
mod verify;

use treepie_comm::{Comm, Max, Sum};

use crate::id::Id;
use crate::rows::Arc;
use crate::{Graph, Result};

pub use verify::verify;

/// The level of vertices that are not reached.
pub const UNREACHED: u32 = u32::MAX;

/// What is known of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<I> {
    /// The number of the vertex that it was reached from: itself for the root. Of vertices that are not reached it says nothing.
    pub parent: I,
    /// How many arcs away it is.
    pub level: u32,
}

impl<I: Id> Label<I> {
    /// Of a vertex that is not reached.
    pub const NONE: Self = Self { parent: I::NONE, level: UNREACHED };
}

/// What a search found, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many vertices were reached.
    pub reached: u64,
    /// How many on each level.
    pub level_sizes: Vec<u64>,
    /// How many arcs lead from them to another vertex.
    pub arcs: u64,
}

/// Counts what a search has found. All ranks call it.
pub fn count<A: Arc, I: Id>(comm: &Comm, graph: &Graph<A>, labels: &[Label<I>]) -> Result<Found> {
    let reached = || labels.iter().enumerate().filter(|(_, label)| label.level != UNREACHED);
    let levels = reached().map(|(_, label)| u64::from(label.level) + 1).max().unwrap_or(0);
    let levels = comm.all_reduce(&[levels], Max)?[0];
    let mut sizes = vec![0; levels as usize + 1];
    for (place, label) in reached() {
        sizes[label.level as usize] += 1;
        sizes[levels as usize] += graph.degree_without_loops(place);
    }
    comm.all_reduce_in_place(&mut sizes, Sum)?;
    let arcs = sizes.pop().unwrap_or(0);
    Ok(Found { reached: sizes.iter().sum(), level_sizes: sizes, arcs })
}
