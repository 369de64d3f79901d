//! Reachability: which vertices can be reached from some, in one epoch.   [active messages paper, algorithm 3]
//!
//! ```text
//! message handler explore(v)                       epoch: run the handler for each source
//!   if visited[v] = 0
//!     visited[v] <- 1
//!     for neighbours w of v: send explore(w) to owner(w)
//! ```
//!
//! Nothing is done in an order, so nobody waits for anybody. Each rank sends one message to a vertex of others at most.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::patterns::search::{self, Spreading};
use crate::rows::Arc;
use crate::{Bits, Error, Graph, Messages, Result, Traffic, bfs};

/// A search that can be run from one set of sources after the other.
pub struct Search<'g, A: Arc> {
    graph: &'g Graph<A>,
    am: ActiveMessages<State<'g, A>>,
    state: State<'g, A>,
}

struct State<'g, A> {
    graph: &'g Graph<A>,
    /// Own vertices that are reached.
    visited: Bits,
    /// Others', by place, that were told.
    told: Bits,
    waiting: Vec<u32>,
    explore: Port<u32>,
    hub: Port<u32>,
}

impl<A: Arc> State<'_, A> {
    #[inline]
    fn explore(&mut self, vertex: u32) {
        if self.visited.put_new(vertex as usize) {
            self.waiting.push(vertex);
        }
    }

    #[inline(always)]
    fn explore_near(&mut self, arcs: &[A]) {
        let own = self.graph.view().own().start as u32;
        arcs.iter().for_each(|arc| self.explore(arc.target() - own));
    }
}

impl<A: Arc> Spreading for State<'_, A> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let graph = self.graph;
        let (near, far) = graph.out().parts(vertex as usize);
        self.explore_near(near);
        graph.hubs().tell(cx, self.hub, vertex, |index| index);
        for arc in far {
            if self.told.put_new(arc.target() as usize) {
                let (rank, place) = graph.view().owner(arc.target());
                cx.send(self.explore, rank, place);
            }
        }
    }
}

impl<'g, A: Arc> Search<'g, A> {
    /// A search in a graph. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let mut build = ActiveMessages::<State<'g, A>>::builder(comm);
        let explore = build.port::<u32>("explore");
        build.on(explore, |state: &mut State<'g, A>, cx, vertex| {
            state.explore(vertex);
            state.spread(cx);
        });
        let hub = build.port::<u32>("hub");
        build.on(hub, |state: &mut State<'g, A>, cx, hub| {
            state.explore_near(state.graph.hubs().share(hub));
            state.spread(cx);
        });
        let am = messages.start(build)?;
        let (visited, told) = (Bits::try_new(graph.own())?, Bits::try_new(graph.view().len())?);
        Ok(Self { graph, am, state: State { graph, visited, told, waiting: Vec::new(), explore, hub } })
    }

    /// Searches from vertices, by their numbers, the same on all ranks. All ranks call it.
    pub fn run(&mut self, sources: &[u64]) -> Result<&Bits> {
        let graph = self.graph;
        self.run_from(sources.iter().filter_map(|source| graph.mine(*source)))
    }

    /// Searches from own vertices of all ranks. All ranks call it.
    pub(crate) fn run_from(&mut self, own: impl Iterator<Item = usize>) -> Result<&Bits> {
        self.state.visited.clear();
        self.state.told.clear();
        own.for_each(|place| self.state.explore(place as u32));
        search::spread(&mut self.am, &mut self.state)?;
        Ok(&self.state.visited)
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}

/// How many vertices are reached, and how many arcs lead from them to another. All ranks call it.
pub fn count<A: Arc>(comm: &Comm, graph: &Graph<A>, visited: &Bits) -> Result<(u64, u64)> {
    let arcs = visited.iter().map(|place| graph.degree_without_loops(place)).sum();
    let mut counts = [visited.count(), arcs];
    comm.all_reduce_in_place(&mut counts, Sum)?;
    Ok(counts.into())
}

/// Checks what a search from some sources has given, level by level. All ranks call it, and get the same error.
///
/// Sources are reached, and so is each end of an arc from a vertex that is. That nothing else is shows a count: a search in levels
/// reaches as many.
pub fn verify<A: Arc>(
    comm: &Comm,
    graph: &Graph<A>,
    sources: &[u64],
    visited: &Bits,
    messages: &Messages,
) -> Result<()> {
    let (view, layout) = (graph.view(), graph.layout());
    let mut seen = Bits::try_new(view.len())?;
    visited.iter().for_each(|place| seen.put(view.own().start + place));
    view.gather_bits(comm, &mut seen)?;
    let is_visited = |place| u8::from(visited.has(place));
    let hubs = graph.hubs().gather(comm, is_visited)?;
    let first = layout.first(layout.rank());
    let missed = sources.iter().find(|source| graph.mine(**source).is_some_and(|place| !visited.has(place)));
    let mut fault = missed.map(|source| Error::Wrong(format!("the source {source} is not reached")));
    for (from, _, row) in graph.rows_here(is_visited, &hubs).filter(|(_, is_visited, _)| *is_visited > 0) {
        if let Some(arc) = row.iter().find(|arc| !seen.has(arc.target() as usize)) {
            let to = view.number(layout, arc.target());
            fault.get_or_insert(Error::Wrong(format!("{from} is reached, and {to} behind an arc from it is not")));
        }
    }
    agree(comm, fault.map_or(Ok(()), Err))?;

    let mut search = bfs::messages::Search::<A, u64>::new(comm, graph, messages)?;
    let labels = search.run_from(sources)?;
    let is_reached = |place: usize| labels[place].level != bfs::UNREACHED;
    let wrong = (0..graph.own()).find(|place| is_reached(*place) != visited.has(*place));
    let wrong = wrong.map(|place| Error::Wrong(format!("vertex {} cannot be reached", first + place as u64)));
    agree(comm, wrong.map_or(Ok(()), Err))
}
