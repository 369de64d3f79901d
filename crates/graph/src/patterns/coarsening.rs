//! Coarsening: vertices are contracted to trees, and trees to their roots.   [active messages paper, section 4.4]
//!
//! The parent of a vertex is never greater than the vertex, so there are no cycles. The algorithm hooks roots onto
//! smaller vertices by its own messages. Shortcutting (pointer jumping) then replaces each parent by its parent until
//! all trees are flat.   [algorithm 4, lines 25 to 31]

use treepie_am::{ActiveMessages, Builder, Call, Context};

use crate::vertex_id::{join_u64, split_u64};
use crate::{EdgeWeight, Graph, Result};

/// State with the parents of local vertices, as global ids. A parent is never greater than its child.
pub trait HasParents {
    /// The parents.
    fn parents(&mut self) -> &mut [u64];
}

/// The messages of shortcutting: a request for the grandparent of a vertex, sent to the owner of its parent.
#[derive(Clone, Copy)]
pub struct PointerJumping {
    jump: Call<u32, [u32; 2], u32>,
}

impl PointerJumping {
    /// Registers the messages.
    pub fn register<S: HasParents>(build: &mut Builder<S>) -> Self {
        let jump = build.call("pointer-double");
        build.on_call(
            jump,
            |state: &mut S, _, local_index: u32| split_u64(state.parents()[local_index as usize]),
            |state, cx, vertex: u32, grandparent: [u32; 2]| {
                lower_parent(state, cx, vertex as usize, join_u64(grandparent))
            },
        );
        Self { jump }
    }

    /// Shortcuts until the parents of these vertices are roots. All ranks call it.
    pub fn compress<S: HasParents, W: EdgeWeight, V: Iterator<Item = usize>>(
        self,
        am: &mut ActiveMessages<S>,
        state: &mut S,
        graph: &Graph<W>,
        vertices: impl Fn() -> V,
    ) -> Result<()> {
        let changes = |am: &mut ActiveMessages<S>, state: &mut S| {
            am.epoch_for(state, vertices(), |cx, state, vertex| {
                let parent = state.parents()[vertex];
                match graph.layout().owner(parent) {
                    (rank, local_index) if rank == graph.layout().rank() => {
                        let grandparent = state.parents()[local_index as usize];
                        lower_parent(state, cx, vertex, grandparent);
                    }
                    (rank, local_index) => cx.call(self.jump, rank, vertex as u32, local_index),
                }
            })
        };
        while changes(am, state)? > 0 {}
        Ok(())
    }
}

fn lower_parent<S: HasParents>(state: &mut S, cx: &mut Context<S>, vertex: usize, grandparent: u64) {
    let parent = &mut state.parents()[vertex];
    if grandparent < *parent {
        *parent = grandparent;
        cx.add_to_sum(1);
    }
}
