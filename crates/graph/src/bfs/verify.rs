//! Verification of BFS results without another search.   [Graph 500, kernel 2 validation]
//!
//! The root is its own parent, and the only vertex on level 0. An arc from a reached vertex leads to a reached vertex
//! at most one level farther. Each reached vertex but the root has an arc from its parent, which is one level nearer.

use treepie_am::ActiveMessages;
use treepie_base::memory::filled;
use treepie_comm::Comm;

use super::{Label, UNREACHED};
use crate::agree::agree;
use crate::csr::CsrEdge;
use crate::csr::VALUES_PURPOSE;
use crate::vertex_id::VertexId;
use crate::{AmConfig, Bitmap, Error, Graph, Result};

/// Verifies the labels of a search from a root given by global id. All ranks call it, and get the same error.
pub fn verify<A: CsrEdge, I: VertexId>(
    comm: &Comm,
    graph: &Graph<A>,
    root: u64,
    labels: &[Label<I>],
    config: &AmConfig,
) -> Result<()> {
    graph.check_root(root)?;
    let local = verify_local(graph, root, labels);
    agree(comm, local)?;
    let view = graph.view();
    let mut levels = filled(UNREACHED, view.len(), VALUES_PURPOSE)?;
    let mut parents = filled(I::NONE.to_u64(), view.len(), VALUES_PURPOSE)?;
    for (index, label) in view.local_range().zip(labels) {
        levels[index] = label.level;
        if label.level != UNREACHED {
            parents[index] = label.parent.to_u64();
        }
    }
    view.update_ghosts(comm, &mut levels)?;
    view.update_ghosts(comm, &mut parents)?;
    let hubs = graph.hubs().allgather(comm, |local_index| labels[local_index].level)?;

    // The rank that stores the arc from a vertex's parent confirms it to the owner.
    let mut build = ActiveMessages::<Bitmap>::builder(comm);
    let confirm = build.port::<u32>("confirm");
    build.on(confirm, |confirmed: &mut Bitmap, _, local_index| confirmed.set(local_index as usize));
    let mut am = config.start(build)?;
    let (mut confirmed, mut confirmed_targets, mut fault) =
        (Bitmap::try_new(graph.num_local())?, Bitmap::try_new(view.len())?, Ok(()));
    let layout = graph.layout();
    let rows = graph.local_rows(|local_index| labels[local_index].level, &hubs);
    am.epoch_for(&mut confirmed, rows, |cx, _, (global_id, level, row)| {
        if level == UNREACHED {
            return;
        }
        for arc in row {
            let target = arc.target() as usize;
            if levels[target] > level + 1 && fault.is_ok() {
                let neighbour = view.global_id(layout, arc.target());
                let state = if levels[target] == UNREACHED {
                    "not reached".to_owned()
                } else {
                    format!("on level {}", levels[target])
                };
                fault = Err(Error::Verification(format!(
                    "vertex {global_id} is on level {level}, and its neighbour {neighbour} is {state} (global ids)"
                )));
            }
            if parents[target] == global_id && levels[target] == level + 1 && confirmed_targets.insert(target) {
                let (rank, local_index) = view.owner(arc.target());
                cx.send(confirm, rank, local_index);
            }
        }
    })?;
    let orphan = (0..graph.num_local())
        .find(|local_index| !matches!(labels[*local_index].level, 0 | UNREACHED) && !confirmed.contains(*local_index));
    if let (Some(local_index), Ok(())) = (orphan, &fault) {
        let parent = labels[local_index].parent.to_u64();
        fault = Err(Error::Verification(format!(
            "the parent {parent} of vertex {} has no arc to it, or is not one level nearer",
            layout.first_global_id(layout.rank()) + local_index as u64
        )));
    }
    agree(comm, fault)
}

/// The checks that need no communication.
fn verify_local<A: CsrEdge, I: VertexId>(graph: &Graph<A>, root: u64, labels: &[Label<I>]) -> Result<()> {
    if labels.len() != graph.num_local() {
        return Err(Error::Verification(format!(
            "there are {} labels for {} vertices",
            labels.len(),
            graph.num_local()
        )));
    }
    let first = graph.layout().first_global_id(graph.layout().rank());
    for (global_id, label) in (first..).zip(labels) {
        let (is_root, is_reached) = (global_id == root, label.level != UNREACHED);
        let parent = label.parent.to_u64();
        if is_root && (label.level != 0 || parent != root) {
            return Err(Error::Verification(format!(
                "the root {root} is on level {} with the parent {parent}",
                label.level
            )));
        }
        if !is_root && label.level == 0 {
            return Err(Error::Verification(format!(
                "vertex {global_id} is on level {} with the parent {parent}",
                label.level
            )));
        }
        if is_reached && parent >= graph.num_vertices() {
            return Err(Error::Verification(format!(
                "vertex {global_id} has the parent {parent} of {}",
                graph.num_vertices()
            )));
        }
    }
    Ok(())
}
