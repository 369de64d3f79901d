//! Where searches begin.

use std::collections::HashSet;

use anyhow::ensure;
use treepie::graph::{Arc, Graph};
use treepie::{Comm, Max, Sum};

use super::input::Source;

/// Numbers inside, and names, of vertices that searches begin from. All ranks call it.
pub(super) fn roots<A: Arc>(
    world: &Comm,
    graph: &Graph<A>,
    source: &Source,
    asked: &[u64],
    count: u32,
) -> anyhow::Result<Vec<u64>> {
    if !asked.is_empty() {
        return Ok(asked.iter().map(|name| graph.find(world, *name)).collect::<Result<_, _>>()?);
    }
    let (vertices, count) = (graph.vertices(), count as usize);
    ensure!(vertices > 0, "the graph has no vertices");
    let (mut roots, mut seen) = (Vec::new(), HashSet::new());
    // As Graph 500 does: drawn, and taken if it has an arc and was not drawn before, at most two tries a vertex.
    let tries = vertices.saturating_mul(2).min(1 << 20);
    let batch = 4 * count as u64 + 64;
    for first in (0..tries).step_by(batch as usize) {
        let drawn: Vec<u64> = (first..(first + batch).min(tries)).map(|drawing| draw(graph, source, drawing)).collect();
        let drawn = numbers(world, graph, drawn)?;
        let degree = |number: &u64| graph.mine(*number).map_or(0, |place| graph.degree_without_loops(place));
        let degrees: Vec<u64> = drawn.iter().map(degree).collect();
        let degrees = world.all_reduce(&degrees, Sum)?;
        for (number, degree) in drawn.into_iter().zip(degrees) {
            if degree > 0 && roots.len() < count && seen.insert(number) {
                roots.push(number);
            }
        }
        if roots.len() == count {
            break;
        }
    }
    ensure!(!roots.is_empty(), "no vertex has an edge to another one: there is nowhere to begin; say --root");
    Ok(roots)
}

fn draw<A: Arc>(graph: &Graph<A>, source: &Source, drawing: u64) -> u64 {
    match &source.kronecker {
        Some(kronecker) => kronecker.candidate(drawing),
        None => {
            let mixed = (drawing + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27) % graph.vertices()
        }
    }
}

/// Numbers inside of vertices with these names. Where nobody has such a name, the same number inside does as well. All
/// ranks call it.
fn numbers<A: Arc>(world: &Comm, graph: &Graph<A>, names: Vec<u64>) -> anyhow::Result<Vec<u64>> {
    let own: Vec<u64> = names.iter().map(|name| graph.layout().number(*name).map_or(0, |number| number + 1)).collect();
    let found = if graph.layout().names_are_numbers() { own } else { world.all_reduce(&own, Max)? };
    Ok(names.into_iter().zip(found).map(|(name, found)| found.checked_sub(1).unwrap_or(name)).collect())
}
