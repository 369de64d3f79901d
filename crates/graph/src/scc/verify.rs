//! Verification of strongly connected components without another search for them.
//!
//! The label of a component is its least vertex, the root. Within the component the root reaches all vertices and is
//! reached from them, so vertices with one label are strongly connected. Different labels are different components,
//! since the condensation is acyclic: components can be removed in topological order, each without arcs from remaining
//! ones.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{with_capacity, zeroed};
use treepie_comm::Comm;

use super::Direction;
use crate::csr::{Csr, VALUES_PURPOSE};
use crate::patterns::traversal::{self, Traversal};
use crate::vertex_id::VertexId;
use crate::{AmConfig, Bitmap, EdgeWeight, Graph, Result};

struct SccVerifyState<'g, W: EdgeWeight> {
    graph: &'g Graph<W>,
    edges: &'g Csr<W>,
    /// By index of the view.
    labels: &'g [u64],
    /// Whether components are being removed: then arcs to other components decrement the in-degrees of their roots.
    is_removing: bool,
    /// The in-degree of each component among those that remain, at its root.
    in_degrees: Vec<u64>,
    /// By index of the view; for remote vertices, whether a message was sent.
    reached: Bitmap,
    worklist: Vec<u32>,
    reach: Port<u32>,
    add_in_degree: Port<<u64 as VertexId>::Message>,
    decrement_in_degree: Port<u32>,
}

impl<W: EdgeWeight> SccVerifyState<'_, W> {
    fn local_start(&self) -> usize {
        self.graph.view().local_range().start
    }

    fn visit(&mut self, vertex: u32) {
        if self.reached.insert(self.local_start() + vertex as usize) {
            self.worklist.push(vertex);
        }
    }

    fn decrement_in_degree(&mut self, vertex: u32) {
        let in_degree = &mut self.in_degrees[vertex as usize];
        *in_degree -= 1;
        if *in_degree == 0 {
            self.visit(vertex);
        }
    }

    /// The local vertices that are roots of components.
    fn roots(&self) -> Result<Vec<u32>> {
        let first = self.graph.first_global_id();
        let is_root = |vertex: &u32| self.labels[self.local_start() + *vertex as usize] == first + u64::from(*vertex);
        let mut roots = with_capacity(self.graph.num_local(), VALUES_PURPOSE)?;
        roots.extend((0..self.graph.num_local() as u32).filter(is_root));
        Ok(roots)
    }
}

impl<W: EdgeWeight> Traversal for SccVerifyState<'_, W> {
    fn worklist(&mut self) -> &mut Vec<u32> {
        &mut self.worklist
    }

    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let view = self.graph.view();
        let local = view.local_range();
        let label = self.labels[local.start + vertex as usize];
        for arc in self.edges.row(vertex as usize) {
            let target = arc.target as usize;
            if self.labels[target] != label {
                if self.is_removing {
                    let (rank, local_index) = self.graph.layout().owner(self.labels[target]);
                    cx.send(self.decrement_in_degree, rank, local_index);
                }
            } else if local.contains(&target) {
                self.visit((target - local.start) as u32);
            } else if self.reached.insert(target) {
                let (rank, local_index) = view.owner(arc.target);
                cx.send(self.reach, rank, local_index);
            }
        }
    }
}

/// Verifies the component labels of a search. All ranks call it, and get the same error.
pub(super) fn verify<W: EdgeWeight>(graph: &Graph<W>, labels: &[u64], config: &AmConfig) -> Result<()> {
    let in_edges = graph.require_in_edges("the verification of strongly connected components")?;
    let (view, layout, first) = (graph.view(), graph.layout(), graph.first_global_id());
    let too_great = (first..).zip(labels).find(|(global_id, label)| *label > global_id);
    graph.refuse(too_great.map(|(global_id, label)| {
        format!("vertex {global_id} is in component {label}, which is not the least global id in it")
    }))?;
    let view_labels = graph.with_ghosts(labels.iter().copied())?;

    let (mut am, [reach, decrement_in_degree], add_in_degree) = build_am(graph.comm(), config)?;
    let mut state = SccVerifyState {
        graph,
        edges: graph.out_edges(),
        labels: &view_labels,
        is_removing: false,
        in_degrees: zeroed(graph.num_local(), VALUES_PURPOSE)?,
        reached: Bitmap::try_new(view.len())?,
        worklist: with_capacity(graph.num_local(), VALUES_PURPOSE)?,
        reach,
        add_in_degree,
        decrement_in_degree,
    };
    let all_reached = |state: &SccVerifyState<'_, W>, what: &dyn Fn(u64, u64) -> String| {
        let lost =
            graph.local_vertices().find(|local_index| !state.reached.contains(view.local_range().start + *local_index));
        graph.refuse(lost.map(|local_index| what(first + local_index as u64, labels[local_index])))
    };
    for direction in Direction::BOTH {
        state.edges = if direction == Direction::Forward { graph.out_edges() } else { in_edges };
        state.reached.clear();
        for root in state.roots()? {
            state.visit(root);
        }
        traversal::traverse(&mut am, &mut state)?;
        all_reached(&state, &|global_id, label| {
            let (from, to) = if direction == Direction::Forward { (label, global_id) } else { (global_id, label) };
            format!(
                "vertex {global_id} is in component {label}, in which no path leads from {from} to {to} (global ids)"
            )
        })?;
    }

    am.epoch_for(&mut state, graph.local_vertices(), |cx, state, local_index| {
        let others =
            in_edges.row(local_index).iter().filter(|arc| state.labels[arc.target as usize] != labels[local_index]);
        let count = others.count() as u64;
        if count > 0 {
            let (rank, root) = layout.owner(labels[local_index]);
            cx.send(state.add_in_degree, rank, count.to_message(root));
        }
    })?;
    state.edges = graph.out_edges();
    state.is_removing = true;
    state.reached.clear();
    for root in state.roots()? {
        if state.in_degrees[root as usize] == 0 {
            state.visit(root);
        }
    }
    traversal::traverse(&mut am, &mut state)?;
    all_reached(&state, &|global_id, label| {
        format!(
            "component {label}, that of vertex {global_id}, is on a cycle of components, or behind one (global ids)"
        )
    })
}

/// The runtime, the ports that take a vertex, and the port that takes a count.
#[allow(clippy::type_complexity, reason = "it is destructured at once")]
fn build_am<'g, W: EdgeWeight>(
    comm: &Comm,
    config: &AmConfig,
) -> Result<(ActiveMessages<SccVerifyState<'g, W>>, [Port<u32>; 2], Port<<u64 as VertexId>::Message>)> {
    let mut build = ActiveMessages::<SccVerifyState<'g, W>>::builder(comm);
    let reach = build.port::<u32>("reach");
    build.on(reach, |state: &mut SccVerifyState<'g, W>, cx, vertex| {
        state.visit(vertex);
        state.drain(cx);
    });
    let decrement_in_degree = build.port::<u32>("leave");
    build.on(decrement_in_degree, |state: &mut SccVerifyState<'g, W>, cx, vertex| {
        state.decrement_in_degree(vertex);
        state.drain(cx);
    });
    let add_in_degree = build.port::<<u64 as VertexId>::Message>("enter");
    build.on(add_in_degree, |state: &mut SccVerifyState<'g, W>, _, message| {
        let (vertex, count) = u64::from_message(message);
        state.in_degrees[vertex as usize] += count;
    });
    Ok((config.start(build)?, [reach, decrement_in_degree], add_in_degree))
}
