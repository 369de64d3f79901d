//! Reachability: the vertices reachable from a set of sources, in one epoch.   [active messages paper, algorithm 3]
//!
//! ```text
//! message handler explore(v)                       epoch: run the handler for each source
//!   if visited[v] = 0
//!     visited[v] <- 1
//!     for neighbors w of v: send explore(w) to owner(w)
//! ```
//!
//! The order of exploration does not matter, so no rank waits for another. Cost: each arc is followed once; each rank
//! sends at most one message to each remote vertex.

use std::borrow::Borrow;

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::collected;
use treepie_comm::Sum;

use crate::bfs::active_messages::AmBfs;
use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::patterns::traversal::{self, Traversal};
use crate::{AmConfig, AmTraffic, Bitmap, EdgeWeight, Graph, PropertyMap, Result, bfs};

/// Options of reachability.
#[derive(Clone, Debug, Default)]
pub struct ReachOptions {
    /// How active messages are sent.
    pub config: AmConfig,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct ReachResult<'g, W: EdgeWeight = ()> {
    sources: Vec<u64>,
    /// 1 for the vertices that are reachable from a source, the sources included; 0 for the others.
    pub reached: PropertyMap<'g, u8, W>,
    config: AmConfig,
}

/// The summary of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachSummary {
    /// The number of reached vertices.
    pub reached: u64,
    /// The number of their arcs without self-loops.
    pub num_arcs: u64,
}

impl<W: EdgeWeight> ReachResult<'_, W> {
    /// The numbers of vertices and arcs. All ranks call it.
    pub fn summary(&self) -> Result<ReachSummary> {
        let (reached, num_arcs) = count_reached(self.reached.graph(), &self.visited()?)?;
        Ok(ReachSummary { reached, num_arcs })
    }

    /// Verifies the result by another search. All ranks call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        verify(self.reached.graph(), &self.sources, &self.visited()?, &self.config)
    }

    fn visited(&self) -> Result<Bitmap> {
        let mut visited = Bitmap::try_new(self.reached.local().len())?;
        let reached = self.reached.local().iter().enumerate().filter(|(_, reached)| **reached != 0);
        reached.for_each(|(local_index, _)| visited.set(local_index));
        Ok(visited)
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// The vertices reachable from these sources, given by external ids. All ranks call it with the same sources.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if a source does not exist.
    pub fn reach(&self, sources: impl IntoIterator<Item = impl Borrow<u64>>) -> Result<ReachResult<'_, W>> {
        self.reach_with(sources, &ReachOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`reach`](Self::reach).
    pub fn reach_with(
        &self,
        sources: impl IntoIterator<Item = impl Borrow<u64>>,
        options: &ReachOptions,
    ) -> Result<ReachResult<'_, W>> {
        let sources = sources.into_iter().map(|source| self.find_vertex(*source.borrow()));
        let sources = sources.collect::<Result<Vec<u64>>>()?;
        let mut search = Reachability::new(self, &options.config)?;
        let visited = search.run(&sources)?;
        let reached = self.local_vertices().map(|local_index| u8::from(visited.contains(local_index)));
        let reached = PropertyMap::new(self, collected(reached, VALUES_PURPOSE)?)?;
        Ok(ReachResult { sources, reached, config: options.config.clone() })
    }
}

/// A reachability search, reusable for any number of source sets.
pub struct Reachability<'g, W: EdgeWeight> {
    graph: &'g Graph<W>,
    am: ActiveMessages<ReachState<'g, W>>,
    state: ReachState<'g, W>,
}

struct ReachState<'g, W> {
    graph: &'g Graph<W>,
    /// Local vertices that are reached.
    visited: Bitmap,
    /// Remote vertices, by index of the view, that a message was sent to.
    notified: Bitmap,
    worklist: Vec<u32>,
    explore: Port<u32>,
    hub: Port<u32>,
}

impl<W: EdgeWeight> ReachState<'_, W> {
    #[inline]
    fn explore(&mut self, vertex: u32) {
        if self.visited.insert(vertex as usize) {
            self.worklist.push(vertex);
        }
    }

    #[inline(always)]
    fn explore_local(&mut self, arcs: &[CsrEdge<W>]) {
        let local_start = self.graph.view().local_range().start as u32;
        arcs.iter().for_each(|arc| self.explore(arc.target - local_start));
    }
}

impl<W: EdgeWeight> Traversal for ReachState<'_, W> {
    fn worklist(&mut self) -> &mut Vec<u32> {
        &mut self.worklist
    }

    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let graph = self.graph;
        let (local, remote) = graph.out_edges().local_and_remote(vertex as usize);
        self.explore_local(local);
        graph.hubs().notify_delegates(cx, self.hub, vertex, |index| index);
        for arc in remote {
            if self.notified.insert(arc.target as usize) {
                let (rank, local_index) = graph.view().owner(arc.target);
                cx.send(self.explore, rank, local_index);
            }
        }
    }
}

impl<'g, W: EdgeWeight> Reachability<'g, W> {
    /// Prepares a search. All ranks call it.
    pub fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        let mut build = ActiveMessages::<ReachState<'g, W>>::builder(graph.comm());
        let explore = build.port::<u32>("explore");
        build.on(explore, |state: &mut ReachState<'g, W>, cx, vertex| {
            state.explore(vertex);
            state.drain(cx);
        });
        let hub = build.port::<u32>("hub");
        build.on(hub, |state: &mut ReachState<'g, W>, cx, hub| {
            state.explore_local(state.graph.hubs().delegate_edges(hub));
            state.drain(cx);
        });
        let am = config.start(build)?;
        let (visited, notified) = (Bitmap::try_new(graph.num_local())?, Bitmap::try_new(graph.view().len())?);
        Ok(Self { graph, am, state: ReachState { graph, visited, notified, worklist: Vec::new(), explore, hub } })
    }

    /// Searches from sources given by global id. All ranks call it with the same sources.
    pub fn run(&mut self, sources: &[u64]) -> Result<&Bitmap> {
        let graph = self.graph;
        self.run_from_local(sources.iter().filter_map(|source| graph.local_index(*source)))
    }

    /// Searches from the given local vertices of all ranks. All ranks call it.
    pub(crate) fn run_from_local(&mut self, sources: impl Iterator<Item = usize>) -> Result<&Bitmap> {
        self.state.visited.clear();
        self.state.notified.clear();
        sources.for_each(|local_index| self.state.explore(local_index as u32));
        traversal::traverse(&mut self.am, &mut self.state)?;
        Ok(&self.state.visited)
    }

    /// The message statistics of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}

/// The number of reached vertices, and of their arcs without self-loops. All ranks call it.
pub fn count_reached<W: EdgeWeight>(graph: &Graph<W>, visited: &Bitmap) -> Result<(u64, u64)> {
    let arcs = visited.iter().map(|local_index| graph.degree_without_self_loops(local_index)).sum();
    let mut counts = [visited.count_ones(), arcs];
    graph.comm().allreduce_in_place(&mut counts, Sum)?;
    Ok(counts.into())
}

/// Verifies the result of a search from some sources. All ranks call it, and get the same error.
///
/// Sources are reached, and so is the target of each arc of a reached vertex. A breadth-first search shows that nothing
/// else is reached.
pub fn verify<W: EdgeWeight>(graph: &Graph<W>, sources: &[u64], visited: &Bitmap, config: &AmConfig) -> Result<()> {
    let (view, layout) = (graph.view(), graph.layout());
    let mut seen = Bitmap::try_new(view.len())?;
    visited.iter().for_each(|local_index| seen.set(view.local_range().start + local_index));
    graph.update_ghost_bits(&mut seen)?;
    let is_visited = |local_index| u8::from(visited.contains(local_index));
    let hubs = graph.allgather_hubs(is_visited)?;
    let missed = sources
        .iter()
        .find(|source| graph.local_index(**source).is_some_and(|local_index| !visited.contains(local_index)));
    let mut fault = missed.map(|source| format!("the source {source} is not reached"));
    for (from, _, row) in graph.local_rows(is_visited, &hubs).filter(|(_, is_visited, _)| *is_visited > 0) {
        if let Some(arc) = row.iter().find(|arc| !seen.contains(arc.target as usize)) {
            let to = view.global_id(layout, arc.target);
            fault.get_or_insert_with(|| format!("vertex {from} is reached, but its neighbor {to} is not"));
        }
    }
    graph.refuse(fault)?;

    let mut search = AmBfs::<W, u64>::new(graph, config)?;
    let labels = search.run_from(sources)?;
    let is_reached = |local_index: usize| labels[local_index].level != bfs::UNREACHED;
    let wrong = graph.local_vertices().find(|vertex| is_reached(*vertex) != visited.contains(*vertex));
    graph.refuse(wrong.map(|vertex| format!("vertex {} cannot be reached", graph.first_global_id() + vertex as u64)))
}
