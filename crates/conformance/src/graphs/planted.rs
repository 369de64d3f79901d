//! Verifiers refuse wrong results.

use treepie::Comm;
use treepie::graph::bfs::{self, Label, UNREACHED};
use treepie::graph::pagerank::{self, Limits, pull::Pulling};
use treepie::graph::{Edge, Error, Graph, Messages, Orientation, Result, Shape, Weighted, components, reach, sssp};

use super::Drawn;
use crate::check::{Outcome, check};

/// Two rings of eight vertices, and one vertex alone.
fn rings() -> Drawn {
    let edges = (0..16).map(|i| Edge { weight: 2.0, ..Edge::new(i, i / 8 * 8 + (i + 1) % 8) }).collect();
    Drawn { vertices: 17, edges, is_known: true, orientation: Orientation::Undirected }
}

fn is_found(outcome: Result<()>, what: &str) -> Outcome {
    check!(matches!(outcome, Err(Error::Wrong(_) | Error::Input(_))), "{what}: {outcome:?}");
    Ok(())
}

pub(super) fn wrong(comm: &Comm) -> Outcome {
    let messages = Messages::default();
    let graph = Graph::<u32>::build(comm, &rings(), &Shape::default())?;
    let mut search = bfs::direction::Search::<u32, u64>::new(comm, &graph, &messages)?;
    let labels = search.run(0)?.to_vec();
    // Changes the result of one vertex on the rank that has it.
    let change = |number: u64, label: Label<u64>| {
        let mut labels = labels.clone();
        if let Some(place) = graph.mine(number) {
            labels[place] = label;
        }
        bfs::verify(comm, &graph, 0, &labels, &messages)
    };
    change(4, Label { parent: 3, level: 4 })?;
    is_found(change(4, Label { parent: 3, level: 3 }), "a level too near")?;
    is_found(change(2, Label { parent: 1, level: 3 }), "a level too far")?;
    is_found(change(2, Label { parent: 6, level: 2 }), "a parent that is no neighbour")?;
    is_found(change(2, Label { parent: 3, level: 2 }), "a parent that is not nearer")?;
    is_found(change(2, Label { parent: 99, level: 2 }), "a parent that there is not")?;
    is_found(change(2, Label { parent: u64::MAX, level: UNREACHED }), "a vertex that was left out")?;
    is_found(change(16, Label { parent: 0, level: 1 }), "a vertex that cannot be reached")?;
    is_found(change(0, Label { parent: 1, level: 0 }), "a root with a parent")?;
    is_found(change(7, Label { parent: 7, level: 0 }), "two roots")?;

    let mut search = reach::Search::new(comm, &graph, &messages)?;
    let visited = search.run(&[3])?.clone();
    for (add, what) in [(12, "what cannot be reached"), (16, "a vertex alone")] {
        let mut visited = visited.clone();
        if let Some(place) = graph.mine(add) {
            visited.put(place);
        }
        is_found(reach::verify(comm, &graph, &[3], &visited, &messages), what)?;
    }
    let mut visited = visited.clone();
    visited.clear();
    is_found(reach::verify(comm, &graph, &[3], &visited, &messages), "nothing reached")?;

    let labels = components::sampling::run(comm, &graph, &messages)?.labels;
    let change = |which: &dyn Fn(u64) -> bool, to: u64| {
        let first = graph.layout().first(graph.layout().rank());
        let own = labels.iter().enumerate();
        let labels: Vec<u64> = own.map(|(at, label)| if which(first + at as u64) { to } else { *label }).collect();
        components::verify(comm, &graph, &labels, &messages)
    };
    change(&|_| false, 0)?;
    is_found(change(&|v| v == 16, 0), "a vertex in a component that it is not in")?;
    is_found(change(&|v| (8..16).contains(&v), 0), "two components as one")?;
    is_found(change(&|v| v == 9, 9), "one component as two")?;
    is_found(change(&|v| (8..16).contains(&v), 9), "not the least")?;

    let weighted = Graph::<Weighted>::build(comm, &rings(), &Shape::default())?;
    let mut search = sssp::Search::<f32>::new(comm, &weighted, None, &messages)?;
    search.run(0)?;
    let lengths = search.lengths();
    let change = |which: &dyn Fn(u64) -> Option<f32>| {
        let first = weighted.layout().first(weighted.layout().rank());
        let own = lengths.iter().enumerate();
        let lengths: Vec<f32> = own.map(|(at, length)| which(first + at as u64).unwrap_or(*length)).collect();
        sssp::verify(comm, &weighted, 0, &lengths, &messages)
    };
    change(&|_| None)?;
    is_found(change(&|v| (v == 4).then_some(8.5)), "too far")?;
    is_found(change(&|v| (v == 4).then_some(7.0)), "too near")?;
    is_found(change(&|v| (v == 0).then_some(1.0)), "a root that is not at zero")?;
    is_found(change(&|v| (8..16).contains(&v).then_some(5.0)), "what cannot be reached")?;
    is_found(change(&|v| (v == 4).then_some(f32::NAN)), "no number")?;
    is_found(change(&|v| (v == 4).then_some(f32::INFINITY)), "left out")?;

    let limits = Limits::default();
    let ranking = Pulling::new(comm, &graph)?.run(&limits)?;
    pagerank::verify(comm, &graph, &ranking, &limits)?;
    let mut other = ranking.clone();
    other.scores.iter_mut().for_each(|score| *score *= 1.1);
    is_found(pagerank::verify(comm, &graph, &other, &limits), "scores of more than 1")?;
    let mut other = ranking.clone();
    for (place, by) in [(3, 0.01), (4, -0.01)] {
        if let Some(place) = graph.mine(place) {
            other.scores[place] += by;
        }
    }
    is_found(pagerank::verify(comm, &graph, &other, &limits), "scores that one more step changes")
}
