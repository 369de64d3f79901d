//! Verification of BFS results without another search.   [Graph 500, kernel 2 validation]
//!
//! The root is its own parent, and the only vertex on level 0. An arc from a reached vertex leads to a reached vertex
//! at most one level farther. Each reached vertex but the root has an arc from its parent, which is one level nearer.

use treepie_am::ActiveMessages;

use super::label::UNREACHED;
use crate::{AmConfig, Bitmap, EdgeWeight, Graph, Result};

/// Verifies the levels and parents of local vertices, for a root given by global id. All ranks call it, and get the
/// same error.
pub(super) fn verify<W: EdgeWeight>(
    graph: &Graph<W>,
    root: u64,
    levels: &[u32],
    parents: &[u64],
    config: &AmConfig,
) -> Result<()> {
    graph.check_root(root)?;
    graph.refuse(find_local_fault(graph, root, levels, parents))?;
    let (view, layout) = (graph.view(), graph.layout());
    let view_levels = graph.with_ghosts(levels.iter().copied())?;
    let view_parents = graph.with_ghosts(parents.iter().copied())?;
    let hubs = graph.allgather_hubs(|local_index| levels[local_index])?;

    // The rank that stores the arc from a vertex's parent confirms it to the owner.
    let mut build = ActiveMessages::<Bitmap>::builder(graph.comm());
    let confirm = build.port::<u32>("confirm");
    build.on(confirm, |confirmed: &mut Bitmap, _, local_index| confirmed.set(local_index as usize));
    let mut am = config.start(build)?;
    let (mut confirmed, mut confirmed_targets, mut fault) =
        (Bitmap::try_new(graph.num_local())?, Bitmap::try_new(view.len())?, None);
    let reached =
        graph.local_rows(|local_index| levels[local_index], &hubs).filter(|(_, level, _)| *level != UNREACHED);
    am.epoch_for(&mut confirmed, reached, |cx, _, (global_id, level, row)| {
        for arc in row {
            let target = arc.target as usize;
            if view_levels[target] > level + 1 {
                fault.get_or_insert_with(|| {
                    let neighbor = view.global_id(layout, arc.target);
                    let state = match view_levels[target] {
                        UNREACHED => "not reached".to_owned(),
                        level => format!("on level {level}"),
                    };
                    format!(
                        "vertex {global_id} is on level {level}, and its neighbor {neighbor} is {state} (global ids)"
                    )
                });
            }
            if view_parents[target] == global_id && view_levels[target] == level + 1 && confirmed_targets.insert(target)
            {
                let (rank, local_index) = view.owner(arc.target);
                cx.send(confirm, rank, local_index);
            }
        }
    })?;
    let orphan =
        graph.local_vertices().find(|vertex| !matches!(levels[*vertex], 0 | UNREACHED) && !confirmed.contains(*vertex));
    let orphan = orphan.map(|vertex| {
        let (parent, global_id) = (parents[vertex], graph.first_global_id() + vertex as u64);
        format!("the parent {parent} of vertex {global_id} has no arc to it, or is not one level nearer")
    });
    graph.refuse(fault.or(orphan))
}

/// The checks that need no communication.
fn find_local_fault<W: EdgeWeight>(graph: &Graph<W>, root: u64, levels: &[u32], parents: &[u64]) -> Option<String> {
    (graph.first_global_id()..).zip(levels.iter().zip(parents)).find_map(|(global_id, (level, parent))| {
        let (is_root, vertices) = (global_id == root, graph.num_vertices());
        if is_root && (*level != 0 || *parent != root) {
            Some(format!("the root {root} is on level {level} with the parent {parent}"))
        } else if !is_root && *level == 0 {
            Some(format!("vertex {global_id} is on level {level} with the parent {parent}"))
        } else if *level != UNREACHED && *parent >= vertices {
            Some(format!("vertex {global_id} has the parent {parent} of {vertices}"))
        } else {
            None
        }
    })
}
