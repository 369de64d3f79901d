//! Trimming: vertices without in-edges or without out-edges are components of one vertex.

use treepie_am::{Builder, Context, Port};

use super::{Direction, SccPhase, SccSearch, SccState};
use crate::csr::CsrEdge;
use crate::patterns::traversal::{self, Traversal};
use crate::{EdgeWeight, Result};

pub(super) fn register<'g, W: EdgeWeight>(build: &mut Builder<SccState<'g, W>>) -> [Port<u32>; 2] {
    Direction::BOTH.map(|direction| {
        let port_name = if direction == Direction::Forward { "lose an arc out" } else { "lose an arc in" };
        let decrement = build.port::<u32>(port_name);
        build.on(decrement, move |state: &mut SccState<'g, W>, cx, vertex| {
            state.decrement_degree(vertex, direction);
            state.drain(cx);
        });
        decrement
    })
}

impl<W: EdgeWeight> SccState<'_, W> {
    /// Counts the degrees among remaining vertices. Trims vertices of degree zero in a direction.
    fn count_degrees(&mut self) {
        let local_start = self.local_start();
        for vertex in &self.remaining {
            let vertex = *vertex as usize;
            let is_remaining = |arc: &&CsrEdge<W>| {
                arc.target as usize != local_start + vertex && !self.settled.contains(arc.target as usize)
            };
            self.degrees[vertex] = self.edges.map(|edges| edges.row(vertex).iter().filter(is_remaining).count() as u32);
        }
        // No vertex is trimmed before all are counted, since trimming decrements the degrees that counted it.
        let remaining = std::mem::take(&mut self.remaining);
        for vertex in &remaining {
            if self.degrees[*vertex as usize].contains(&0) {
                self.trim_vertex(*vertex);
            }
        }
        self.remaining = remaining;
    }

    fn trim_vertex(&mut self, vertex: u32) {
        self.settle(vertex, self.global_id(vertex));
        self.worklist.push(vertex);
    }

    fn decrement_degree(&mut self, vertex: u32, direction: Direction) {
        if self.is_settled(vertex) {
            return;
        }
        let degree = &mut self.degrees[vertex as usize][direction as usize];
        *degree -= 1;
        if *degree == 0 {
            self.trim_vertex(vertex);
        }
    }

    /// Decrements the degrees of the neighbors of a trimmed vertex.
    pub(super) fn expand_trimmed(&mut self, cx: &mut Context<Self>, vertex: u32) {
        // It has no neighbors in one direction.
        let has_no_in_edges = self.degrees[vertex as usize][Direction::Backward as usize] == 0;
        let direction = if has_no_in_edges { Direction::Forward } else { Direction::Backward };
        let opposite = direction.opposite();
        let local_start = self.local_start() as u32;
        let (local, remote) = self.edges[direction as usize].local_and_remote(vertex as usize);
        for arc in local {
            self.decrement_degree(arc.target - local_start, opposite);
        }
        for arc in remote.iter().filter(|arc| !self.settled.contains(arc.target as usize)) {
            let (rank, local_index) = self.graph.view().owner(arc.target);
            cx.send(self.ports.decrement[opposite as usize], rank, local_index);
        }
    }
}

impl<W: EdgeWeight> SccSearch<'_, W> {
    /// Trims vertices without remaining neighbors in a direction, until there are none.
    pub(super) fn trim(&mut self) -> Result<()> {
        self.state.phase = SccPhase::Trim;
        self.state.count_degrees();
        traversal::traverse(self.am.named("trim"), &mut self.state)?;
        let state = &mut self.state;
        let (settled, local_start) = (&state.settled, state.graph.view().local_range().start);
        state.remaining.retain(|vertex| !settled.contains(local_start + *vertex as usize));
        Ok(())
    }
}
