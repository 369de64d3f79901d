//! The Jacobi iteration of both algorithms, and its result.

use treepie_base::memory::filled;
use treepie_comm::Sum;

use super::options::PageRankOptions;
use crate::csr::VALUES_PURPOSE;
use crate::patterns::fixpoint;
use crate::{EdgeWeight, Graph, PropertyMap, Result};

/// The scores, and the outcome of the iteration.
#[derive(Clone, Debug)]
pub struct PageRankResult<'g, W: EdgeWeight = ()> {
    /// Of each vertex; they sum to 1, but for rounding: within 10^-12, and more for more than some thousand vertices.
    pub scores: PropertyMap<'g, f64, W>,
    /// The number of iterations.
    pub iterations: u32,
    /// The sum of all changes of scores in the last iteration.
    pub residual: f64,
    pub(super) options: PageRankOptions,
}

impl<W: EdgeWeight> PageRankResult<'_, W> {
    /// Whether scores changed by less than the tolerance, before the most iterations were reached.
    pub fn has_converged(&self) -> bool {
        self.residual <= self.options.tolerance || self.scores.graph().num_vertices() == 0
    }
}

/// Iterates until convergence. `step` is one iteration on the local scores, and returns the sum of their changes. All
/// ranks call it.
pub(super) fn iterate<'g, W: EdgeWeight>(
    graph: &'g Graph<W>,
    options: &PageRankOptions,
    mut step: impl FnMut(&mut [f64]) -> Result<f64>,
) -> Result<PageRankResult<'g, W>> {
    let mut scores = filled(1.0 / graph.num_vertices() as f64, graph.num_local(), VALUES_PURPOSE)?;
    let convergence =
        fixpoint::iterate(graph.comm(), options.tolerance, options.max_iterations, |_| step(&mut scores))?;
    Ok(PageRankResult {
        scores: PropertyMap::new(graph, scores)?,
        iterations: convergence.iterations,
        residual: convergence.residual,
        options: options.clone(),
    })
}

/// Each vertex's share of what the vertices of all ranks pass on along no arc, such as the scores of dangling vertices; `local` is
/// the sum of this rank. All ranks call it.
pub(super) fn share_of_all<W: EdgeWeight>(graph: &Graph<W>, local: f64) -> Result<f64> {
    Ok(graph.comm().allreduce_one(local, Sum)? / graph.num_vertices() as f64)
}
