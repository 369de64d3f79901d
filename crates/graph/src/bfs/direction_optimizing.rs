//! Direction-optimizing BFS.   [Beamer, Asanović, Patterson: Direction-optimizing breadth-first search, SC 2012]
//!
//! Top-down: the arcs of the frontier are followed. Local targets are visited at once, remote ones by messages, at most
//! one from each rank to each vertex. Bottom-up: each unvisited vertex searches its in-edges for a parent in the
//! frontier, and stops at the first; for that the frontier is a bitmap over the view. Bottom-up is cheaper when the
//! frontier has a large part of the unexplored arcs.
//!
//! Cost: one epoch per top-down level, one update of ghost bits and one allreduce per bottom-up level; each arc is
//! followed at most once top-down. The switching rule and its constants are those of the GAP benchmark suite, alpha =
//! 15 and beta = 18 [Beamer, Asanović, Patterson, arXiv:1508.03619]; the SC 2012 paper has 14 and 24.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_comm::Sum;

use super::label::{Label, UNREACHED};
use crate::bitmap::iter_ones;
use crate::csr::{Csr, CsrEdge, VALUES_PURPOSE};
use crate::vertex_id::VertexId;
use crate::{AmConfig, AmTraffic, Bitmap, EdgeWeight, Graph, Result};

/// Switch to bottom-up when the frontier has more than 1/ALPHA of the unexplored arcs.
const ALPHA: u64 = 15;
/// Switch back when the frontier shrinks and has at most 1/BETA of the vertices.
const BETA: u64 = 18;

/// Arcs of a vertex that are followed before the runtime makes progress.
const CHUNK_EDGES: usize = 1024;

/// A search, reusable for any number of roots.
pub(crate) struct DirectionOptimizingBfs<'g, W: EdgeWeight, I: VertexId> {
    graph: &'g Graph<W>,
    in_edges: &'g Csr<W>,
    am: ActiveMessages<DirectionOptimizingState<'g, W, I>>,
    state: DirectionOptimizingState<'g, W, I>,
    reach: Port<I::Message>,
    frontier: Bitmap,
    next_frontier: Bitmap,
    /// Local vertices with in-edges, and those of them that bottom-up steps scan: the others, in many graphs most, are
    /// skipped by words.
    has_in_edges: Bitmap,
    unvisited: Bitmap,
}

struct DirectionOptimizingState<'g, W: EdgeWeight, I: VertexId> {
    graph: &'g Graph<W>,
    labels: Vec<Label<I>>,
    /// The level being visited.
    level: u32,
    /// Vertices visited on this level.
    queue: Vec<u32>,
    /// Remote vertices, by index of the view, that are known to be visited: no more messages are sent to them.
    visited_ghosts: Bitmap,
}

impl<W: EdgeWeight, I: VertexId> DirectionOptimizingState<'_, W, I> {
    /// Visits a local vertex. Its degree, stored in place of the parent until then, is added to the epoch's sum.
    #[inline(always)]
    fn visit(&mut self, cx: &mut Context<Self>, local_index: u32, parent: I) {
        let label = &mut self.labels[local_index as usize];
        if label.level == UNREACHED {
            cx.add_to_sum(label.parent.to_u64());
            *label = Label { parent, level: self.level };
            self.queue.push(local_index);
        }
    }

    /// Follows some arcs of a vertex of the frontier.
    #[inline(always)]
    fn expand_edges(
        &mut self,
        cx: &mut Context<Self>,
        port: Port<I::Message>,
        vertex: u32,
        local: &[CsrEdge<W>],
        remote: &[CsrEdge<W>],
    ) {
        let view = self.graph.view();
        let parent = I::from_u64(self.graph.first_global_id() + u64::from(vertex));
        let local_start = view.local_range().start as u32;
        for arc in local {
            self.visit(cx, arc.target - local_start, parent);
        }
        for arc in remote {
            if self.visited_ghosts.insert(arc.target as usize) {
                let (rank, local_index) = view.owner(arc.target);
                cx.send(port, rank, parent.to_message(local_index));
            }
        }
    }
}

impl<'g, W: EdgeWeight, I: VertexId> DirectionOptimizingBfs<'g, W, I> {
    /// Prepares a search in a graph with in-edges. All ranks call it.
    pub(crate) fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        let in_edges = graph.require_in_edges("direction-optimizing BFS")?;
        let mut build = ActiveMessages::<DirectionOptimizingState<'g, W, I>>::builder(graph.comm());
        let reach = build.port::<I::Message>("reach");
        build.on_prefetch(
            reach,
            |state: &DirectionOptimizingState<'g, W, I>, message: &I::Message| {
                &state.labels[I::from_message(*message).0 as usize]
            },
            |state, cx, message| {
                let (local_index, parent) = I::from_message(message);
                state.visit(cx, local_index, parent);
            },
        );
        let am = config.start(build)?;
        let len = graph.view().len();
        let state = DirectionOptimizingState {
            graph,
            labels: filled(Label::NONE, graph.num_local(), VALUES_PURPOSE)?,
            level: 0,
            queue: Vec::new(),
            visited_ghosts: Bitmap::try_new(len)?,
        };
        let (frontier, next_frontier) = (Bitmap::try_new(len)?, Bitmap::try_new(len)?);
        let mut has_in_edges = Bitmap::try_new(graph.num_local())?;
        graph
            .local_vertices()
            .filter(|local_index| in_edges.degree(*local_index) > 0)
            .for_each(|local_index| has_in_edges.set(local_index));
        let unvisited = has_in_edges.clone();
        Ok(Self { graph, in_edges, am, state, reach, frontier, next_frontier, has_in_edges, unvisited })
    }

    /// Searches from a root given by global id. All ranks call it.
    pub(crate) fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.graph.check_root(root)?;
        let out_edges = self.graph.out_edges();
        for (local_index, label) in self.state.labels.iter_mut().enumerate() {
            *label = Label { parent: I::from_u64(out_edges.degree(local_index)), level: UNREACHED };
        }
        self.state.visited_ghosts.clear();
        self.state.queue.clear();
        self.state.level = 0;
        self.unvisited.words_mut().copy_from_slice(self.has_in_edges.words());
        let mut frontier_arcs = 0;
        if let Some(local_index) = self.graph.local_index(root) {
            frontier_arcs = out_edges.degree(local_index);
            self.state.labels[local_index] = Label { parent: I::from_u64(root), level: 0 };
            self.state.queue.push(local_index as u32);
        }
        frontier_arcs = self.graph.comm().allreduce_one(frontier_arcs, Sum)?;
        let mut unexplored = self.graph.num_arcs();
        while frontier_arcs > 0 {
            if frontier_arcs > unexplored / ALPHA {
                frontier_arcs = u64::from(self.bottom_up_phase()? > 0);
            } else {
                unexplored = unexplored.saturating_sub(frontier_arcs);
                frontier_arcs = self.top_down_step()?;
            }
        }
        Ok(&self.state.labels)
    }

    /// The message statistics of this rank so far.
    pub(crate) fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }

    /// One top-down level. Returns the number of arcs of the next frontier.
    fn top_down_step(&mut self) -> Result<u64> {
        let frontier = std::mem::take(&mut self.state.queue);
        self.state.level += 1;
        let (graph, port) = (self.graph, self.reach);
        let chunks = frontier.iter().flat_map(|vertex| {
            let (local, remote) = graph.out_edges().local_and_remote(*vertex as usize);
            let local = local.chunks(CHUNK_EDGES).map(move |chunk| (*vertex, chunk, &[][..]));
            local.chain(remote.chunks(CHUNK_EDGES).map(move |chunk| (*vertex, &[][..], chunk)))
        });
        Ok(self.am.epoch_for(&mut self.state, chunks, |cx, state, (vertex, local, remote)| {
            state.expand_edges(cx, port, vertex, local, remote);
        })?)
    }

    /// Some bottom-up levels. Returns the size of the last frontier.
    fn bottom_up_phase(&mut self) -> Result<u64> {
        let local = self.graph.view().local_range();
        self.frontier.clear();
        let queue = std::mem::take(&mut self.state.queue);
        queue.iter().for_each(|local_index| self.frontier.set(local.start + *local_index as usize));
        self.graph.update_ghost_bits(&mut self.frontier)?;
        let mut found = self.graph.comm().allreduce_one(queue.len() as u64, Sum)?;
        loop {
            let before = found;
            let found_local = self.bottom_up_step();
            found = self.graph.comm().allreduce_one(found_local, Sum)?;
            self.graph.update_ghost_bits(&mut self.next_frontier)?;
            std::mem::swap(&mut self.frontier, &mut self.next_frontier);
            let visited = self.state.visited_ghosts.words_mut().iter_mut();
            visited.zip(self.frontier.words()).for_each(|(visited, frontier)| *visited |= frontier);
            if found < before && found <= self.graph.num_vertices() / BETA {
                break;
            }
        }
        let words = &self.frontier.words()[local.start / 64..local.end.div_ceil(64)];
        let local_indices =
            words.iter().enumerate().flat_map(|(at, word)| iter_ones(*word).map(move |bit| 64 * at + bit));
        self.state.queue.extend(local_indices.map(|local_index| local_index as u32));
        Ok(found)
    }

    /// One bottom-up level for local vertices. Returns the number of vertices visited.
    fn bottom_up_step(&mut self) -> u64 {
        let (layout, view) = (self.graph.layout(), self.graph.view());
        let local_start = view.local_range().start;
        self.next_frontier.clear();
        self.state.level += 1;
        let mut found = 0;
        for (at, word) in self.unvisited.words_mut().iter_mut().enumerate() {
            for bit in iter_ones(*word) {
                let local_index = 64 * at + bit;
                let label = &mut self.state.labels[local_index];
                if label.level == UNREACHED {
                    let in_frontier = |arc: &&CsrEdge<W>| self.frontier.contains(arc.target as usize);
                    let Some(arc) = self.in_edges.row(local_index).iter().find(in_frontier) else { continue };
                    let parent = I::from_u64(view.global_id(layout, arc.target));
                    *label = Label { parent, level: self.state.level };
                    self.next_frontier.set(local_start + local_index);
                    found += 1;
                }
                // Visited now, or by an earlier top-down step.
                *word &= !(1 << bit);
            }
        }
        found
    }
}
