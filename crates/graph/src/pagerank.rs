//! PageRank: the stationary distribution of a random walk that follows arcs, with random restarts.
//! [Page, Brin, Motwani, Winograd 1999; active messages paper, section 4.5]
//!
//! - [`pull`]: each vertex sums the contributions of its in-neighbours, which are replicated or ghosts.
//! - [`push`]: each arc is a message with the contribution of its source; messages to one vertex can be combined.
//!
//! Both are Jacobi iterations, so the scores and the number of iterations depend on the number of ranks by rounding
//! only. Dangling vertices, those without out-edges, contribute to all vertices equally.

pub mod pull;
pub mod push;

use treepie_comm::Sum;

use crate::{AmConfig, EdgeWeight, Error, Graph, PropertyMap, Result};

use pull::PullPageRank;
use push::PushPageRank;

/// An algorithm for PageRank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRankMethod {
    /// Each vertex sums the contributions of its in-neighbours. Needs in-edges.
    Pull,
    /// One active message per arc.
    Push,
}

impl PageRankMethod {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Pull, Self::Push];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// The damping factor, the stopping criteria and the algorithm.
#[derive(Clone, Debug)]
pub struct PageRankOptions {
    /// The probability that the walk follows an arc.
    pub damping: f64,
    /// Stop when the sum of all changes of scores is below this.
    pub tolerance: f64,
    /// The most iterations.
    pub max_iterations: u32,
    /// The algorithm; `None`: pull if the graph has in-edges, else push.
    pub method: Option<PageRankMethod>,
    /// How active messages are sent.
    pub config: AmConfig,
}

impl Default for PageRankOptions {
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-4, max_iterations: 100, method: None, config: AmConfig::default() }
    }
}

/// The scores, and the outcome of the iteration.
#[derive(Clone, Debug)]
pub struct PageRankResult<'g, W: EdgeWeight = ()> {
    /// Of each vertex; they sum to 1.
    pub scores: PropertyMap<'g, f64, W>,
    /// The number of iterations.
    pub iterations: u32,
    /// The sum of all changes of scores in the last iteration.
    pub residual: f64,
}

impl<W: EdgeWeight> Graph<W> {
    /// The PageRank scores of all vertices. All ranks call it.
    pub fn pagerank(&self) -> Result<PageRankResult<'_, W>> {
        self.pagerank_with(&PageRankOptions::default())
    }

    /// The same with options.
    pub fn pagerank_with(&self, options: &PageRankOptions) -> Result<PageRankResult<'_, W>> {
        let has_in_edges = self.require_in_edges_or_delegates("").is_ok();
        let fastest = if has_in_edges { PageRankMethod::Pull } else { PageRankMethod::Push };
        match options.method.unwrap_or(fastest) {
            PageRankMethod::Pull => PullPageRank::new(self)?.run(options),
            PageRankMethod::Push => PushPageRank::new(self, &options.config)?.run(options),
        }
    }
}

/// The contribution of all dangling vertices to each vertex; `local` is the sum of the scores of those on this rank.
/// All ranks call it.
fn dangling_mass<W: EdgeWeight>(graph: &Graph<W>, local: f64) -> Result<f64> {
    Ok(graph.comm().allreduce_one(local, Sum)? / graph.num_vertices() as f64)
}

impl<W: EdgeWeight> PageRankResult<'_, W> {
    /// Verifies the scores: one more iteration changes them by no more than a bound. All ranks call it, and get the
    /// same error.
    ///
    /// After convergence, one more iteration changes scores by less than the damping times the tolerance; after `k`
    /// iterations, by at most twice the `k`th power of the damping.
    pub fn verify(&self, options: &PageRankOptions) -> Result<()> {
        let (graph, scores) = (self.scores.graph(), self.scores.local());
        if graph.num_vertices() == 0 {
            return Ok(());
        }
        let is_positive = scores.iter().all(|score| score.is_finite() && *score > 0.0);
        let sum = if is_positive { scores.iter().sum::<f64>() } else { f64::NAN };
        let sum = graph.comm().allreduce_one(sum, Sum)?;
        if sum.is_nan() || (sum - 1.0).abs() > 1e-4 {
            return Err(Error::Verification(format!("the scores of all vertices sum to {sum}, not 1")));
        }
        let residual = PullPageRank::new(graph)?.step(&mut scores.to_vec(), options.damping)?;
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
