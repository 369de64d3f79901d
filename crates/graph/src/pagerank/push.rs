//! PageRank by pushing: each arc is a message with what its beginning gives.   [active messages paper, section 6.2.4]

use treepie_am::{ActiveMessages, Port};
use treepie_base::memory::{filled, zeroed};
use treepie_comm::Comm;

use super::{Limits, Ranking, dangling};
use crate::id::{halves, whole};
use crate::patterns::fixpoint;
use crate::rows::Arc;
use crate::rows::VALUES;
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
    am: ActiveMessages<State<'g, A>>,
    give: Port<Give>,
    hub: Port<Give>,
}

struct State<'g, A> {
    graph: &'g Graph<A>,
    /// What own vertices have got.
    got: Vec<f64>,
}

impl<A: Arc> State<'_, A> {
    fn give_near(&mut self, arcs: &[A], gives: f64) {
        let own = self.graph.view().own().start as u32;
        arcs.iter().for_each(|arc| self.got[(arc.target() - own) as usize] += gives);
    }
}

impl<'g, A: Arc> Pushing<'g, A> {
    /// Iterations on a graph. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let mut build = ActiveMessages::<State<'g, A>>::builder(comm);
        let port = build.port::<Give>("give");
        build.on_touch(
            port,
            |state: &State<'g, A>, message: &Give| &state.got[message[0] as usize],
            |state, _, message| state.got[message[0] as usize] += value(message),
        );
        build.combine(
            port,
            |message: &Give| message[0].into(),
            |sum: &mut Give, message| *sum = give(sum[0], value(*sum) + value(*message)),
        );
        let hub = build.port::<Give>("hub");
        build.on(hub, |state: &mut State<'g, A>, _, message| {
            state.give_near(state.graph.hubs().share(message[0]), value(message));
        });
        Ok(Self { comm: comm.clone(), graph, am: messages.start(build)?, give: port, hub })
    }

    /// Iterates. All ranks call it.
    pub fn run(&mut self, limits: &Limits) -> Result<Ranking> {
        let (graph, port, hub) = (self.graph, self.give, self.hub);
        let mut scores = filled(1.0 / graph.vertices() as f64, graph.own(), VALUES)?;
        let mut state = State { graph, got: zeroed(scores.len(), VALUES)? };
        let comm = self.comm.clone();
        let ended = fixpoint::iterate(&comm, limits.tolerance, limits.iterations, |_| {
            let without_arcs = (0..graph.own()).filter(|vertex| graph.degree(*vertex) == 0);
            let from_all = dangling(&comm, graph, without_arcs.map(|vertex| scores[vertex]).sum())?;
            state.got.fill(0.0);
            self.am.epoch_for(&mut state, 0..graph.own(), |cx, state, vertex| {
                let gives = scores[vertex] / graph.degree(vertex).max(1) as f64;
                let (near, far) = graph.out().parts(vertex);
                state.give_near(near, gives);
                graph.hubs().tell(cx, hub, vertex as u32, |index| give(index, gives));
                for arc in far {
                    let (rank, place) = graph.view().owner(arc.target());
                    cx.send(port, rank, give(place, gives));
                }
            })?;
            let base = (1.0 - limits.damping) / graph.vertices() as f64 + limits.damping * from_all;
            let mut change = 0.0;
            for (score, got) in scores.iter_mut().zip(&state.got) {
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
