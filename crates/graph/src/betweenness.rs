//! Betweenness centrality: the sum over pairs of other vertices of the fraction of their shortest paths that pass
//! through a vertex.
//!
//! For each source, the arcs on its shortest paths (tight arcs) form a DAG. In topological order, shortest paths are
//! counted: the count of a vertex is the sum of those of its predecessors. In reverse order, dependencies are
//! accumulated:
//!
//! ```text
//! dependency(v) = sum over tight arcs from v to w of paths(v) / paths(w) * (1 + dependency(w))
//! ```
//!
//! [Brandes: A faster algorithm for betweenness centrality, J. Math. Sociology 25 (2001)] stores predecessor lists.
//! Here the graph has in-edges, and the distances of its endpoints tell whether an arc is tight. Each direction is one
//! epoch, in which a vertex sends when it has received from all its predecessors: a shortest-path search and two
//! traversals in topological order per source.   [Edmonds, Hoefler, Lumsdaine: A space-efficient parallel algorithm
//! for computing betweenness centrality in distributed memory, HiPC 2010]
//!
//! Conventions:
//! - Parallel tight arcs are distinct shortest paths. Self-loops are on none. The endpoints of a path are not between.
//! - Paths are equally long if their lengths, summed from the source, are equal to the last bit.
//! - In a symmetric graph each path is found in both directions, so scores are halved.
//! - Floating-point sums depend on the order of messages: the last digits of scores may differ from run to run.

mod dag_traversal;
mod metric;
mod verify;

use std::borrow::Borrow;

use treepie_base::memory::{collected, zeroed};

use crate::agree::agree;
use crate::csr::VALUES_PURPOSE;
use crate::sssp::SsspOptions;
use crate::{AmConfig, AmTraffic, EdgeWeight, Error, Graph, PropertyMap, Result, Weight};

use dag_traversal::{DagTraversal, Direction};

pub use metric::{HopMetric, PathMetric, WeightedMetric};
pub use verify::verify;

/// Options of betweenness by hops; [`SsspOptions`] are those by weights.
#[derive(Clone, Debug, Default)]
pub struct BetweennessOptions {
    /// How active messages are sent.
    pub config: AmConfig,
}

impl<W: EdgeWeight> Graph<W> {
    /// Betweenness scores from the shortest paths, in hops, from these sources, given by external ids. All ranks call
    /// it with the same sources.
    ///
    /// # Errors
    /// [`Error::Input`] if a source does not exist, if the graph has no in-edges, or split hubs, or if there are too
    /// many shortest paths to count.
    pub fn betweenness(&self, sources: impl IntoIterator<Item = impl Borrow<u64>>) -> Result<PropertyMap<'_, f64, W>> {
        self.betweenness_with(sources, &BetweennessOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`betweenness`](Self::betweenness).
    pub fn betweenness_with(
        &self,
        sources: impl IntoIterator<Item = impl Borrow<u64>>,
        options: &BetweennessOptions,
    ) -> Result<PropertyMap<'_, f64, W>> {
        Betweenness::new(HopMetric::new(self, &options.config)?, &options.config)?.run_all(sources)
    }
}

impl<W: Weight> Graph<W> {
    /// Betweenness scores from the shortest paths, by weights, from these sources, given by external ids. All ranks
    /// call it with the same sources.
    ///
    /// # Errors
    /// Those of [`betweenness`](Self::betweenness); [`Error::Input`] if a weight is zero, if a symmetric graph has arcs
    /// that weigh less in one direction, or if a path is too long for the type of weights.
    pub fn weighted_betweenness(
        &self,
        sources: impl IntoIterator<Item = impl Borrow<u64>>,
    ) -> Result<PropertyMap<'_, f64, W>> {
        self.weighted_betweenness_with(sources, &SsspOptions::default())
    }

    /// The same with options of the searches for shortest paths.
    ///
    /// # Errors
    /// Those of [`weighted_betweenness`](Self::weighted_betweenness).
    pub fn weighted_betweenness_with(
        &self,
        sources: impl IntoIterator<Item = impl Borrow<u64>>,
        options: &SsspOptions,
    ) -> Result<PropertyMap<'_, f64, W>> {
        Betweenness::new(WeightedMetric::new(self, options)?, &options.config)?.run_all(sources)
    }
}

/// Betweenness scores, accumulated source by source.
pub struct Betweenness<'g, M: PathMetric<'g>> {
    graph: &'g Graph<M::Weight>,
    metric: M,
    traversal: DagTraversal<'g, M>,
    /// The sum of the dependencies of each local vertex.
    dependencies: Vec<f64>,
}

impl<'g, M: PathMetric<'g>> Betweenness<'g, M> {
    /// Prepares the scores of the graph of a metric. All ranks call it.
    pub fn new(metric: M, config: &AmConfig) -> Result<Self> {
        let graph = metric.graph();
        let traversal = DagTraversal::new(graph, config)?;
        Ok(Self { graph, metric, traversal, dependencies: zeroed(graph.num_local(), VALUES_PURPOSE)? })
    }

    /// The scores from sources given by external ids.
    fn run_all(
        mut self,
        sources: impl IntoIterator<Item = impl Borrow<u64>>,
    ) -> Result<PropertyMap<'g, f64, M::Weight>> {
        for source in sources {
            self.run(self.graph.find_vertex(*source.borrow())?)?;
        }
        self.scores()
    }

    /// Adds the shortest paths from a source given by global id. Returns the number of reached vertices, the source
    /// included. All ranks call it.
    pub fn run(&mut self, source: u64) -> Result<u64> {
        self.graph.check_root(source)?;
        let distances = self.metric.shortest_paths(source)?;
        let reached = self.traversal.set_distances(&distances)?;
        let paths = count_shortest_paths(self.graph, &mut self.traversal, source)?;
        // A vertex sends (1 + dependency) / paths, and its dependency is its paths times the sum that it receives.
        let initial = paths.iter().map(|paths| if *paths > 0.0 { 1.0 / paths } else { 0.0 });
        let received = self.traversal.run(Direction::Backward, collected(initial, VALUES_PURPOSE)?)?;
        let source = self.graph.local_index(source);
        for (local_index, (sum, (paths, received))) in
            self.dependencies.iter_mut().zip(paths.iter().zip(received)).enumerate()
        {
            if Some(local_index) != source {
                *sum += paths * received;
            }
        }
        Ok(reached)
    }

    /// The score of each local vertex, from the sources so far.
    pub fn scores(&self) -> Result<PropertyMap<'g, f64, M::Weight>> {
        let multiplicity = pair_multiplicity(self.graph);
        let scores = self.dependencies.iter().map(|sum| sum / multiplicity);
        PropertyMap::new(self.graph, collected(scores, VALUES_PURPOSE)?)
    }

    /// The message statistics of the traversals of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        self.traversal.traffic()
    }
}

/// The number of shortest paths from the source to each local vertex.
fn count_shortest_paths<'g, M: PathMetric<'g>>(
    graph: &Graph<M::Weight>,
    traversal: &mut DagTraversal<'g, M>,
    source: u64,
) -> Result<Vec<f64>> {
    let mut initial = zeroed(graph.num_local(), VALUES_PURPOSE)?;
    let source = graph.local_index(source);
    if let Some(local_index) = source {
        initial[local_index] = 1.0;
    }
    let mut paths = traversal.run(Direction::Forward, initial)?;
    if let Some(local_index) = source {
        paths[local_index] = 1.0;
    }
    let too_many = || Error::Input(format!("there are more than {:e} shortest paths to one vertex", f64::MAX));
    agree(graph.comm(), if paths.iter().all(|paths| paths.is_finite()) { Ok(()) } else { Err(too_many()) })?;
    Ok(paths)
}

/// How often the paths between two vertices are counted if all vertices are sources.
fn pair_multiplicity<W: EdgeWeight>(graph: &Graph<W>) -> f64 {
    if graph.is_symmetric() { 2.0 } else { 1.0 }
}
