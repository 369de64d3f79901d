//! Breadth-first search by messages: each arc of the front is one.   [active messages paper, algorithm 2]
//!
//! ```text
//! message handler explore(v)              while Q not empty
//!   if distance[v] = infinity               level <- level + 1
//!     distance[v] <- level                  epoch: for v in Q, for neighbours w of v
//!     enqueue v -> nextQ                      send explore(w) to owner(w)
//! ```
//!
//! A vertex that is sent to several times in a level needs one of the messages only: reductions find some of the others.
//! If a hub is in the front, each rank with a share of it is told, and follows that.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_comm::Comm;

use super::{Label, UNREACHED};
use crate::id::Id;
use crate::patterns::wavefront::{self, Front, HasFront};
use crate::rows::Arc;
use crate::rows::VALUES;
use crate::{Graph, Messages, Result, Traffic};

/// A search that can be run from one root after the other.
pub struct Search<'g, A: Arc, I: Id> {
    graph: &'g Graph<A>,
    am: ActiveMessages<State<'g, A, I>>,
    state: State<'g, A, I>,
    explore: Port<I::About>,
    hub: Port<u32>,
}

struct State<'g, A, I> {
    graph: &'g Graph<A>,
    labels: Vec<Label<I>>,
    level: u32,
    front: Front,
}

impl<A, I> HasFront for State<'_, A, I> {
    fn front(&mut self) -> &mut Front {
        &mut self.front
    }
}

impl<A: Arc, I: Id> State<'_, A, I> {
    fn explore(&mut self, cx: &mut Context<Self>, vertex: u32, parent: I) {
        let label = &mut self.labels[vertex as usize];
        if label.level == UNREACHED {
            *label = Label { parent, level: self.level };
            self.front.join(cx, vertex);
        }
    }

    /// A hub of another rank is in the front. Also where messages are handled at the end of a round, the level is the same
    /// until the epoch is over.
    fn follow_share(&mut self, cx: &mut Context<Self>, hub: u32) {
        let (graph, own) = (self.graph, self.graph.view().own().start as u32);
        let parent = I::new(graph.hubs().number(hub));
        graph.hubs().share(hub).iter().for_each(|arc| self.explore(cx, arc.target() - own, parent));
    }
}

impl<'g, A: Arc, I: Id> Search<'g, A, I> {
    /// A search in a graph. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let mut build = ActiveMessages::<State<'g, A, I>>::builder(comm);
        let explore = build.port::<I::About>("explore");
        build.on_touch(
            explore,
            |state: &State<'g, A, I>, about: &I::About| &state.labels[I::parts(*about).0 as usize],
            |state, cx, about| {
                let (vertex, parent) = I::parts(about);
                state.explore(cx, vertex, parent);
            },
        );
        build.unique(explore, |about: &I::About| I::parts(*about).0.into());
        let hub = build.port::<u32>("hub");
        build.on(hub, |state: &mut State<'g, A, I>, cx, hub| state.follow_share(cx, hub));
        let am = messages.start(build)?;
        let state =
            State { graph, labels: filled(Label::NONE, graph.own(), VALUES)?, level: 0, front: Front::default() };
        Ok(Self { graph, am, state, explore, hub })
    }

    /// Searches from a vertex, by its number. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.run_from(&[root])
    }

    /// Searches from several vertices at once, by their numbers. All ranks call it, with the same ones.
    pub fn run_from(&mut self, roots: &[u64]) -> Result<&[Label<I>]> {
        roots.iter().try_for_each(|root| self.graph.check_root(*root))?;
        let (graph, explore, hub) = (self.graph, self.explore, self.hub);
        self.state.labels.fill(Label::NONE);
        self.state.level = 0;
        for root in roots {
            if let Some(place) = graph.mine(*root) {
                self.state.labels[place] = Label { parent: I::new(*root), level: 0 };
                self.state.front.begin_with(place as u32);
            }
        }
        let layout = graph.layout();
        let (first, own) = (layout.first(layout.rank()), graph.view().own().start as u32);
        wavefront::expand(
            &mut self.am,
            &mut self.state,
            |state| state.level += 1,
            |cx, _, vertex| {
                let parent = I::new(first + u64::from(vertex));
                // Whose a vertex is takes a division, except for own ones.
                let (near, far) = graph.out().parts(vertex as usize);
                near.iter().for_each(|arc| cx.send(explore, layout.rank(), parent.about(arc.target() - own)));
                for arc in far {
                    let (rank, place) = graph.view().owner(arc.target());
                    cx.send(explore, rank, parent.about(place));
                }
                graph.hubs().tell(cx, hub, vertex, |index| index);
            },
        )?;
        Ok(&self.state.labels)
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}
