//! Colouring: in each colour, finds the component of the vertex whose global id is the colour.
//!
//! Colours are label-correcting, in one epoch. Each rank starts from its least ids and propagates each colour as far as
//! possible, so that a single rank never corrects a colour.

use treepie_am::{Builder, Context, Port};

use super::{Direction, SccPhase, SccSearch, SccState};
use crate::patterns::traversal::Traversal;
use crate::vertex_id::VertexId;
use crate::{EdgeWeight, Result};

pub(super) fn register<'g, W: EdgeWeight>(build: &mut Builder<SccState<'g, W>>) -> Port<<u64 as VertexId>::Message> {
    let colour = build.port::<<u64 as VertexId>::Message>("colour");
    build.on(colour, |state: &mut SccState<'g, W>, cx, message| {
        let (vertex, colour) = u64::from_message(message);
        state.colour(vertex, colour);
        state.drain(cx);
    });
    build.combine_min(colour, |message| u64::from_message(*message).0.into(), |message| u64::from_message(*message).1);
    colour
}

impl<W: EdgeWeight> SccState<'_, W> {
    fn colour(&mut self, vertex: u32, colour: u64) {
        if colour < self.colours[vertex as usize] && !self.is_settled(vertex) {
            self.colours[vertex as usize] = colour;
            self.worklist.push(vertex);
        }
    }

    pub(super) fn expand_coloured(&mut self, cx: &mut Context<Self>, vertex: u32, direction: Direction) {
        let colour = self.colours[vertex as usize];
        let local_start = self.local_start() as u32;
        let (local, remote) = self.edges[direction as usize].local_and_remote(vertex as usize);
        for arc in local {
            self.colour(arc.target - local_start, colour);
        }
        for arc in remote {
            let target = arc.target;
            if !self.settled.contains(target as usize) && self.last_sent.update(target, colour, u64::lt) {
                let (rank, local_index) = self.graph.view().owner(target);
                cx.send(self.ports.colour, rank, colour.to_message(local_index));
            }
        }
    }

    fn is_own_colour(&self, vertex: u32) -> bool {
        self.colours[vertex as usize] == self.global_id(vertex)
    }
}

impl<W: EdgeWeight> SccSearch<'_, W> {
    /// Colours each remaining vertex with the least global id that reaches it in a direction, and finds the components
    /// of vertices that are their own colour.
    pub(super) fn colour(&mut self, direction: Direction) -> Result<()> {
        let state = &mut self.state;
        state.phase = SccPhase::Colour(direction);
        state.last_sent.clear();
        for vertex in &state.remaining {
            state.colours[*vertex as usize] = state.global_id(*vertex);
        }
        let remaining = std::mem::take(&mut state.remaining);
        self.am.named("colour").epoch_for(state, remaining.iter().copied(), |cx, state, vertex| {
            // A vertex with another colour has propagated it already.
            if state.is_own_colour(vertex) {
                state.expand(cx, vertex);
                state.drain(cx);
            }
        })?;
        let roots = remaining.iter().copied().filter(|vertex| state.is_own_colour(*vertex)).collect();
        state.remaining = remaining;
        self.reach(roots, direction.opposite())?;
        self.state.settle_reached(|state, vertex| state.colours[vertex as usize]);
        Ok(())
    }
}
