//! Verifiers reject wrong results.

use treepie::Comm;
use treepie::graph::bfs::UNREACHED;
use treepie::graph::{AmConfig, Edge, Error, Graph, Orientation, Result, reach};

use super::RandomGraph;
use crate::check::{Outcome, check};

/// Two rings of eight vertices and an isolated vertex.
fn rings() -> RandomGraph {
    let edges = (0..16).map(|i| Edge { weight: 2.0, ..Edge::new(i, i / 8 * 8 + (i + 1) % 8) }).collect();
    RandomGraph { vertices: 17, edges, is_vertex_count_known: true, orientation: Orientation::Undirected }
}

fn check_detected(outcome: Result<()>, what: &str) -> Outcome {
    check!(matches!(outcome, Err(Error::Verification(_))), "{what}: {outcome:?}");
    Ok(())
}

pub(super) fn rejected(comm: &Comm) -> Outcome {
    let config = AmConfig::default();
    let graph = Graph::build(comm, &rings())?;
    let result = graph.bfs(0)?;
    // Changes the result of one vertex on its owner.
    let change = |global: u64, parent: u64, level: u32| {
        let mut result = result.clone();
        if let Some(local) = graph.local_index(global) {
            (result.parents[local], result.levels[local]) = (parent, level);
        }
        result.verify()
    };
    change(4, 3, 4)?;
    check_detected(change(4, 3, 3), "a level too near")?;
    check_detected(change(2, 1, 3), "a level too far")?;
    check_detected(change(2, 6, 2), "a parent that is no neighbor")?;
    check_detected(change(2, 3, 2), "a parent that is not nearer")?;
    check_detected(change(2, 99, 2), "a parent that does not exist")?;
    check_detected(change(2, u64::MAX, UNREACHED), "a vertex that was not reached")?;
    check_detected(change(16, 0, 1), "a vertex that cannot be reached")?;
    check_detected(change(0, 1, 0), "a root with a parent")?;
    check_detected(change(7, 7, 0), "two roots")?;

    let mut search = reach::Reachability::new(&graph, &config)?;
    let visited = search.run(&[3])?.clone();
    for (add, what) in [(12, "an unreachable vertex"), (16, "an isolated vertex")] {
        let mut visited = visited.clone();
        if let Some(local) = graph.local_index(add) {
            visited.set(local);
        }
        check_detected(reach::verify(&graph, &[3], &visited, &config), what)?;
    }
    let mut visited = visited.clone();
    visited.clear();
    check_detected(reach::verify(&graph, &[3], &visited, &config), "nothing reached")?;
    let mut reach = graph.reach([3])?;
    reach.verify()?;
    if let Some(local) = graph.local_index(12) {
        reach.reached[local] = 1;
    }
    check_detected(reach.verify(), "an unreachable vertex in a map")?;

    let components = graph.components()?;
    let first = graph.layout().first_global_id(graph.layout().rank());
    let change = |which: &dyn Fn(u64) -> bool, to: u64| {
        let mut components = components.clone();
        for local in graph.local_vertices().filter(|local| which(first + *local as u64)) {
            components.labels[local] = to;
        }
        components.verify()
    };
    change(&|_| false, 0)?;
    check_detected(change(&|v| v == 16, 0), "a vertex in a component that it is not in")?;
    check_detected(change(&|v| (8..16).contains(&v), 0), "two components as one")?;
    check_detected(change(&|v| v == 9, 9), "one component as two")?;
    check_detected(change(&|v| (8..16).contains(&v), 9), "a label that is not the least id")?;

    let weighted = Graph::<f32>::build_weighted(comm, &rings())?;
    let result = weighted.sssp(0)?;
    let change = |which: &dyn Fn(u64) -> Option<f32>| {
        let mut result = result.clone();
        for local in weighted.local_vertices() {
            result.distances[local] = which(first + local as u64).unwrap_or(result.distances[local]);
        }
        result.verify()
    };
    change(&|_| None)?;
    check_detected(change(&|v| (v == 4).then_some(8.5)), "too far")?;
    check_detected(change(&|v| (v == 4).then_some(7.0)), "too near")?;
    check_detected(change(&|v| (v == 0).then_some(1.0)), "a root that is not at zero")?;
    check_detected(change(&|v| (8..16).contains(&v).then_some(5.0)), "unreachable vertices")?;
    check_detected(change(&|v| (v == 4).then_some(f32::NAN)), "not a number")?;
    check_detected(change(&|v| (v == 4).then_some(f32::INFINITY)), "an infinite distance")?;

    let ranking = graph.pagerank()?;
    ranking.verify()?;
    let mut other = ranking.clone();
    graph.local_vertices().for_each(|local| other.scores[local] *= 1.1);
    check_detected(other.verify(), "scores of more than 1")?;
    let mut other = ranking.clone();
    for (global, by) in [(3, 0.01), (4, -0.01)] {
        if let Some(local) = graph.local_index(global) {
            other.scores[local] += by;
        }
    }
    check_detected(other.verify(), "scores that one more step changes")
}
