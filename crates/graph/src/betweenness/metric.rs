//! Path metrics: the length of a path in hops, or by weights.

use treepie_base::memory::collected;
use treepie_comm::Sum;

use crate::agree::agree;
use crate::bfs::BfsResult;
use crate::bfs::direction_optimizing::DirectionOptimizingBfs;
use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::hash::hash_words;
use crate::sssp::{DeltaStepping, SsspOptions, SsspResult};
use crate::{AmConfig, EdgeWeight, Error, Graph, Result, Weight};

/// The length of arcs, and a shortest-path search.
pub trait PathMetric<'g> {
    /// The type of the graph's weights.
    type Weight: EdgeWeight;
    /// The type of distances.
    type Distance: Weight;

    /// The graph.
    fn graph(&self) -> &'g Graph<Self::Weight>;

    /// The length of an arc, which is positive.
    fn edge_length(arc: CsrEdge<Self::Weight>) -> Self::Distance;

    /// The distances of local vertices from a source given by global id; [`Weight::INFINITY`] if unreachable. All ranks
    /// call it.
    fn shortest_paths(&mut self, source: u64) -> Result<Vec<Self::Distance>>;

    /// The distances, verified. All ranks call it, and get the same error.
    fn shortest_paths_verified(&mut self, source: u64, config: &AmConfig) -> Result<Vec<Self::Distance>>;
}

/// Path length in hops: the number of arcs.
pub struct HopMetric<'g, W: EdgeWeight> {
    graph: &'g Graph<W>,
    search: DirectionOptimizingBfs<'g, W, u64>,
}

impl<'g, W: EdgeWeight> HopMetric<'g, W> {
    /// Prepares searches in a graph with in-edges. All ranks call it.
    pub fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        // The error names betweenness, not its search.
        graph.require_in_edges("betweenness")?;
        Ok(Self { graph, search: DirectionOptimizingBfs::new(graph, config)? })
    }
}

impl<'g, W: EdgeWeight> PathMetric<'g> for HopMetric<'g, W> {
    type Weight = W;
    type Distance = u32;

    fn graph(&self) -> &'g Graph<W> {
        self.graph
    }

    #[inline(always)]
    fn edge_length(_: CsrEdge<W>) -> u32 {
        1
    }

    fn shortest_paths(&mut self, source: u64) -> Result<Vec<u32>> {
        Ok(collected(self.search.run(source)?.iter().map(|label| label.level), VALUES_PURPOSE)?)
    }

    fn shortest_paths_verified(&mut self, source: u64, config: &AmConfig) -> Result<Vec<u32>> {
        let result = BfsResult::new(self.graph, source, self.search.run(source)?, config)?;
        result.verify()?;
        Ok(result.levels.into_local())
    }
}

/// Path length by weights: their sum.
pub struct WeightedMetric<'g, W: Weight> {
    graph: &'g Graph<W>,
    search: DeltaStepping<'g, W>,
}

impl<'g, W: Weight> WeightedMetric<'g, W> {
    /// Prepares searches in a graph with in-edges and positive weights. All ranks call it.
    pub fn new(graph: &'g Graph<W>, options: &SsspOptions) -> Result<Self> {
        graph.require_in_edges("betweenness")?;
        agree(graph.comm(), check_positive_weights(graph))?;
        if graph.is_symmetric() && graph.comm().allreduce_one(asymmetry_digest(graph), Sum)? != 0 {
            let differ = "betweenness in a symmetric graph needs arcs that weigh the same in both directions";
            return Err(Error::Input(differ.to_owned()));
        }
        Ok(Self { graph, search: DeltaStepping::new(graph, options)? })
    }
}

impl<'g, W: Weight> PathMetric<'g> for WeightedMetric<'g, W> {
    type Weight = W;
    type Distance = W;

    fn graph(&self) -> &'g Graph<W> {
        self.graph
    }

    #[inline(always)]
    fn edge_length(arc: CsrEdge<W>) -> W {
        arc.weight
    }

    fn shortest_paths(&mut self, source: u64) -> Result<Vec<W>> {
        self.search.run(source)?;
        Ok(self.search.distances()?.into_local())
    }

    fn shortest_paths_verified(&mut self, source: u64, config: &AmConfig) -> Result<Vec<W>> {
        self.search.run(source)?;
        let result = SsspResult::new(source, self.search.distances()?, config);
        result.verify()?;
        Ok(result.distances.into_local())
    }
}

/// Refuses weights of zero: tight arcs could form cycles.
fn check_positive_weights<W: Weight>(graph: &Graph<W>) -> Result<()> {
    let is_zero = |local_index: &usize| graph.out_edges().row(*local_index).iter().any(|arc| arc.weight == W::ZERO);
    let Some(local_index) = graph.local_vertices().find(is_zero) else { return Ok(()) };
    let external_id = graph.external_id(local_index);
    Err(Error::Input(format!(
        "betweenness needs weights above zero, and an arc from vertex {external_id} weighs nothing"
    )))
}

/// A hash whose sum over all ranks is zero if each arc has a reverse arc of the same weight, and hardly ever otherwise.
fn asymmetry_digest<W: Weight>(graph: &Graph<W>) -> u64 {
    let (view, layout) = (graph.view(), graph.layout());
    let first = graph.first_global_id();
    let arcs = graph
        .local_vertices()
        .flat_map(|local_index| graph.out_edges().row(local_index).iter().map(move |arc| (local_index, arc)));
    arcs.fold(0, |sum, (local_index, arc)| {
        let (from, to) = (first + local_index as u64, view.global_id(layout, arc.target));
        let bits = arc.weight.bits().into();
        sum.wrapping_add(hash_words([from, to, bits])).wrapping_sub(hash_words([to, from, bits]))
    })
}

/// Whether an arc is on a shortest path: its endpoints are at the distances `from` and `to`.
#[inline(always)]
pub(super) fn is_tight<L: Weight>(from: L, arc: L, to: L) -> bool {
    from < to && to < L::INFINITY && from.add(arc) == to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_on_shortest_paths_are_tight() {
        assert!(is_tight(1.0f32, 0.5, 1.5) && is_tight(3u32, 4, 7));
        assert!(!is_tight(1.0f32, 0.5, 1.25) && !is_tight(3u32, 4, 6));
        // Unreachable targets, however long the path would be.
        assert!(!is_tight(u32::MAX - 1, 1, u32::MAX) && !is_tight(f32::MAX, f32::MAX, f32::INFINITY));
        assert!(!is_tight(u32::MAX, 1, u32::MAX));
        // The target must be farther than the source.
        assert!(!is_tight(1e9f32, 1e-9, 1e9));
    }
}
