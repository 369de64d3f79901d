//! Parallel search: one epoch in which everything that can be reached is, in any order.   [section 4.3]
//!
//! A handler that reaches a vertex follows its arcs at once: other ranks' vertices by messages, its own by a list, so that
//! nothing is called recursively however deep the graph is.

use treepie_am::{ActiveMessages, Context};

use crate::Result;

/// State with a list of vertices whose arcs are to be followed.
pub trait Spreading: Sized {
    /// Vertices of this rank that were reached and wait for that.
    fn waiting(&mut self) -> &mut Vec<u32>;

    /// Follows the arcs of a vertex: sends, and puts own vertices that are reached for the first time on the list.
    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32);

    /// Follows the arcs of all that wait. Handlers call it after they have put something on the list.
    fn spread(&mut self, cx: &mut Context<Self>) {
        while let Some(vertex) = self.waiting().pop() {
            self.follow(cx, vertex);
        }
    }
}

/// One epoch, from those that wait on each rank. Returns the sum of what was added. All ranks call it.
pub fn spread<S: Spreading>(am: &mut ActiveMessages<S>, state: &mut S) -> Result<u64> {
    let first = std::mem::take(state.waiting());
    Ok(am.epoch_for(state, first, |cx, state, vertex| {
        state.follow(cx, vertex);
        state.spread(cx);
    })?)
}
