//! Selection of search roots.

use std::collections::HashSet;

use anyhow::ensure;
use treepie::graph::{EdgeWeight, Graph};
use treepie::{Max, Sum};

use super::input::Source;

/// The global ids of the roots: those `requested`, or `count` random ones. Collective.
pub(super) fn roots<W: EdgeWeight>(
    graph: &Graph<W>,
    source: &Source,
    requested: &[u64],
    count: u32,
) -> anyhow::Result<Vec<u64>> {
    if !requested.is_empty() {
        return Ok(requested.iter().map(|id| graph.find_vertex(*id)).collect::<Result<_, _>>()?);
    }
    let (vertices, count) = (graph.num_vertices(), count as usize);
    ensure!(vertices > 0, "the graph has no vertices");
    let (mut roots, mut seen) = (Vec::new(), HashSet::new());
    // As in Graph 500: sample without replacement among vertices with an arc, at most two tries per vertex.
    let tries = vertices.saturating_mul(2).min(1 << 20);
    let batch = 4 * count as u64 + 64;
    for first in (0..tries).step_by(batch as usize) {
        let drawn: Vec<u64> =
            (first..(first + batch).min(tries)).map(|drawing| draw_root(graph, source, drawing)).collect();
        let drawn = global_ids(graph, drawn)?;
        let degree =
            |vertex: &u64| graph.local_index(*vertex).map_or(0, |local| graph.degree_without_self_loops(local));
        let degrees: Vec<u64> = drawn.iter().map(degree).collect();
        let degrees = graph.comm().allreduce(&degrees, Sum)?;
        for (vertex, degree) in drawn.into_iter().zip(degrees) {
            if degree > 0 && roots.len() < count && seen.insert(vertex) {
                roots.push(vertex);
            }
        }
        if roots.len() == count {
            break;
        }
    }
    ensure!(!roots.is_empty(), "no vertex has an edge to another vertex, so no root can be sampled; give --root");
    Ok(roots)
}

fn draw_root<W: EdgeWeight>(graph: &Graph<W>, source: &Source, drawing: u64) -> u64 {
    match &source.kronecker {
        Some(kronecker) => kronecker.search_key_candidate(drawing),
        None => {
            // A SplitMix64-like hash.
            let hash = (drawing + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            graph.layout().first_id() + (hash ^ hash >> 27) % graph.num_vertices()
        }
    }
}

/// The global ids of vertices with these external ids. An id that no vertex has is itself used as a global id.
/// Collective.
fn global_ids<W: EdgeWeight>(graph: &Graph<W>, ids: Vec<u64>) -> anyhow::Result<Vec<u64>> {
    let local: Vec<u64> = ids.iter().map(|id| graph.layout().global_id(*id).map_or(0, |vertex| vertex + 1)).collect();
    let found = if graph.layout().consecutive_ids().is_some() { local } else { graph.comm().allreduce(&local, Max)? };
    Ok(ids.into_iter().zip(found).map(|(id, found)| found.checked_sub(1).unwrap_or(id)).collect())
}
