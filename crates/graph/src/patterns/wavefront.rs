//! Label-setting wavefront: one level is finished before the next begins.   [active messages paper, section 4.1]
//!
//! One epoch per level. The body sends messages along the arcs of the frontier; handlers label vertices that have no
//! label yet, and push them onto the next frontier. A label never changes.

use treepie_am::{ActiveMessages, Context};

use crate::Result;

/// The local vertices of the next frontier.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    next: Vec<u32>,
}

impl Frontier {
    /// Pushes a local vertex onto the next frontier.
    #[inline]
    pub fn push<S>(&mut self, cx: &mut Context<S>, vertex: u32) {
        self.next.push(vertex);
        cx.add_to_sum(1);
    }

    /// Pushes a local vertex onto the first frontier.
    pub fn push_root(&mut self, vertex: u32) {
        self.next.push(vertex);
    }
}

/// State with a frontier.
pub trait HasFrontier {
    /// The frontier.
    fn frontier(&mut self) -> &mut Frontier;
}

/// Runs levels from the first frontier until the next one is empty on all ranks. Calls `begin` for each level, and
/// `expand_vertex` for each vertex of its frontier. Returns the number of levels. All ranks call it.
pub fn expand<S: HasFrontier>(
    am: &mut ActiveMessages<S>,
    state: &mut S,
    mut begin: impl FnMut(&mut S),
    mut expand_vertex: impl FnMut(&mut Context<S>, &mut S, u32),
) -> Result<u32> {
    let mut levels = 1;
    loop {
        let frontier = std::mem::take(&mut state.frontier().next);
        begin(state);
        if am.epoch_for(state, frontier, &mut expand_vertex)? == 0 {
            return Ok(levels);
        }
        levels += 1;
    }
}
