//! PageRank: how often a walk that follows arcs at random, and now and then begins anew anywhere, comes by each vertex.
//! [Page, Brin, Motwani, Winograd 1999; active messages paper, section 4.5]
//!
//! - [`pull`]: each vertex adds up what its predecessors have to give; all ranks see that of all.
//! - [`push`]: each arc is a message with what its beginning has to give; messages to one vertex can be added up on their way.
//!
//! Both are Jacobi iterations, so that what comes out, and after how many of them, depends on the number of ranks by rounding only. A vertex
//! without arcs gives to all vertices alike.

pub mod pull;
pub mod push;

use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::rows::Arc;
use crate::{Error, Graph, Result};

/// When it is enough.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// With this probability an arc is followed.
    pub damping: f64,
    /// The scores of all vertices together change by less than this.
    pub tolerance: f64,
    /// Or after so many iterations.
    pub iterations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-4, iterations: 100 }
    }
}

/// Scores of own vertices, and how many iterations it took.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Of each own vertex; those of all ranks together are 1.
    pub scores: Vec<f64>,
    /// How many iterations it took.
    pub iterations: u32,
    /// By how much the last one changed scores.
    pub change: f64,
}

/// What vertices without arcs give to each vertex, if those of this rank have `kept` so much. All ranks call it.
fn dangling<A: Arc>(comm: &Comm, graph: &Graph<A>, kept: f64) -> Result<f64> {
    Ok(comm.all_reduce(&[kept], Sum)?[0] / graph.vertices() as f64)
}

/// Checks scores: one more step changes them by no more than it should. All ranks call it, and get the same error.
///
/// Where iterations ended because scores hardly changed, one more changes them by less than that; and after `k` of them by no more
/// than twice the damping to the power of `k`.
pub fn verify<A: Arc>(comm: &Comm, graph: &Graph<A>, ranking: &Ranking, limits: &Limits) -> Result<()> {
    let (count, own) = (ranking.scores.len(), graph.own());
    let fits =
        if count == own { Ok(()) } else { Err(Error::Wrong(format!("there are {count} scores for {own} vertices"))) };
    agree(comm, fits)?;
    if graph.vertices() == 0 {
        return Ok(());
    }
    let own = ranking.scores.iter().all(|score| score.is_finite() && *score > 0.0);
    let sum = comm.all_reduce(&[if own { ranking.scores.iter().sum::<f64>() } else { f64::NAN }], Sum)?[0];
    if sum.is_nan() || (sum - 1.0).abs() > 1e-4 {
        return Err(Error::Wrong(format!("the scores of all vertices are {sum} together, not 1")));
    }
    let mut once = pull::Pulling::new(comm, graph)?;
    let change = once.step(&mut ranking.scores.clone(), limits.damping)?;
    let change = comm.all_reduce(&[change], Sum)?[0];
    let after_all = 2.0 * limits.damping.powi(ranking.iterations.min(10_000) as i32);
    let ended = if ranking.iterations < limits.iterations { limits.damping * limits.tolerance } else { f64::INFINITY };
    // Scores are given away as numbers of 32 bits.
    let most = 1.01 * after_all.min(ended) + 1e-6;
    if change > most {
        return Err(Error::Wrong(format!("one more step changes scores by {change}, where {most} would be the most")));
    }
    Ok(())
}
