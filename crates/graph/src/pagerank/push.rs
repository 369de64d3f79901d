//! PageRank by pushing: each arc is a message with what its beginning gives.   [active messages paper, section 6.2.4]

use treepie_am::{ActiveMessages, Port};
use treepie_comm::Comm;

use super::{Limits, Ranking, dangling};
use crate::id::{halves, whole};
use crate::patterns::fixpoint;
use crate::rows::Arc;
use crate::{Graph, Messages, Result, Traffic};

/// To a vertex of the destination's: what it gets, as the two halves of the bits.
type Give = [u32; 3];

fn give(place: u32, value: f64) -> Give {
    let [low, high] = halves(value.to_bits());
    [place, low, high]
}

fn value([_, low, high]: Give) -> f64 {
    f64::from_bits(whole([low, high]))
}

/// A graph, and the messages along its arcs.
pub struct Pushing<'g, A> {
    comm: Comm,
    graph: &'g Graph<A>,
    am: ActiveMessages<Vec<f64>>,
    give: Port<Give>,
}

impl<'g, A: Arc> Pushing<'g, A> {
    /// Iterations on a graph. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let mut build = ActiveMessages::<Vec<f64>>::builder(comm);
        let port = build.port::<Give>("give");
        build.on_touch(
            port,
            |got: &Vec<f64>, message: &Give| &got[message[0] as usize],
            |got, _, message| got[message[0] as usize] += value(message),
        );
        build.combine(
            port,
            |message: &Give| message[0].into(),
            |sum: &mut Give, message| *sum = give(sum[0], value(*sum) + value(*message)),
        );
        Ok(Self { comm: comm.clone(), graph, am: messages.start(build)?, give: port })
    }

    /// Iterates. All ranks call it.
    pub fn run(&mut self, limits: &Limits) -> Result<Ranking> {
        let (graph, port) = (self.graph, self.give);
        let mut scores = vec![1.0 / graph.vertices() as f64; graph.own()];
        let mut got = vec![0.0; scores.len()];
        let own = graph.view().own().start as u32;
        let comm = self.comm.clone();
        let ended = fixpoint::iterate(&comm, limits.tolerance, limits.iterations, |_| {
            let without_arcs = (0..graph.own()).filter(|vertex| graph.out().degree(*vertex) == 0);
            let from_all = dangling(&comm, graph, without_arcs.map(|vertex| scores[vertex]).sum())?;
            got.fill(0.0);
            self.am.epoch_for(&mut got, 0..graph.own(), |cx, got, vertex| {
                let gives = scores[vertex] / graph.out().degree(vertex).max(1) as f64;
                let (near, far) = graph.out().parts(vertex);
                near.iter().for_each(|arc| got[(arc.target() - own) as usize] += gives);
                for arc in far {
                    let (rank, place) = graph.view().owner(arc.target());
                    cx.send(port, rank, give(place, gives));
                }
            })?;
            let base = (1.0 - limits.damping) / graph.vertices() as f64 + limits.damping * from_all;
            let mut change = 0.0;
            for (score, got) in scores.iter_mut().zip(&got) {
                let next = base + limits.damping * got;
                change += (next - std::mem::replace(score, next)).abs();
            }
            Ok(change)
        })?;
        Ok(Ranking { scores, iterations: ended.iterations, change: ended.change })
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}
