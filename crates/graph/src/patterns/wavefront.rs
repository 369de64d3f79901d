//! A wavefront that sets labels: everything on one level is done before anything on the next.   [section 4.1]
//!
//! One epoch a level. The body follows the arcs of the front's vertices, and sends; handlers label vertices that have no label
//! yet, and put them into the next front. A label never changes.

use treepie_am::{ActiveMessages, Context};

use crate::Result;

/// The vertices of a rank in the front, and those in the next one.
#[derive(Clone, Debug, Default)]
pub struct Front {
    next: Vec<u32>,
}

impl Front {
    /// A vertex of this rank is in the next front.
    #[inline]
    pub fn join<S>(&mut self, cx: &mut Context<S>, vertex: u32) {
        self.next.push(vertex);
        cx.add(1);
    }

    /// A vertex of this rank is in the first front.
    pub fn begin_with(&mut self, vertex: u32) {
        self.next.push(vertex);
    }
}

/// State with a front in it.
pub trait HasFront {
    /// The front.
    fn front(&mut self) -> &mut Front;
}

/// Goes on from the first front until the next one is empty on all ranks. For each level `begin` is called, and `follow` for each
/// vertex of its front. Returns how many levels there were. All ranks call it.
pub fn expand<S: HasFront>(
    am: &mut ActiveMessages<S>,
    state: &mut S,
    mut begin: impl FnMut(&mut S),
    mut follow: impl FnMut(&mut Context<S>, &mut S, u32),
) -> Result<u32> {
    let mut levels = 1;
    loop {
        let front = std::mem::take(&mut state.front().next);
        begin(state);
        if am.epoch_for(state, front, &mut follow)? == 0 {
            return Ok(levels);
        }
        levels += 1;
    }
}
