//! PageRank: the stationary distribution of a random walk that follows arcs, with random restarts.
//! [Page, Brin, Motwani, Winograd 1999; active messages paper, section 4.5]
//!
//! - [`pull`]: each vertex sums the contributions of its in-neighbors, which are replicated or ghosts.
//! - [`push`]: each arc is a message with the contribution of its source; messages to one vertex can be combined.
//!
//! Both are Jacobi iterations, so the scores and the number of iterations depend on the number of ranks by rounding
//! only. Dangling vertices, those without out-edges, contribute to all vertices equally.

mod jacobi;
mod options;
pub mod pull;
pub mod push;

use treepie_comm::Sum;

use crate::{EdgeWeight, Error, Graph, Result};

use pull::PullPageRank;
use push::PushPageRank;

pub use jacobi::PageRankResult;
pub use options::{PageRankMethod, PageRankOptions};

impl<W: EdgeWeight> Graph<W> {
    /// The PageRank scores of all vertices. All ranks call it.
    pub fn pagerank(&self) -> Result<PageRankResult<'_, W>> {
        self.pagerank_with(&PageRankOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// [`Error::Input`] if the scores are to be pulled in a graph without in-edges.
    pub fn pagerank_with(&self, options: &PageRankOptions) -> Result<PageRankResult<'_, W>> {
        match options.method.unwrap_or_else(|| fastest_method(self)) {
            PageRankMethod::Pull => PullPageRank::new(self)?.run(options),
            PageRankMethod::Push => PushPageRank::new(self, &options.config)?.run(options),
        }
    }
}

/// Pulling if the graph has in-edges, else pushing.
fn fastest_method<W: EdgeWeight>(graph: &Graph<W>) -> PageRankMethod {
    match graph.require_in_edges_or_delegates("") {
        Ok(_) => PageRankMethod::Pull,
        Err(_) => PageRankMethod::Push,
    }
}

impl<W: EdgeWeight> PageRankResult<'_, W> {
    /// Verifies the scores: one more iteration changes them by no more than a bound. All ranks call it, and get the
    /// same error.
    ///
    /// After convergence, one more iteration changes scores by less than the damping times the tolerance; after `k`
    /// iterations, by at most twice the `k`th power of the damping.
    pub fn verify(&self) -> Result<()> {
        let (graph, scores, options) = (self.scores.graph(), self.scores.local(), &self.options);
        if graph.num_vertices() == 0 {
            return Ok(());
        }
        let is_positive = scores.iter().all(|score| score.is_finite() && *score > 0.0);
        let sum = if is_positive { scores.iter().sum::<f64>() } else { f64::NAN };
        let sum = graph.comm().allreduce_one(sum, Sum)?;
        // Each addition of a score is rounded.
        let rounding = f64::EPSILON * graph.num_vertices() as f64;
        if sum.is_nan() || (sum - 1.0).abs() > 1e-12 + rounding {
            return Err(Error::Verification(format!("the scores of all vertices sum to {sum}, not 1")));
        }
        let mut next = scores.to_vec();
        // Where it can, by pulling, even if the scores were pushed.
        let residual = match fastest_method(graph) {
            PageRankMethod::Pull => PullPageRank::new(graph)?.step(&mut next, options.damping)?,
            PageRankMethod::Push => PushPageRank::new(graph, &options.config)?.step(&mut next, options.damping)?,
        };
        let residual = graph.comm().allreduce_one(residual, Sum)?;
        let contraction = 2.0 * options.damping.powi(self.iterations.min(10_000) as i32);
        let converged =
            if self.iterations < options.max_iterations { options.damping * options.tolerance } else { f64::INFINITY };
        // Contributions have only 32 bits.
        let bound = 1.01 * contraction.min(converged) + 1e-6;
        if residual > bound {
            return Err(Error::Verification(format!(
                "one more iteration changes scores by {residual}, more than {bound}"
            )));
        }
        Ok(())
    }
}
