//! Coloring: in each color, finds the component of the vertex whose global id is the color.
//!
//! Colors are label-correcting, in one epoch. Each rank starts from its least ids and propagates each color as far as
//! possible, so that a single rank never corrects a color.

use treepie_am::{Builder, Context, Port};

use super::{Direction, SccPhase, SccSearch, SccState};
use crate::patterns::traversal::Traversal;
use crate::vertex_id::VertexId;
use crate::{EdgeWeight, Result};

pub(super) fn register<'g, W: EdgeWeight>(build: &mut Builder<SccState<'g, W>>) -> Port<<u64 as VertexId>::Message> {
    let color = build.port::<<u64 as VertexId>::Message>("color");
    build.on(color, |state: &mut SccState<'g, W>, cx, message| {
        let (vertex, color) = u64::from_message(message);
        state.color(vertex, color);
        state.drain(cx);
    });
    build.combine_min(color, |message| u64::from_message(*message).0.into(), |message| u64::from_message(*message).1);
    color
}

impl<W: EdgeWeight> SccState<'_, W> {
    fn color(&mut self, vertex: u32, color: u64) {
        if color < self.colors[vertex as usize] && !self.is_settled(vertex) {
            self.colors[vertex as usize] = color;
            self.worklist.push(vertex);
        }
    }

    pub(super) fn expand_colored(&mut self, cx: &mut Context<Self>, vertex: u32, direction: Direction) {
        let color = self.colors[vertex as usize];
        let local_start = self.local_start() as u32;
        let (local, remote) = self.edges[direction as usize].local_and_remote(vertex as usize);
        for arc in local {
            self.color(arc.target - local_start, color);
        }
        for arc in remote {
            let target = arc.target;
            if !self.settled.contains(target as usize) && self.last_sent.update(target, color, u64::lt) {
                let (rank, local_index) = self.graph.view().owner(target);
                cx.send(self.ports.color, rank, color.to_message(local_index));
            }
        }
    }

    fn is_own_color(&self, vertex: u32) -> bool {
        self.colors[vertex as usize] == self.global_id(vertex)
    }
}

impl<W: EdgeWeight> SccSearch<'_, W> {
    /// Colors each remaining vertex with the least global id that reaches it in a direction, and finds the components
    /// of vertices that are their own color.
    pub(super) fn color(&mut self, direction: Direction) -> Result<()> {
        let state = &mut self.state;
        state.phase = SccPhase::Color(direction);
        state.last_sent.clear();
        for vertex in &state.remaining {
            state.colors[*vertex as usize] = state.global_id(*vertex);
        }
        let remaining = std::mem::take(&mut state.remaining);
        self.am.named("color").epoch_for(state, remaining.iter().copied(), |cx, state, vertex| {
            // A vertex with another color has propagated it already.
            if state.is_own_color(vertex) {
                state.expand(cx, vertex);
                state.drain(cx);
            }
        })?;
        let roots = remaining.iter().copied().filter(|vertex| state.is_own_color(*vertex)).collect();
        state.remaining = remaining;
        self.reach(roots, direction.opposite())?;
        self.state.settle_reached(|state, vertex| state.colors[vertex as usize]);
        Ok(())
    }
}
