//! Some components of all that are left: in each colour that of the vertex whose number it is.
//!
//! Colours are corrected in one epoch. Each rank begins with its least numbers and lets each colour spread as far as it
//! can, so that without others it would never correct one.

use treepie_am::{Builder, Context, Port};

use super::{Direction, Search, State, Task};
use crate::Result;
use crate::id::Id;
use crate::patterns::search::Spreading;
use crate::rows::Arc;

pub(super) fn register<'g, A: Arc>(build: &mut Builder<State<'g, A>>) -> Port<<u64 as Id>::About> {
    let colour = build.port::<<u64 as Id>::About>("colour");
    build.on(colour, |state: &mut State<'g, A>, cx, about| {
        let (vertex, colour) = u64::parts(about);
        state.colour(vertex, colour);
        state.spread(cx);
    });
    build.combine_min(colour, |about| u64::parts(*about).0.into(), |about| u64::parts(*about).1);
    colour
}

impl<A: Arc> State<'_, A> {
    fn colour(&mut self, vertex: u32, colour: u64) {
        if colour < self.colours[vertex as usize] && !self.is_gone(vertex) {
            self.colours[vertex as usize] = colour;
            self.waiting.push(vertex);
        }
    }

    pub(super) fn follow_coloured(&mut self, cx: &mut Context<Self>, vertex: u32, direction: Direction) {
        let colour = self.colours[vertex as usize];
        let own = self.own() as u32;
        let (near, far) = self.rows[direction as usize].parts(vertex as usize);
        for arc in near {
            self.colour(arc.target() - own, colour);
        }
        for arc in far {
            let there = arc.target();
            if !self.gone.has(there as usize) && self.told.tell(there, colour, u64::lt) {
                let (rank, place) = self.graph.view().owner(there);
                cx.send(self.ports.colour, rank, colour.about(place));
            }
        }
    }

    fn has_own_colour(&self, vertex: u32) -> bool {
        self.colours[vertex as usize] == self.number(vertex)
    }
}

impl<A: Arc> Search<'_, A> {
    /// Gives each vertex that is left the least number that reaches it in a direction, and finds the components of
    /// vertices that have their own.
    pub(super) fn colour(&mut self, direction: Direction) -> Result<()> {
        let state = &mut self.state;
        state.task = Task::Colour(direction);
        state.told.clear();
        for vertex in &state.left {
            state.colours[*vertex as usize] = state.number(*vertex);
        }
        let left = std::mem::take(&mut state.left);
        self.am.named("colour").epoch_for(state, left.iter().copied(), |cx, state, vertex| {
            // One that has got another colour has passed it on already.
            if state.has_own_colour(vertex) {
                state.follow(cx, vertex);
                state.spread(cx);
            }
        })?;
        let roots = left.iter().copied().filter(|vertex| state.has_own_colour(*vertex)).collect();
        state.left = left;
        self.reach(roots, direction.opposite())?;
        self.state.settle_reached(|state, vertex| state.colours[vertex as usize]);
        Ok(())
    }
}
