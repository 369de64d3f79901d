//! Verification of SSSP distances without another search.   [Graph 500, kernel 3 validation]
//!
//! The distance of the root is zero. No arc shortens a distance. Every vertex with a finite distance is reached from
//! the root along tight arcs, whose length is, to the last bit, the difference of the distances of their endpoints.

use treepie_am::{ActiveMessages, Context, Port};

use crate::csr::CsrEdge;
use crate::patterns::traversal::{self, Traversal};
use crate::{AmConfig, Bitmap, Graph, Result, Weight};

struct SsspVerifyState<'g, W> {
    graph: &'g Graph<W>,
    /// By index of the view.
    distances: &'g [W],
    /// By index of the hub.
    hub_distances: &'g [W],
    reached: Bitmap,
    worklist: Vec<u32>,
    reach: Port<u32>,
    hub: Port<u32>,
}

impl<W: Weight> SsspVerifyState<'_, W> {
    fn visit(&mut self, vertex: u32) {
        if self.reached.insert(vertex as usize) {
            self.worklist.push(vertex);
        }
    }

    /// Visits the targets of tight arcs of a vertex at a distance.
    fn visit_tight_edges(&mut self, cx: &mut Context<Self>, distance: W, arcs: &[CsrEdge<W>]) {
        let view = self.graph.view();
        let local = view.local_range();
        for arc in arcs {
            let target = arc.target as usize;
            if self.distances[target] == distance.add(arc.weight) {
                if local.contains(&target) {
                    self.visit((target - local.start) as u32);
                } else {
                    let (rank, local_index) = view.owner(arc.target);
                    cx.send(self.reach, rank, local_index);
                }
            }
        }
    }
}

impl<W: Weight> Traversal for SsspVerifyState<'_, W> {
    fn worklist(&mut self) -> &mut Vec<u32> {
        &mut self.worklist
    }

    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let graph = self.graph;
        let distance = self.distances[graph.view().local_range().start + vertex as usize];
        self.visit_tight_edges(cx, distance, graph.out_edges().row(vertex as usize));
        graph.hubs().notify_delegates(cx, self.hub, vertex, |index| index);
    }
}

/// Verifies the distances of a search from a root given by global id. All ranks call it, and get the same error.
pub(super) fn verify<W: Weight>(graph: &Graph<W>, root: u64, distances: &[W], config: &AmConfig) -> Result<()> {
    let (view, layout, first) = (graph.view(), graph.layout(), graph.first_global_id());
    graph.check_root(root)?;
    let view_distances = graph.with_ghosts(distances.iter().copied())?;
    let hubs = graph.allgather_hubs(|local_index| distances[local_index])?;

    let mut fault = None;
    for (global_id, distance) in (first..).zip(distances) {
        if (global_id == root && *distance != W::ZERO) || *distance < W::ZERO || distance.as_f64().is_nan() {
            fault = Some(format!("the distance from {root} to {global_id} is {distance}"));
        }
    }
    for (global_id, distance, row) in graph.local_rows(|local_index| distances[local_index], &hubs) {
        let is_too_long = |arc: &CsrEdge<W>| distance.add(arc.weight) >= W::INFINITY;
        if distance < W::INFINITY && row.iter().any(is_too_long) {
            fault = Some(format!("paths through vertex {global_id} are too long for the type of weights"));
        }
        let makes_shorter = |arc: &&CsrEdge<W>| view_distances[arc.target as usize] > distance.add(arc.weight);
        if let Some(arc) = row.iter().find(makes_shorter) {
            let (target, other) = (view.global_id(layout, arc.target), view_distances[arc.target as usize]);
            fault = Some(format!(
                "vertex {global_id} at {distance} has an arc of {} to {target}, which is at {other} (global ids)",
                arc.weight
            ));
        }
    }
    graph.refuse(fault)?;

    let mut build = ActiveMessages::<SsspVerifyState<'_, W>>::builder(graph.comm());
    let reach = build.port::<u32>("reach");
    build.on(reach, |state: &mut SsspVerifyState<'_, W>, cx, vertex| {
        state.visit(vertex);
        state.drain(cx);
    });
    let hub = build.port::<u32>("hub");
    build.on(hub, |state: &mut SsspVerifyState<'_, W>, cx, hub| {
        state.visit_tight_edges(cx, state.hub_distances[hub as usize], state.graph.hubs().delegate_edges(hub));
        state.drain(cx);
    });
    let mut am = config.start(build)?;
    let (all_distances, reached) = (&view_distances, Bitmap::try_new(graph.num_local())?);
    let mut state = SsspVerifyState {
        graph,
        distances: all_distances,
        hub_distances: &hubs,
        reached,
        worklist: Vec::new(),
        reach,
        hub,
    };
    if let Some(local_index) = graph.local_index(root) {
        state.visit(local_index as u32);
    }
    traversal::traverse(&mut am, &mut state)?;
    let lost = graph
        .local_vertices()
        .find(|local_index| state.reached.contains(*local_index) != (distances[*local_index] < W::INFINITY));
    let lost = lost.map(|local_index| {
        let global_id = first + local_index as u64;
        format!("vertex {global_id} is at {}, and no path of that length leads to it", distances[local_index])
    });
    graph.refuse(lost)
}
