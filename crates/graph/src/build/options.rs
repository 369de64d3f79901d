//! How a graph is built.

use std::path::PathBuf;

use crate::{Distribution, GhostPolicy, Orientation};

/// How a graph is built from edges.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Each edge becomes two arcs, one in each direction, even if its source is directed.
    pub symmetrize: bool,
    /// Each edge becomes one arc, even if its source is undirected.
    pub directed: bool,
    /// Parallel arcs are removed; the lightest remains.
    pub dedupe: bool,
    /// Self-loops are removed.
    pub drop_self_loops: bool,
    /// How vertices are distributed over ranks.
    pub distribution: Distribution,
    /// A partition file instead: line v has the part, counted from 0, of vertex v. Rank p modulo the number of ranks
    /// owns part p.
    pub partition_file: Option<PathBuf>,
    /// Which remote vertices each rank holds values of.
    pub ghost_policy: GhostPolicy,
    /// Directed graphs also store in-edges, which some algorithms need.
    pub store_in_edges: bool,
    /// The degree from which the out-edges of a vertex are distributed over ranks ([`Hubs`](crate::Hubs)); in-edges are
    /// not.
    pub hub_degree: Option<u64>,
}

impl Default for BuildOptions {
    /// All edges as they are, in blocks, with in-edges.
    fn default() -> Self {
        Self {
            symmetrize: false,
            directed: false,
            dedupe: false,
            drop_self_loops: false,
            distribution: Distribution::default(),
            partition_file: None,
            ghost_policy: GhostPolicy::default(),
            store_in_edges: true,
            hub_degree: None,
        }
    }
}

impl BuildOptions {
    /// Whether each edge of a source becomes two arcs, and whether the graph is then symmetric.
    pub(super) fn directions(&self, orientation: Orientation) -> (bool, bool) {
        match orientation {
            Orientation::Directed => (self.symmetrize, self.symmetrize),
            Orientation::Undirected => (!self.directed, !self.directed),
            // `dedupe` and `drop_self_loops` remove the same arcs in both directions.
            Orientation::Symmetric => (false, true),
        }
    }

    /// Whether the graph is symmetric, if its edges have this orientation.
    pub fn makes_symmetric(&self, edges: Orientation) -> bool {
        self.directions(edges).1
    }
}
