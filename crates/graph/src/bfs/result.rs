//! The result of a search.

use treepie_base::memory::collected;
use treepie_comm::{Max, Sum};

use super::label::{Label, UNREACHED};
use super::verify;
use crate::csr::VALUES_PURPOSE;
use crate::external_ids::fetch_external_ids;
use crate::vertex_id::VertexId;
use crate::{AmConfig, EdgeWeight, Graph, PropertyMap, Result};

/// The result of a search.
#[derive(Clone, Debug)]
pub struct BfsResult<'g, W: EdgeWeight = ()> {
    root: u64,
    /// The number of arcs from the root to each vertex; [`UNREACHED`] if there is no path.
    pub levels: PropertyMap<'g, u32, W>,
    /// The global id of each vertex's parent in a BFS tree; the root is its own parent. Unspecified for unreached
    /// vertices.
    pub parents: PropertyMap<'g, u64, W>,
    config: AmConfig,
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

impl<'g, W: EdgeWeight> BfsResult<'g, W> {
    /// From the labels of local vertices, of a search from a root given by global id. The configuration is for
    /// [`verify`](Self::verify) and [`external_parents`](Self::external_parents).
    pub fn new<I: VertexId>(graph: &'g Graph<W>, root: u64, labels: &[Label<I>], config: &AmConfig) -> Result<Self> {
        let levels = collected(labels.iter().map(|label| label.level), VALUES_PURPOSE)?;
        let parents = collected(labels.iter().map(|label| label.parent.to_u64()), VALUES_PURPOSE)?;
        let (levels, parents) = (PropertyMap::new(graph, levels)?, PropertyMap::new(graph, parents)?);
        Ok(Self { root, levels, parents, config: config.clone() })
    }

    /// The external id of each vertex's parent; `u64::MAX` for unreached vertices. All ranks call it.
    pub fn external_parents(&self) -> Result<PropertyMap<'g, u64, W>> {
        let graph = self.parents.graph();
        let external_ids = collected(graph.local_vertices().map(|vertex| graph.external_id(vertex)), VALUES_PURPOSE)?;
        let labels = self.levels.local().iter().zip(self.parents.local());
        let parents = labels.map(|(level, parent)| (*level != UNREACHED).then_some(*parent));
        PropertyMap::new(graph, fetch_external_ids(graph, external_ids, parents, &self.config)?)
    }

    /// The number of vertices on each level. All ranks call it.
    pub fn level_sizes(&self) -> Result<Vec<u64>> {
        Ok(self.summary()?.level_sizes)
    }

    /// The numbers of vertices and arcs. All ranks call it.
    pub fn summary(&self) -> Result<BfsSummary> {
        let graph = self.levels.graph();
        let reached = || self.levels.local().iter().enumerate().filter(|(_, level)| **level != UNREACHED);
        let levels = reached().map(|(_, level)| u64::from(*level) + 1).max().unwrap_or(0);
        let levels = graph.comm().allreduce_one(levels, Max)?;
        let mut sizes = vec![0; levels as usize + 1];
        for (local_index, level) in reached() {
            sizes[*level as usize] += 1;
            sizes[levels as usize] += graph.degree_without_self_loops(local_index);
        }
        graph.comm().allreduce_in_place(&mut sizes, Sum)?;
        let num_arcs = sizes.pop().unwrap_or(0);
        Ok(BfsSummary { reached: sizes.iter().sum(), level_sizes: sizes, num_arcs })
    }

    /// Verifies levels and parents without another search. All ranks call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        verify::verify(self.levels.graph(), self.root, self.levels.local(), self.parents.local(), &self.config)
    }
}
