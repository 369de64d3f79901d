//! Level-synchronous BFS by active messages: each arc of the frontier is one.   [active messages paper, algorithm 2]
//!
//! ```text
//! message handler explore(v)              while Q not empty
//!   if distance[v] = infinity               level <- level + 1
//!     distance[v] <- level                  epoch: for v in Q, for neighbors w of v
//!     enqueue v -> nextQ                      send explore(w) to owner(w)
//! ```
//!
//! Cost: one epoch per level, one message per arc. Reductions drop some of the duplicate messages to a vertex in a
//! level. A hub in the frontier takes one message to each rank with a delegate, which expands that.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;

use super::label::{Label, UNREACHED};
use crate::csr::VALUES_PURPOSE;
use crate::patterns::wavefront::{self, Frontier, HasFrontier};
use crate::vertex_id::VertexId;
use crate::{AmConfig, AmTraffic, EdgeWeight, Graph, Result};

/// A search, reusable for any number of roots.
pub(crate) struct AmBfs<'g, W: EdgeWeight, I: VertexId> {
    graph: &'g Graph<W>,
    am: ActiveMessages<AmBfsState<'g, W, I>>,
    state: AmBfsState<'g, W, I>,
    explore: Port<I::Message>,
    hub: Port<u32>,
}

struct AmBfsState<'g, W, I> {
    graph: &'g Graph<W>,
    labels: Vec<Label<I>>,
    level: u32,
    frontier: Frontier,
}

impl<W, I> HasFrontier for AmBfsState<'_, W, I> {
    fn frontier(&mut self) -> &mut Frontier {
        &mut self.frontier
    }
}

impl<W: EdgeWeight, I: VertexId> AmBfsState<'_, W, I> {
    fn explore(&mut self, cx: &mut Context<Self>, vertex: u32, parent: I) {
        let label = &mut self.labels[vertex as usize];
        if label.level == UNREACHED {
            *label = Label { parent, level: self.level };
            self.frontier.push(cx, vertex);
        }
    }

    /// Expands the delegate of a hub in the frontier. The level is constant until the epoch ends, even if messages are
    /// handled at the end of a round.
    fn expand_delegate(&mut self, cx: &mut Context<Self>, hub: u32) {
        let (graph, local_start) = (self.graph, self.graph.view().local_range().start as u32);
        let parent = I::from_u64(graph.hubs().global_id(hub));
        graph.hubs().delegate_edges(hub).iter().for_each(|arc| self.explore(cx, arc.target - local_start, parent));
    }
}

impl<'g, W: EdgeWeight, I: VertexId> AmBfs<'g, W, I> {
    /// Prepares a search. All ranks call it.
    pub(crate) fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        let mut build = ActiveMessages::<AmBfsState<'g, W, I>>::builder(graph.comm());
        let explore = build.port::<I::Message>("explore");
        build.on_prefetch(
            explore,
            |state: &AmBfsState<'g, W, I>, message: &I::Message| &state.labels[I::from_message(*message).0 as usize],
            |state, cx, message| {
                let (vertex, parent) = I::from_message(message);
                state.explore(cx, vertex, parent);
            },
        );
        build.dedup_by_key(explore, |message: &I::Message| I::from_message(*message).0.into());
        let hub = build.port::<u32>("hub");
        build.on(hub, |state: &mut AmBfsState<'g, W, I>, cx, hub| state.expand_delegate(cx, hub));
        let am = config.start(build)?;
        let state = AmBfsState {
            graph,
            labels: filled(Label::NONE, graph.num_local(), VALUES_PURPOSE)?,
            level: 0,
            frontier: Frontier::default(),
        };
        Ok(Self { graph, am, state, explore, hub })
    }

    /// Searches from a root given by global id. All ranks call it.
    pub(crate) fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.run_from(&[root])
    }

    /// Searches from several roots at once, given by global ids. All ranks call it with the same roots.
    pub(crate) fn run_from(&mut self, roots: &[u64]) -> Result<&[Label<I>]> {
        roots.iter().try_for_each(|root| self.graph.check_root(*root))?;
        let (graph, explore, hub) = (self.graph, self.explore, self.hub);
        self.state.labels.fill(Label::NONE);
        self.state.level = 0;
        for root in roots {
            if let Some(local_index) = graph.local_index(*root) {
                self.state.labels[local_index] = Label { parent: I::from_u64(*root), level: 0 };
                self.state.frontier.push_root(local_index as u32);
            }
        }
        let layout = graph.layout();
        let (first, local_start) = (graph.first_global_id(), graph.view().local_range().start as u32);
        wavefront::expand(
            &mut self.am,
            &mut self.state,
            |state| state.level += 1,
            |cx, _, vertex| {
                let parent = I::from_u64(first + u64::from(vertex));
                // Finding the owner takes a division, except for local vertices.
                let (local, remote) = graph.out_edges().local_and_remote(vertex as usize);
                local
                    .iter()
                    .for_each(|arc| cx.send(explore, layout.rank(), parent.to_message(arc.target - local_start)));
                for arc in remote {
                    let (rank, local_index) = graph.view().owner(arc.target);
                    cx.send(explore, rank, parent.to_message(local_index));
                }
                graph.hubs().notify_delegates(cx, hub, vertex, |index| index);
            },
        )?;
        Ok(&self.state.labels)
    }

    /// The message statistics of this rank so far.
    pub(crate) fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}
