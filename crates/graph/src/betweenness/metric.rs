//! Path metrics: the length of a path in hops, or by weights.

use treepie_base::memory::collected;
use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::csr::{CsrEdge, VALUES_PURPOSE, Weight, WeightedEdge};
use crate::hash::hash_words;
use crate::{AmConfig, Error, Graph, Result, bfs, sssp};

/// The length of arcs, and a shortest-path search.
pub trait PathMetric<'g> {
    /// The type of the graph's arcs.
    type Edge: CsrEdge;
    /// The type of distances.
    type Distance: Weight;

    /// The graph.
    fn graph(&self) -> &'g Graph<Self::Edge>;

    /// The length of an arc, which is positive.
    fn edge_length(arc: Self::Edge) -> Self::Distance;

    /// The distances of local vertices from a source given by global id; [`Weight::INFINITY`] if unreachable. All ranks
    /// call it.
    fn shortest_paths(&mut self, source: u64) -> Result<Vec<Self::Distance>>;

    /// The distances, verified. All ranks call it, and get the same error.
    fn shortest_paths_verified(&mut self, comm: &Comm, source: u64, config: &AmConfig) -> Result<Vec<Self::Distance>>;
}

/// Path length in hops: the number of arcs.
pub struct HopMetric<'g, A: CsrEdge> {
    graph: &'g Graph<A>,
    search: bfs::direction_optimizing::DirectionOptimizingBfs<'g, A, u64>,
}

impl<'g, A: CsrEdge> HopMetric<'g, A> {
    /// Prepares searches in a graph with in-edges. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, config: &AmConfig) -> Result<Self> {
        Ok(Self { graph, search: bfs::direction_optimizing::DirectionOptimizingBfs::new(comm, graph, config)? })
    }
}

impl<'g, A: CsrEdge> PathMetric<'g> for HopMetric<'g, A> {
    type Edge = A;
    type Distance = u32;

    fn graph(&self) -> &'g Graph<A> {
        self.graph
    }

    #[inline(always)]
    fn edge_length(_: A) -> u32 {
        1
    }

    fn shortest_paths(&mut self, source: u64) -> Result<Vec<u32>> {
        Ok(collected(self.search.run(source)?.iter().map(|label| label.level), VALUES_PURPOSE)?)
    }

    fn shortest_paths_verified(&mut self, comm: &Comm, source: u64, config: &AmConfig) -> Result<Vec<u32>> {
        let labels = self.search.run(source)?;
        bfs::verify(comm, self.graph, source, labels, config)?;
        Ok(collected(labels.iter().map(|label| label.level), VALUES_PURPOSE)?)
    }
}

/// Path length by weights: their sum.
pub struct WeightedMetric<'g, W: Weight> {
    graph: &'g Graph<WeightedEdge>,
    search: sssp::DeltaStepping<'g, W>,
}

impl<'g, W: Weight> WeightedMetric<'g, W> {
    /// Prepares searches in a graph with positive weights of type `W`. `delta` is the bucket width of delta-stepping;
    /// `None` chooses one. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<WeightedEdge>, delta: Option<f64>, config: &AmConfig) -> Result<Self> {
        graph.require_unsplit_rows("betweenness")?;
        agree(comm, check_positive_weights::<W>(graph))?;
        if graph.is_symmetric() && comm.allreduce(&[asymmetry_digest(graph)], Sum)?[0] != 0 {
            let differ = "betweenness in a symmetric graph needs arcs that weigh the same in both directions";
            return Err(Error::Input(differ.to_owned()));
        }
        Ok(Self { graph, search: sssp::DeltaStepping::new(comm, graph, delta, config)? })
    }
}

impl<'g, W: Weight> PathMetric<'g> for WeightedMetric<'g, W> {
    type Edge = WeightedEdge;
    type Distance = W;

    fn graph(&self) -> &'g Graph<WeightedEdge> {
        self.graph
    }

    #[inline(always)]
    fn edge_length(arc: WeightedEdge) -> W {
        arc.weight()
    }

    fn shortest_paths(&mut self, source: u64) -> Result<Vec<W>> {
        self.search.run(source)?;
        Ok(self.search.distances())
    }

    fn shortest_paths_verified(&mut self, comm: &Comm, source: u64, config: &AmConfig) -> Result<Vec<W>> {
        let distances = self.shortest_paths(source)?;
        sssp::verify(comm, self.graph, source, &distances, config)?;
        Ok(distances)
    }
}

/// Refuses weights of zero: tight arcs could form cycles.
fn check_positive_weights<W: Weight>(graph: &Graph<WeightedEdge>) -> Result<()> {
    let is_zero =
        |local_index: &usize| graph.out_edges().row(*local_index).iter().any(|arc| arc.weight::<W>() == W::ZERO);
    let Some(local_index) = (0..graph.num_local()).find(is_zero) else { return Ok(()) };
    let external_id = graph.layout().external_id(local_index);
    Err(Error::Input(format!(
        "betweenness needs weights above zero, and an arc from vertex {external_id} weighs nothing"
    )))
}

/// A hash whose sum over all ranks is zero if each arc has a reverse arc of the same weight, and hardly ever otherwise.
fn asymmetry_digest(graph: &Graph<WeightedEdge>) -> u64 {
    let (view, layout) = (graph.view(), graph.layout());
    let first = layout.first_global_id(layout.rank());
    let arcs = (0..graph.num_local())
        .flat_map(|local_index| graph.out_edges().row(local_index).iter().map(move |arc| (local_index, arc)));
    arcs.fold(0, |sum, (local_index, arc)| {
        let (from, to) = (first + local_index as u64, view.global_id(layout, arc.target()));
        let bits = arc.weight::<u32>().into();
        sum.wrapping_add(hash_words([from, to, bits])).wrapping_sub(hash_words([to, from, bits]))
    })
}
