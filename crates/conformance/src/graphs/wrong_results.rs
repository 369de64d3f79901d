//! Verifiers reject wrong results.

use treepie::Comm;
use treepie::graph::bfs::{self, Label, UNREACHED};
use treepie::graph::pagerank::{self, PageRankOptions, pull::PullPageRank};
use treepie::graph::{
    AmConfig, BuildOptions, Edge, Error, Graph, Orientation, Result, WeightedEdge, components, reach, sssp,
};

use super::RandomGraph;
use crate::check::{Outcome, check};

/// Two rings of eight vertices and an isolated vertex.
fn rings() -> RandomGraph {
    let edges = (0..16).map(|i| Edge { weight: 2.0, ..Edge::new(i, i / 8 * 8 + (i + 1) % 8) }).collect();
    RandomGraph { vertices: 17, edges, is_vertex_count_known: true, orientation: Orientation::Undirected }
}

fn check_detected(outcome: Result<()>, what: &str) -> Outcome {
    check!(matches!(outcome, Err(Error::Verification(_) | Error::Input(_))), "{what}: {outcome:?}");
    Ok(())
}

pub(super) fn rejected(comm: &Comm) -> Outcome {
    let config = AmConfig::default();
    let graph = Graph::<u32>::build(comm, &rings(), &BuildOptions::default())?;
    let mut search = bfs::direction_optimizing::DirectionOptimizingBfs::<u32, u64>::new(comm, &graph, &config)?;
    let labels = search.run(0)?.to_vec();
    // Changes the result of one vertex on its owner.
    let change = |global: u64, label: Label<u64>| {
        let mut labels = labels.clone();
        if let Some(local) = graph.local_index(global) {
            labels[local] = label;
        }
        bfs::verify(comm, &graph, 0, &labels, &config)
    };
    change(4, Label { parent: 3, level: 4 })?;
    check_detected(change(4, Label { parent: 3, level: 3 }), "a level too near")?;
    check_detected(change(2, Label { parent: 1, level: 3 }), "a level too far")?;
    check_detected(change(2, Label { parent: 6, level: 2 }), "a parent that is no neighbour")?;
    check_detected(change(2, Label { parent: 3, level: 2 }), "a parent that is not nearer")?;
    check_detected(change(2, Label { parent: 99, level: 2 }), "a parent that does not exist")?;
    check_detected(change(2, Label { parent: u64::MAX, level: UNREACHED }), "a vertex that was not reached")?;
    check_detected(change(16, Label { parent: 0, level: 1 }), "a vertex that cannot be reached")?;
    check_detected(change(0, Label { parent: 1, level: 0 }), "a root with a parent")?;
    check_detected(change(7, Label { parent: 7, level: 0 }), "two roots")?;

    let mut search = reach::Reachability::new(comm, &graph, &config)?;
    let visited = search.run(&[3])?.clone();
    for (add, what) in [(12, "an unreachable vertex"), (16, "an isolated vertex")] {
        let mut visited = visited.clone();
        if let Some(local) = graph.local_index(add) {
            visited.set(local);
        }
        check_detected(reach::verify(comm, &graph, &[3], &visited, &config), what)?;
    }
    let mut visited = visited.clone();
    visited.clear();
    check_detected(reach::verify(comm, &graph, &[3], &visited, &config), "nothing reached")?;

    let labels = components::sampling::run(comm, &graph, &config)?.labels;
    let change = |which: &dyn Fn(u64) -> bool, to: u64| {
        let first = graph.layout().first_global_id(graph.layout().rank());
        let local = labels.iter().enumerate();
        let labels: Vec<u64> = local.map(|(at, label)| if which(first + at as u64) { to } else { *label }).collect();
        components::verify(comm, &graph, &labels, &config)
    };
    change(&|_| false, 0)?;
    check_detected(change(&|v| v == 16, 0), "a vertex in a component that it is not in")?;
    check_detected(change(&|v| (8..16).contains(&v), 0), "two components as one")?;
    check_detected(change(&|v| v == 9, 9), "one component as two")?;
    check_detected(change(&|v| (8..16).contains(&v), 9), "a label that is not the least id")?;

    let weighted = Graph::<WeightedEdge>::build(comm, &rings(), &BuildOptions::default())?;
    let mut search = sssp::DeltaStepping::<f32>::new(comm, &weighted, None, &config)?;
    search.run(0)?;
    let distances = search.distances();
    let change = |which: &dyn Fn(u64) -> Option<f32>| {
        let first = weighted.layout().first_global_id(weighted.layout().rank());
        let local = distances.iter().enumerate();
        let distances: Vec<f32> = local.map(|(at, distance)| which(first + at as u64).unwrap_or(*distance)).collect();
        sssp::verify(comm, &weighted, 0, &distances, &config)
    };
    change(&|_| None)?;
    check_detected(change(&|v| (v == 4).then_some(8.5)), "too far")?;
    check_detected(change(&|v| (v == 4).then_some(7.0)), "too near")?;
    check_detected(change(&|v| (v == 0).then_some(1.0)), "a root that is not at zero")?;
    check_detected(change(&|v| (8..16).contains(&v).then_some(5.0)), "unreachable vertices")?;
    check_detected(change(&|v| (v == 4).then_some(f32::NAN)), "not a number")?;
    check_detected(change(&|v| (v == 4).then_some(f32::INFINITY)), "an infinite distance")?;

    let limits = PageRankOptions::default();
    let ranking = PullPageRank::new(comm, &graph)?.run(&limits)?;
    pagerank::verify(comm, &graph, &ranking, &limits)?;
    let mut other = ranking.clone();
    other.scores.iter_mut().for_each(|score| *score *= 1.1);
    check_detected(pagerank::verify(comm, &graph, &other, &limits), "scores of more than 1")?;
    let mut other = ranking.clone();
    for (global, by) in [(3, 0.01), (4, -0.01)] {
        if let Some(local) = graph.local_index(global) {
            other.scores[local] += by;
        }
    }
    check_detected(pagerank::verify(comm, &graph, &other, &limits), "scores that one more step changes")
}
