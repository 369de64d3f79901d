//! PageRank by pulling: what each vertex gives is seen by all, and each adds up what it gets. What a hub gets over arcs
//! that lie on several ranks, these add up together.

use treepie_base::memory::{filled, zeroed};
use treepie_comm::{Comm, Sum};

use super::{Limits, Ranking, dangling};
use crate::patterns::fixpoint;
use crate::rows::VALUES;
use crate::rows::{Arc, Rows};
use crate::{Graph, Result};

/// A graph, and what its vertices give along each arc.
pub struct Pulling<'g, A> {
    comm: Comm,
    graph: &'g Graph<A>,
    back: &'g Rows<A>,
    /// By place. Half the size of scores, as most of the time goes into reading them at random.
    given: Vec<f32>,
    /// One over the degree of each own vertex; nothing of those without arcs.
    shares: Vec<f32>,
}

impl<'g, A: Arc> Pulling<'g, A> {
    /// Iterations on a graph whose arcs are known backwards. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>) -> Result<Self> {
        let back = graph.need_back_or_shares("PageRank by pulling")?;
        let share = |place: usize| match graph.degree(place) {
            0 => 0.0,
            degree => 1.0 / degree as f32,
        };
        let shares = (0..graph.own()).map(share).collect();
        Ok(Self { comm: comm.clone(), graph, back, given: zeroed(graph.view().len(), VALUES)?, shares })
    }

    /// Goes on from own scores to the next ones. Returns by how much they change. All ranks call it.
    pub(super) fn step(&mut self, scores: &mut [f64], damping: f64) -> Result<f64> {
        let graph = self.graph;
        let own = &mut self.given[graph.view().own()];
        let mut kept = 0.0;
        for ((given, score), share) in own.iter_mut().zip(&*scores).zip(&self.shares) {
            *given = *score as f32 * share;
            kept += if *share == 0.0 { *score } else { 0.0 };
        }
        let from_all = dangling(&self.comm, graph, kept)?;
        graph.view().gather(&self.comm, &mut self.given)?;
        let over_shares = self.over_shares()?;
        let base = (1.0 - damping) / graph.vertices() as f64 + damping * from_all;
        let mut change = 0.0;
        for (place, score) in scores.iter_mut().enumerate() {
            let elsewhere = graph.hubs().of(place).and_then(|hub| over_shares.get(hub.index as usize));
            let got = sum(self.back.row(place), &self.given) + elsewhere.unwrap_or(&0.0);
            let next = base + damping * got;
            change += (next - std::mem::replace(score, next)).abs();
        }
        Ok(change)
    }

    /// What each hub gets over the arcs of all ranks' shares, which lead back to it in a graph without directions. Arcs
    /// that are kept backwards are not split. All ranks call it.
    fn over_shares(&self) -> Result<Vec<f64>> {
        let hubs = self.graph.hubs();
        if hubs.is_empty() || !self.graph.is_symmetric() {
            return Ok(Vec::new());
        }
        let here: Vec<f64> = (0..hubs.len()).map(|hub| sum(hubs.share(hub as u32), &self.given)).collect();
        Ok(self.comm.all_reduce(&here, Sum)?)
    }

    /// Iterates. All ranks call it.
    pub fn run(&mut self, limits: &Limits) -> Result<Ranking> {
        let mut scores = filled(1.0 / self.graph.vertices() as f64, self.graph.own(), VALUES)?;
        let comm = self.comm.clone();
        let ended =
            fixpoint::iterate(&comm, limits.tolerance, limits.iterations, |_| self.step(&mut scores, limits.damping))?;
        Ok(Ranking { scores, iterations: ended.iterations, change: ended.change })
    }
}

/// What a vertex gets along some arcs. Four sums at a time: one would wait for each addition before the next.
#[inline]
fn sum<A: Arc>(arcs: &[A], given: &[f32]) -> f64 {
    let get = |arc: &A| f64::from(given[arc.target() as usize]);
    let (fours, rest) = arcs.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, arc) in sums.iter_mut().zip(four) {
            *sum += get(arc);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(get).sum::<f64>()
}
