//! The result of a search for shortest paths.

use treepie_comm::{Max, Sum};

use super::verify;
use crate::{AmConfig, PropertyMap, Result, Weight};

/// The result of a search for shortest paths.
#[derive(Clone, Debug)]
pub struct SsspResult<'g, W: Weight> {
    root: u64,
    /// The distance of each vertex from the root; [`Weight::INFINITY`] if it is unreachable.
    pub distances: PropertyMap<'g, W, W>,
    config: AmConfig,
}

/// The summary of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsspSummary {
    /// The number of reached vertices.
    pub reached: u64,
    /// The greatest distance.
    pub max_distance: f64,
    /// The sum of all distances.
    pub sum_distances: f64,
    /// The number of arcs of reached vertices, without self-loops.
    pub num_arcs: u64,
}

impl<'g, W: Weight> SsspResult<'g, W> {
    /// From the distances of a search from a root given by global id. The configuration is for
    /// [`verify`](Self::verify).
    pub fn new(root: u64, distances: PropertyMap<'g, W, W>, config: &AmConfig) -> Self {
        Self { root, distances, config: config.clone() }
    }

    /// The numbers of vertices and arcs, and the distances in sum. All ranks call it.
    pub fn summary(&self) -> Result<SsspSummary> {
        let (graph, distances) = (self.distances.graph(), self.distances.local());
        let reached = || distances.iter().enumerate().filter(|(_, distance)| **distance < W::INFINITY);
        let mut counts = [
            reached().count() as u64,
            reached().map(|(local_index, _)| graph.degree_without_self_loops(local_index)).sum(),
        ];
        graph.comm().allreduce_in_place(&mut counts, Sum)?;
        let max_distance = reached().map(|(_, distance)| distance.as_f64()).fold(0.0, f64::max);
        let max_distance = graph.comm().allreduce_one(max_distance, Max)?;
        let sum_distances: f64 = reached().map(|(_, distance)| distance.as_f64()).sum();
        let sum_distances = graph.comm().allreduce_one(sum_distances, Sum)?;
        Ok(SsspSummary { reached: counts[0], max_distance, sum_distances, num_arcs: counts[1] })
    }

    /// Verifies the distances without another search. All ranks call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        verify::verify(self.distances.graph(), self.root, self.distances.local(), &self.config)
    }
}
