//! Verification of betweenness scores by a second account of the same shortest paths, without the backward traversal.
//!
//! The dependencies of all vertices sum to, for each target, the mean number of inner vertices of its shortest paths.
//! To check also that scores are at the right vertices, each vertex takes a toll from one to two, a hash of its global
//! id. All vertices take the sum of score times toll. Each target pays the mean toll of its shortest paths, which a
//! forward traversal sums up.

use treepie_comm::Sum;

use super::dag_traversal::{DagTraversal, Direction};
use super::{PathMetric, count_shortest_paths, pair_multiplicity};
use crate::hash::hash_words;
use crate::{AmConfig, Error, PropertyMap, Result};

/// The allowed relative difference of both sums.
const TOLERANCE: f64 = 1e-9;

/// Verifies the scores from these sources, given by global ids, and the distances too. All ranks call it, and get the
/// same error.
pub fn verify<'g, M: PathMetric<'g>>(
    metric: &mut M,
    sources: impl IntoIterator<Item = u64>,
    scores: &PropertyMap<'g, f64, M::Weight>,
    config: &AmConfig,
) -> Result<()> {
    let graph = metric.graph();
    let invalid = scores.iter().find(|(_, score)| !(score.is_finite() && **score >= 0.0));
    graph.refuse(invalid.map(|(external_id, score)| format!("vertex {external_id} has the score {score}")))?;
    let first = graph.first_global_id();
    let toll = |local_index: usize| 1.0 + hash_words([first + local_index as u64]) as f64 / 2f64.powi(64);
    let mut traversal = DagTraversal::<M>::new(graph, config)?;
    let mut paid = 0.0;
    for source in sources {
        graph.check_root(source)?;
        let distances = metric.shortest_paths_verified(source, config)?;
        traversal.set_distances(&distances)?;
        let paths = count_shortest_paths(graph, &mut traversal, source)?;
        let mut initial: Vec<f64> =
            paths.iter().enumerate().map(|(local_index, paths)| paths * toll(local_index)).collect();
        if let Some(local_index) = graph.local_index(source) {
            initial[local_index] = 0.0;
        }
        let received = traversal.run(Direction::Forward, initial)?;
        paid += received
            .iter()
            .zip(&paths)
            .filter(|(_, paths)| **paths > 0.0)
            .map(|(received, paths)| received / paths)
            .sum::<f64>();
    }
    let taken: f64 = scores.local().iter().enumerate().map(|(local_index, score)| score * toll(local_index)).sum();
    let sums = graph.comm().allreduce(&[paid, taken * pair_multiplicity(graph)], Sum)?;
    let (paid, taken) = (sums[0], sums[1]);
    if (paid - taken).abs() <= TOLERANCE * paid.max(taken) {
        return Ok(());
    }
    Err(Error::Verification(format!("all shortest paths pay {paid}, but by their scores vertices take {taken}")))
}
