//! Verification of component labels.
//!
//! The endpoints of an arc have the same label, so no component has two labels. A label is the least vertex of its
//! component, and every vertex with that label is reached from it, so no two components share a label.

use crate::reach::Reachability;
use crate::{AmConfig, EdgeWeight, Graph, Result};

/// Verifies the labels of local vertices. All ranks call it, and get the same error.
pub(super) fn verify<W: EdgeWeight>(graph: &Graph<W>, labels: &[u64], config: &AmConfig) -> Result<()> {
    graph.require_unsplit_rows("the verification of components")?;
    let (view, layout) = (graph.view(), graph.layout());
    let first = graph.first_global_id();
    let view_labels = graph.with_ghosts(labels.iter().copied())?;
    let mut fault = None;
    for (local_index, label) in labels.iter().enumerate() {
        let global_id = first + local_index as u64;
        if *label > global_id {
            fault = Some(format!("vertex {global_id} has the label {label}, which is not the least of its component"));
        }
        if let Some(arc) =
            graph.out_edges().row(local_index).iter().find(|arc| view_labels[arc.target as usize] != *label)
        {
            let (neighbor, neighbor_label) = (view.global_id(layout, arc.target), view_labels[arc.target as usize]);
            fault = Some(format!(
                "vertex {global_id} has the label {label}, and its neighbor {neighbor} has {neighbor_label}"
            ));
        }
    }
    graph.refuse(fault)?;

    // From all vertices that are their own label, in one search.
    let mut search = Reachability::new(graph, config)?;
    let roots = labels.iter().enumerate().filter(|(local_index, label)| **label == first + *local_index as u64);
    let reached = search.run_from_local(roots.map(|(local_index, _)| local_index))?;
    let lost = graph.local_vertices().find(|local_index| !reached.contains(*local_index));
    let lost = lost.map(|local_index| {
        let (global_id, label) = (first + local_index as u64, labels[local_index]);
        format!("vertex {global_id} has the label {label}, and cannot be reached from there")
    });
    graph.refuse(lost)
}
