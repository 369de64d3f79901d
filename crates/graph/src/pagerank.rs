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

use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::csr::CsrEdge;
use crate::{Error, Graph, Result};

/// The damping factor and the stopping criteria.
#[derive(Clone, Copy, Debug)]
pub struct PageRankOptions {
    /// The probability that the walk follows an arc.
    pub damping: f64,
    /// Stop when the sum of all changes of scores is below this.
    pub tolerance: f64,
    /// The most iterations.
    pub max_iterations: u32,
}

impl Default for PageRankOptions {
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-4, max_iterations: 100 }
    }
}

/// The scores of local vertices, and the outcome of the iteration.
#[derive(Clone, Debug)]
pub struct PageRankResult {
    /// Of each local vertex; those of all ranks sum to 1.
    pub scores: Vec<f64>,
    /// The number of iterations.
    pub iterations: u32,
    /// The sum of all changes of scores in the last iteration.
    pub residual: f64,
}

/// The contribution of all dangling vertices to each vertex; `local` is the sum of the scores of those on this rank.
/// All ranks call it.
fn dangling_mass<A: CsrEdge>(comm: &Comm, graph: &Graph<A>, local: f64) -> Result<f64> {
    Ok(comm.allreduce(&[local], Sum)?[0] / graph.num_vertices() as f64)
}

/// Verifies scores: one more iteration changes them by no more than a bound. All ranks call it, and get the same error.
///
/// After convergence, one more iteration changes scores by less than the damping times the tolerance; after `k`
/// iterations, by at most twice the `k`th power of the damping.
pub fn verify<A: CsrEdge>(
    comm: &Comm,
    graph: &Graph<A>,
    result: &PageRankResult,
    options: &PageRankOptions,
) -> Result<()> {
    let (count, num_local) = (result.scores.len(), graph.num_local());
    let count_matches = if count == num_local {
        Ok(())
    } else {
        Err(Error::Verification(format!("there are {count} scores for {num_local} vertices")))
    };
    agree(comm, count_matches)?;
    if graph.num_vertices() == 0 {
        return Ok(());
    }
    let is_positive = result.scores.iter().all(|score| score.is_finite() && *score > 0.0);
    let sum = comm.allreduce(&[if is_positive { result.scores.iter().sum::<f64>() } else { f64::NAN }], Sum)?[0];
    if sum.is_nan() || (sum - 1.0).abs() > 1e-4 {
        return Err(Error::Verification(format!("the scores of all vertices sum to {sum}, not 1")));
    }
    let mut pull = pull::PullPageRank::new(comm, graph)?;
    let residual = pull.step(&mut result.scores.clone(), options.damping)?;
    let residual = comm.allreduce(&[residual], Sum)?[0];
    let contraction = 2.0 * options.damping.powi(result.iterations.min(10_000) as i32);
    let converged =
        if result.iterations < options.max_iterations { options.damping * options.tolerance } else { f64::INFINITY };
    // Contributions have only 32 bits.
    let bound = 1.01 * contraction.min(converged) + 1e-6;
    if residual > bound {
        return Err(Error::Verification(format!("one more iteration changes scores by {residual}, more than {bound}")));
    }
    Ok(())
}
