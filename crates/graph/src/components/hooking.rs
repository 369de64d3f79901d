//! Connected components by hooking and shortcutting.   [Shiloach, Vishkin: An O(log n) parallel connectivity algorithm,
//! J. Algorithms 3 (1982); active messages paper, algorithm 4]
//!
//! Parents form trees, and a tree is a subset of a component. In a round each arc sends the parent of its source to the
//! tree of its target, whose root hooks onto a smaller one. Shortcutting then flattens the trees. When no tree hooks,
//! each tree is a component. A parent is never greater than its child, so there are no cycles; which tree is hooked
//! onto depends on the order of messages, the components do not. Cost: each round sends one message per remote arc.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::collected;

use super::verify;
use crate::component_labels::ComponentLabels;
use crate::csr::VALUES_PURPOSE;
use crate::patterns::coarsening::{HasParents, PointerJumping};
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, AmTraffic, Bitmap, EdgeWeight, Graph, Result};

/// A message to a local index: the two halves of a parent's global id.
type HookMessage = [u32; 3];

fn hook_message(local_index: u32, parent: u64) -> HookMessage {
    let [low, high] = split_u64(parent);
    [local_index, low, high]
}

fn message_parent([_, low, high]: HookMessage) -> u64 {
    join_u64([low, high])
}

struct HookingState<'g, W> {
    graph: &'g Graph<W>,
    /// Of local vertices, as global ids.
    parents: Vec<u64>,
    hook: Port<HookMessage>,
}

impl<W> HasParents for HookingState<'_, W> {
    fn parents(&mut self) -> &mut [u64] {
        &mut self.parents
    }
}

impl<W: EdgeWeight> HookingState<'_, W> {
    fn local_index(&self, global_id: u64) -> Option<usize> {
        self.graph.local_index(global_id)
    }

    /// Hooks the root of a vertex's tree onto a smaller parent.
    fn hook(&mut self, cx: &mut Context<Self>, vertex: u32, new_parent: u64) {
        let mut local_index = vertex as usize;
        let first = self.graph.first_global_id();
        loop {
            let parent = self.parents[local_index];
            if new_parent >= parent {
                return;
            }
            if parent == first + local_index as u64 {
                self.parents[local_index] = new_parent;
                cx.add_to_sum(1);
                return;
            }
            // Up to the root, which may be remote.
            match self.local_index(parent) {
                Some(next) => local_index = next,
                None => {
                    let (rank, next) = self.graph.layout().owner(parent);
                    return cx.send(self.hook, rank, hook_message(next, new_parent));
                }
            }
        }
    }
}

/// Finds components by hooking and shortcutting, without the vertices of a mask: these have a label already, and no
/// arcs to the others. Returns the labels of local vertices. All ranks call it.
pub(super) fn run<'g, W: EdgeWeight>(
    graph: &'g Graph<W>,
    mask: Option<(&Bitmap, u64)>,
    config: &AmConfig,
) -> Result<ComponentLabels<'g, W>> {
    let first = graph.first_global_id();
    let is_masked = |local_index: usize| mask.is_some_and(|(masked, _)| masked.contains(local_index));
    let mut build = ActiveMessages::<HookingState<'_, W>>::builder(graph.comm());
    let hook = build.port::<HookMessage>("hook");
    build.on_prefetch(
        hook,
        |state: &HookingState<'_, W>, message: &HookMessage| &state.parents[message[0] as usize],
        |state, cx, message| state.hook(cx, message[0], message_parent(message)),
    );
    build.combine(
        hook,
        |message: &HookMessage| message[0].into(),
        |least: &mut HookMessage, message| {
            if message_parent(*message) < message_parent(*least) {
                *least = *message;
            }
        },
    );
    let jumping = PointerJumping::register(&mut build);
    let mut am = config.start(build)?;
    let parents = graph.local_vertices().map(|local_index| match mask {
        Some((masked, label)) if masked.contains(local_index) => label,
        _ => first + local_index as u64,
    });
    let mut state = HookingState { graph, parents: collected(parents, VALUES_PURPOSE)?, hook };
    let vertices = || graph.local_vertices().filter(|local_index| !is_masked(*local_index));
    loop {
        let hooked = am.epoch_for(&mut state, vertices(), |cx, state, vertex| {
            let parent = state.parents[vertex];
            let local = graph.view().local_range();
            for arc in graph.out_edges().row(vertex) {
                let target = arc.target as usize;
                if local.contains(&target) {
                    state.hook(cx, (target - local.start) as u32, parent);
                } else {
                    let (rank, local_index) = graph.view().owner(arc.target);
                    cx.send(hook, rank, hook_message(local_index, parent));
                }
            }
        })?;
        jumping.compress(&mut am, &mut state, graph, vertices)?;
        if hooked == 0 {
            return ComponentLabels::new(graph, state.parents, AmTraffic::from_am(&am), config, verify::verify);
        }
    }
}
