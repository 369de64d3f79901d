//! A search in one direction among vertices of one colour, from any number of vertices of different colours.

use treepie_am::{Builder, Context, Port};

use super::{Direction, Search, State, Task};
use crate::Result;
use crate::id::Id;
use crate::patterns::search::{self, Spreading};
use crate::rows::Arc;

pub(super) fn register<'g, A: Arc>(build: &mut Builder<State<'g, A>>) -> Port<<u64 as Id>::About> {
    let reach = build.port::<<u64 as Id>::About>("reach");
    build.on(reach, |state: &mut State<'g, A>, cx, about| {
        let (vertex, colour) = u64::parts(about);
        state.reach(vertex, colour);
        state.spread(cx);
    });
    reach
}

impl<A: Arc> State<'_, A> {
    fn reach(&mut self, vertex: u32, colour: u64) {
        if self.colours[vertex as usize] == colour && !self.is_gone(vertex) && self.reached.put_new(vertex as usize) {
            self.waiting.push(vertex);
        }
    }

    pub(super) fn follow_reached(&mut self, cx: &mut Context<Self>, vertex: u32, direction: Direction) {
        let colour = self.colours[vertex as usize];
        let own = self.own() as u32;
        let (near, far) = self.rows[direction as usize].parts(vertex as usize);
        for arc in near {
            self.reach(arc.target() - own, colour);
        }
        for arc in far {
            let there = arc.target();
            // Its colour is known to its owner only. Where all have the same, it is told once.
            if !self.gone.has(there as usize) && self.told.tell(there, colour, u64::ne) {
                let (rank, place) = self.graph.view().owner(there);
                cx.send(self.ports.reach, rank, colour.about(place));
            }
        }
    }
}

impl<A: Arc> Search<'_, A> {
    /// Searches from these own vertices, and those of other ranks, each among those of its colour.
    pub(super) fn reach(&mut self, from: Vec<u32>, direction: Direction) -> Result<()> {
        let state = &mut self.state;
        state.task = Task::Reach(direction);
        state.told.clear();
        state.reached.clear();
        for vertex in from {
            state.reach(vertex, state.colours[vertex as usize]);
        }
        search::spread(self.am.named("reach"), state)?;
        Ok(())
    }
}
