//! A search in one direction within colors, from one root per color.

use treepie_am::{Builder, Context, Port};

use super::{Direction, SccPhase, SccSearch, SccState};
use crate::patterns::traversal::{self, Traversal};
use crate::vertex_id::VertexId;
use crate::{EdgeWeight, Result};

pub(super) fn register<'g, W: EdgeWeight>(build: &mut Builder<SccState<'g, W>>) -> Port<<u64 as VertexId>::Message> {
    let reach = build.port::<<u64 as VertexId>::Message>("reach");
    build.on(reach, |state: &mut SccState<'g, W>, cx, message| {
        let (vertex, color) = u64::from_message(message);
        state.reach(vertex, color);
        state.drain(cx);
    });
    reach
}

impl<W: EdgeWeight> SccState<'_, W> {
    fn reach(&mut self, vertex: u32, color: u64) {
        if self.colors[vertex as usize] == color && !self.is_settled(vertex) && self.reached.insert(vertex as usize) {
            self.worklist.push(vertex);
        }
    }

    pub(super) fn expand_reached(&mut self, cx: &mut Context<Self>, vertex: u32, direction: Direction) {
        let color = self.colors[vertex as usize];
        let local_start = self.local_start() as u32;
        let (local, remote) = self.edges[direction as usize].local_and_remote(vertex as usize);
        for arc in local {
            self.reach(arc.target - local_start, color);
        }
        for arc in remote {
            let target = arc.target;
            // Only the owner knows the target's color. With a single color, each target gets one message.
            if !self.settled.contains(target as usize) && self.last_sent.update(target, color, u64::ne) {
                let (rank, local_index) = self.graph.view().owner(target);
                cx.send(self.ports.reach, rank, color.to_message(local_index));
            }
        }
    }
}

impl<W: EdgeWeight> SccSearch<'_, W> {
    /// Searches from these local roots, and those of other ranks, each within its color.
    pub(super) fn reach(&mut self, roots: Vec<u32>, direction: Direction) -> Result<()> {
        let state = &mut self.state;
        state.phase = SccPhase::Reach(direction);
        state.last_sent.clear();
        state.reached.clear();
        for vertex in roots {
            state.reach(vertex, state.colors[vertex as usize]);
        }
        traversal::traverse(self.am.named("reach"), state)?;
        Ok(())
    }
}
