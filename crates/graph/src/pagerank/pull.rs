//! Pull PageRank: ghost contributions are updated in each iteration, and each vertex sums those of its in-neighbors.
//! Delegated arcs of hubs are summed by an allreduce. Cost: one update of ghosts and two allreduces per iteration.

use treepie_base::memory::{collected, zeroed};
use treepie_comm::Sum;

use super::jacobi::{self, PageRankResult, share_of_all};
use super::options::PageRankOptions;
use crate::csr::{Csr, CsrEdge, VALUES_PURPOSE};
use crate::{EdgeWeight, Graph, Result};

/// A graph, and the contributions of its vertices.
pub struct PullPageRank<'g, W> {
    graph: &'g Graph<W>,
    in_edges: &'g Csr<W>,
    /// By index of the view. `f32`, half the size of scores, as random reads of them take most of the time.
    contributions: Vec<f32>,
    /// The degree of each local vertex, as far as 32 bits go: no rank has as many arcs.
    degrees: Vec<u32>,
}

impl<'g, W: EdgeWeight> PullPageRank<'g, W> {
    /// Prepares iterations on a graph with in-edges. All ranks call it.
    pub fn new(graph: &'g Graph<W>) -> Result<Self> {
        let in_edges = graph.require_in_edges_or_delegates("pull PageRank")?;
        let degree = |local_index: usize| u32::try_from(graph.degree(local_index)).unwrap_or(u32::MAX);
        let degrees = collected(graph.local_vertices().map(degree), VALUES_PURPOSE)?;
        let contributions = zeroed(graph.view().len(), VALUES_PURPOSE)?;
        Ok(Self { graph, in_edges, contributions, degrees })
    }

    /// One iteration on the local scores. Returns the sum of their changes. All ranks call it.
    pub(super) fn step(&mut self, scores: &mut [f64], damping: f64) -> Result<f64> {
        let graph = self.graph;
        let local = &mut self.contributions[graph.view().local_range()];
        let mut retained = 0.0;
        for ((contribution, score), degree) in local.iter_mut().zip(&*scores).zip(&self.degrees) {
            let degree = f64::from(*degree);
            *contribution = (*score / degree.max(1.0)) as f32;
            // All of a dangling vertex, and otherwise what rounding took or gave.
            retained += *score - f64::from(*contribution) * degree;
        }
        let retained_share = share_of_all(graph, retained)?;
        graph.update_ghosts(&mut self.contributions)?;
        let delegated = self.delegate_contributions()?;
        let base = (1.0 - damping) / graph.num_vertices() as f64 + damping * retained_share;
        let mut change = 0.0;
        for (local_index, score) in scores.iter_mut().enumerate() {
            let from_delegates = graph.hubs().get(local_index).and_then(|hub| delegated.get(hub.index as usize));
            let incoming =
                sum_contributions(self.in_edges.row(local_index), &self.contributions) + from_delegates.unwrap_or(&0.0);
            let next = base + damping * incoming;
            change += (next - std::mem::replace(score, next)).abs();
        }
        Ok(change)
    }

    /// The contributions to each hub along delegated arcs, whose reverse arcs exist in a symmetric graph. In-edges of
    /// directed graphs are not split. All ranks call it.
    fn delegate_contributions(&self) -> Result<Vec<f64>> {
        let hubs = self.graph.hubs();
        if hubs.is_empty() || !self.graph.is_symmetric() {
            return Ok(Vec::new());
        }
        let local: Vec<f64> = (0..hubs.len())
            .map(|hub| sum_contributions(hubs.delegate_edges(hub as u32), &self.contributions))
            .collect();
        Ok(self.graph.comm().allreduce(&local, Sum)?)
    }

    /// Iterates until convergence. All ranks call it.
    pub fn run(&mut self, options: &PageRankOptions) -> Result<PageRankResult<'g, W>> {
        jacobi::iterate(self.graph, options, |scores| self.step(scores, options.damping))
    }
}

/// The sum of contributions along some arcs. Four partial sums: a single one would be bound by the latency of
/// additions.
#[inline]
fn sum_contributions<W: EdgeWeight>(arcs: &[CsrEdge<W>], contributions: &[f32]) -> f64 {
    let contribution = |arc: &CsrEdge<W>| f64::from(contributions[arc.target as usize]);
    let (fours, rest) = arcs.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, arc) in sums.iter_mut().zip(four) {
            *sum += contribution(arc);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(contribution).sum::<f64>()
}
