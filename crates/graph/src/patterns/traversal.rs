//! Parallel search: one epoch that visits everything reachable, in any order.   [active messages paper, section 4.3]
//!
//! A handler that visits a vertex expands it at once: remote neighbors by messages, local ones by a worklist, so that
//! there is no recursion however deep the graph is.

use treepie_am::{ActiveMessages, Context};

use crate::Result;

/// State with a worklist of vertices to expand.
pub trait Traversal: Sized {
    /// Local vertices that were visited and not yet expanded.
    fn worklist(&mut self) -> &mut Vec<u32>;

    /// Expands a vertex: sends messages, and pushes local vertices that are visited for the first time onto the
    /// worklist.
    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32);

    /// Expands all vertices of the worklist. Handlers call it after they have pushed vertices.
    fn drain(&mut self, cx: &mut Context<Self>) {
        while let Some(vertex) = self.worklist().pop() {
            self.expand(cx, vertex);
        }
    }
}

/// Runs one epoch from the worklists of all ranks. Returns the sum that handlers added up. All ranks call it.
pub fn traverse<S: Traversal>(am: &mut ActiveMessages<S>, state: &mut S) -> Result<u64> {
    let first = std::mem::take(state.worklist());
    Ok(am.epoch_for(state, first, |cx, state, vertex| {
        state.expand(cx, vertex);
        state.drain(cx);
    })?)
}
