//! Coarsening: vertices are contracted to trees, and trees to their roots, which stand for all of them.   [section 4.4]
//!
//! Each vertex has a parent, which is never greater than itself, so there are no cycles. An algorithm hooks roots onto lesser
//! vertices, by its own messages. Shortcutting then makes parents of parents parents, until trees are flat.   [algorithm 4, lines 25
//! to 31]

use treepie_am::{ActiveMessages, Builder, Call, Context};

use crate::id::{halves, whole};
use crate::rows::Arc;
use crate::{Graph, Result};

/// State with the parents of own vertices, by number. A parent is never greater than its child.
pub trait Trees {
    /// The parents.
    fn parents(&mut self) -> &mut [u64];
}

/// The messages of shortcutting: a question for the parent of a vertex, for one whose parent that is.
#[derive(Clone, Copy)]
pub struct Shortcut {
    double: Call<u32, [u32; 2], u32>,
}

impl Shortcut {
    /// Registers them.
    pub fn register<S: Trees>(build: &mut Builder<S>) -> Self {
        let double = build.call("pointer-double");
        build.on_call(
            double,
            |state: &mut S, _, place: u32| halves(state.parents()[place as usize]),
            |state, cx, vertex: u32, above: [u32; 2]| lower(state, cx, vertex as usize, whole(above)),
        );
        Self { double }
    }

    /// Goes on until the parents of all these vertices are roots. All ranks call it.
    pub fn flatten<S: Trees, A: Arc, V: Iterator<Item = usize>>(
        self,
        am: &mut ActiveMessages<S>,
        state: &mut S,
        graph: &Graph<A>,
        vertices: impl Fn() -> V,
    ) -> Result<()> {
        let changes = |am: &mut ActiveMessages<S>, state: &mut S| {
            am.epoch_for(state, vertices(), |cx, state, vertex| {
                let parent = state.parents()[vertex];
                match graph.layout().place(parent) {
                    (rank, place) if rank == graph.layout().rank() => {
                        let above = state.parents()[place as usize];
                        lower(state, cx, vertex, above);
                    }
                    (rank, place) => cx.call(self.double, rank, vertex as u32, place),
                }
            })
        };
        while changes(am, state)? > 0 {}
        Ok(())
    }
}

fn lower<S: Trees>(state: &mut S, cx: &mut Context<S>, vertex: usize, above: u64) {
    let parent = &mut state.parents()[vertex];
    if above < *parent {
        *parent = above;
        cx.add(1);
    }
}
