//! Breadth-first search (BFS): the level of each vertex, and its parent in a BFS tree.
//!
//! - `active_messages`: level-synchronous, each arc of the frontier an active message.   [active messages paper,
//!   algorithm 2]
//! - `direction_optimizing`: top-down steps, and bottom-up steps while the frontier is large.   [Beamer, Asanović,
//!   Patterson: Direction-optimizing breadth-first search, SC 2012]
//! - `sparse_exchange`: level-synchronous, one sparse exchange per level.   [NBX paper, algorithm 3]

pub(crate) mod active_messages;
pub(crate) mod direction_optimizing;
mod label;
mod result;
mod sparse_exchange;
mod verify;

use crate::vertex_id::VertexId;
use crate::{AmConfig, AmTraffic, EdgeWeight, Graph, Result};

use active_messages::AmBfs;
use direction_optimizing::DirectionOptimizingBfs;
use sparse_exchange::SparseExchangeBfs;

pub use label::{Label, UNREACHED};
pub use result::{BfsResult, BfsSummary};

/// An algorithm for BFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfsMethod {
    /// Top-down or bottom-up steps. Needs in-edges, and no hubs.
    DirectionOptimizing,
    /// One active message per arc of the frontier.
    ActiveMessages,
    /// One sparse exchange per level. Needs a graph without hubs.
    SparseExchange,
}

impl BfsMethod {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DirectionOptimizing, Self::ActiveMessages, Self::SparseExchange];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::DirectionOptimizing => "direction",
            Self::ActiveMessages => "messages",
            Self::SparseExchange => "exchange",
        }
    }
}

/// Options of BFS.
#[derive(Clone, Debug, Default)]
pub struct BfsOptions {
    /// The algorithm; `None`: direction-optimizing if the graph has what that needs, else by active messages.
    pub method: Option<BfsMethod>,
    /// The protocol of sparse exchanges, such as `exchange/nbx`; `None`: that of the graph's communicator.
    pub protocol: Option<String>,
    /// How active messages are sent.
    pub config: AmConfig,
}

/// A search by any method, reusable for any number of roots.
pub struct BfsSearch<'g, W: EdgeWeight, I: VertexId>(Method<'g, W, I>);

enum Method<'g, W: EdgeWeight, I: VertexId> {
    DirectionOptimizing(DirectionOptimizingBfs<'g, W, I>),
    ActiveMessages(AmBfs<'g, W, I>),
    SparseExchange(SparseExchangeBfs<'g, W, I>),
}

impl<'g, W: EdgeWeight, I: VertexId> BfsSearch<'g, W, I> {
    /// Prepares a search. All ranks call it.
    pub fn new(graph: &'g Graph<W>, options: &BfsOptions) -> Result<Self> {
        let has_in_edges = graph.in_edges().is_some() && graph.hubs().is_empty();
        let fastest = if has_in_edges { BfsMethod::DirectionOptimizing } else { BfsMethod::ActiveMessages };
        Ok(Self(match options.method.unwrap_or(fastest) {
            BfsMethod::DirectionOptimizing => {
                Method::DirectionOptimizing(DirectionOptimizingBfs::new(graph, &options.config)?)
            }
            BfsMethod::ActiveMessages => Method::ActiveMessages(AmBfs::new(graph, &options.config)?),
            BfsMethod::SparseExchange => {
                Method::SparseExchange(SparseExchangeBfs::new(graph, options.protocol.as_deref())?)
            }
        }))
    }

    /// Searches from a root given by global id. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        match &mut self.0 {
            Method::DirectionOptimizing(search) => search.run(root),
            Method::ActiveMessages(search) => search.run(root),
            Method::SparseExchange(search) => search.run(root),
        }
    }

    /// The message statistics of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        match &self.0 {
            Method::DirectionOptimizing(search) => search.traffic(),
            Method::ActiveMessages(search) => search.traffic(),
            Method::SparseExchange(_) => AmTraffic::default(),
        }
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// Breadth-first search from a root given by external id. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if there is no such vertex.
    pub fn bfs(&self, root: u64) -> Result<BfsResult<'_, W>> {
        self.bfs_with(root, &BfsOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`bfs`](Self::bfs); [`Error::Input`](crate::Error::Input) if the graph lacks what the method needs:
    /// in-edges, or rows without split hubs.
    pub fn bfs_with(&self, root: u64, options: &BfsOptions) -> Result<BfsResult<'_, W>> {
        let root = self.find_vertex(root)?;
        // Messages are shorter with ids of 32 bits.
        if self.num_vertices() < u64::from(u32::MAX) {
            BfsResult::new(self, root, BfsSearch::<W, u32>::new(self, options)?.run(root)?, &options.config)
        } else {
            BfsResult::new(self, root, BfsSearch::<W, u64>::new(self, options)?.run(root)?, &options.config)
        }
    }
}
