//! Shortcutting: parents of parents become parents, until trees are flat.   [active messages paper, algorithm 4, lines 25 to 31]

use treepie_am::{ActiveMessages, Builder, Call, Context};

use crate::rows::Arc;
use crate::{Graph, Result};

/// State with the parents of own vertices, by number. A parent is never greater than its child.
pub(super) trait Trees {
    fn parents(&mut self) -> &mut [u64];
}

/// Asks for the parent of a vertex, for one whose parent that is.
pub(super) type Double = Call<u32, [u32; 2], u32>;

pub(super) fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

pub(super) fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Registers the messages that shortcutting needs.
pub(super) fn register<S: Trees>(build: &mut Builder<S>) -> Double {
    let double = build.call("pointer-double");
    build.on_call(
        double,
        |state: &mut S, _, place: u32| halves(state.parents()[place as usize]),
        |state, cx, vertex: u32, above: [u32; 2]| lower(state, cx, vertex as usize, whole(above)),
    );
    double
}

fn lower<S: Trees>(state: &mut S, cx: &mut Context<S>, vertex: usize, above: u64) {
    let parent = &mut state.parents()[vertex];
    if above < *parent {
        *parent = above;
        cx.add(1);
    }
}

/// Goes on until the parents of all these vertices are roots. All ranks call it.
pub(super) fn flatten<S: Trees, A: Arc, V: Iterator<Item = usize>>(
    am: &mut ActiveMessages<S>,
    state: &mut S,
    graph: &Graph<A>,
    double: Double,
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
                (rank, place) => cx.call(double, rank, vertex as u32, place),
            }
        })
    };
    while changes(am, state)? > 0 {}
    Ok(())
}
