//! PageRank by pulling: what each vertex gives is seen by all, and each adds up what it gets.

use treepie_comm::Comm;

use super::{Limits, Ranking, dangling};
use crate::patterns::fixpoint;
use crate::rows::{Arc, Rows};
use crate::{Graph, Result};

/// A graph, and what its vertices give along each arc.
pub struct Pulling<'g, A> {
    comm: Comm,
    graph: &'g Graph<A>,
    back: &'g Rows<A>,
    /// By place. Half the size of scores, as most of the time goes into reading them at random.
    given: Vec<f32>,
}

impl<'g, A: Arc> Pulling<'g, A> {
    /// Iterations on a graph whose arcs are known backwards. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>) -> Result<Self> {
        let back = graph.need_back("PageRank by pulling")?;
        Ok(Self { comm: comm.clone(), graph, back, given: vec![0.0; graph.view().len()] })
    }

    /// The next scores after these. All ranks call it.
    pub fn step(&mut self, scores: &[f64], damping: f64) -> Result<Vec<f64>> {
        let mut next = vec![0.0; scores.len()];
        self.step_into(scores, &mut next, damping)?;
        Ok(next)
    }

    fn step_into(&mut self, scores: &[f64], next: &mut [f64], damping: f64) -> Result<()> {
        let (graph, rows) = (self.graph, self.graph.out());
        let from_all = dangling(&self.comm, graph, scores)?;
        let own = &mut self.given[graph.view().own()];
        for (place, (given, score)) in own.iter_mut().zip(scores).enumerate() {
            *given = (score / rows.degree(place).max(1) as f64) as f32;
        }
        graph.view().gather(&self.comm, &mut self.given)?;
        let base = (1.0 - damping) / graph.vertices() as f64 + damping * from_all;
        for (place, next) in next.iter_mut().enumerate() {
            *next = base + damping * sum(self.back.row(place), &self.given);
        }
        Ok(())
    }

    /// Iterates. All ranks call it.
    pub fn run(&mut self, limits: &Limits) -> Result<Ranking> {
        let mut scores = vec![1.0 / self.graph.vertices() as f64; self.graph.own()];
        let mut next = vec![0.0; scores.len()];
        let comm = self.comm.clone();
        let ended = fixpoint::iterate(&comm, limits.tolerance, limits.iterations, |_| {
            self.step_into(&scores, &mut next, limits.damping)?;
            std::mem::swap(&mut scores, &mut next);
            Ok(scores.iter().zip(&next).map(|(now, before)| (now - before).abs()).sum())
        })?;
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
