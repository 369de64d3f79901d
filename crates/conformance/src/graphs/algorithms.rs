//! Every algorithm finds what a plain one does, and its verifier agrees.

use treepie::Comm;
use treepie::graph::bfs::{self, Label, UNREACHED};
use treepie::graph::components::{self, hooking, sampling, search};
use treepie::graph::pagerank::{self, Limits, Ranking, pull::Pulling, push::Pushing};
use treepie::graph::{Graph, Id, Messages, Orientation, Shape, Weight, Weighted, reach, sssp, top};

use super::{Drawn, messages, oracle, seeds, shape};
use crate::check::{Failure, Outcome, check, check_eq};

/// A graph of a seed: with directions or without.
fn drawn(seed: u64) -> Drawn {
    Drawn::new(seed, [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize])
}

pub(super) fn searches(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (drawn, messages) = (drawn(seed), messages(seed));
        let shape = Shape { backwards: true, ..shape(seed) };
        let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
        let arcs = drawn.arcs(&shape);
        let during = |failure: Failure| failure.during(format!("seed {seed}, {messages:?}"));
        for name in [0, graph.vertices() / 2].into_iter().filter(|name| *name < graph.vertices()) {
            let root = graph.find(comm, name)?;
            let right = oracle::levels(&arcs, &[name]);
            if seed.is_multiple_of(2) {
                each_search::<u32>(comm, &graph, root, &right, &messages, &arcs).map_err(during)?;
            } else {
                each_search::<u64>(comm, &graph, root, &right, &messages, &arcs).map_err(during)?;
            }
            let sources = [root, graph.find(comm, graph.vertices() - 1)?];
            let right = oracle::levels(&arcs, &[name, graph.vertices() - 1]);
            let mut search = reach::Search::new(comm, &graph, &messages)?;
            let visited = search.run(&sources)?;
            for place in 0..graph.own() {
                let name = graph.layout().name(place) as usize;
                check_eq!(visited.has(place), right[name].is_some(), "whether {name} is reached, seed {seed}");
            }
            reach::verify(comm, &graph, &sources, visited, &messages).map_err(Failure::from).map_err(during)?;
            check_eq!(
                reach::count(comm, &graph, visited)?.0,
                right.iter().flatten().count() as u64,
                "reached, seed {seed}"
            );
        }
    }
    Ok(())
}

fn each_search<I: Id>(
    comm: &Comm,
    graph: &Graph,
    root: u64,
    right: &[Option<u32>],
    messages: &Messages,
    arcs: &oracle::Arcs,
) -> Outcome {
    let check = |labels: &[Label<I>], how: &str| -> Outcome {
        for (place, label) in labels.iter().enumerate() {
            let name = graph.layout().name(place) as usize;
            check_eq!(label.level, right[name].unwrap_or(UNREACHED), "level of {name} by {how}");
        }
        bfs::verify(comm, graph, root, labels, messages)?;
        let found = bfs::count(comm, graph, labels)?;
        check_eq!(found.reached, right.iter().flatten().count() as u64, "reached by {how}");
        let of_level = |level: usize| right.iter().flatten().filter(|at| **at as usize == level).count() as u64;
        let sizes: Vec<u64> = (0..found.level_sizes.len()).map(of_level).collect();
        check_eq!(found.level_sizes, sizes, "levels by {how}");
        let reached = (0..).zip(arcs).zip(right).filter(|(_, level)| level.is_some());
        let others = |(from, row): (u64, &Vec<(u64, f64)>)| row.iter().filter(|arc| arc.0 != from).count() as u64;
        check_eq!(found.arcs, reached.map(|(of, _)| others(of)).sum::<u64>(), "arcs by {how}");
        Ok(())
    };
    let mut search = bfs::direction::Search::<u32, I>::new(comm, graph, messages)?;
    check(search.run(root)?, "directions")?;
    check(search.run(root)?, "directions again")?;
    check(bfs::messages::Search::<u32, I>::new(comm, graph, messages)?.run(root)?, "messages")?;
    check(bfs::exchange::Search::<u32, I>::new(comm, graph).run(root)?, "exchanges")
}

pub(super) fn ways(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        if seed.is_multiple_of(2) {
            ways_of::<f32>(comm, seed, |length, weight| f64::from(length as f32 + (weight / 7.0) as f32))?;
        } else {
            ways_of::<u32>(comm, seed, |length, weight| length + weight)?;
        }
    }
    Ok(())
}

fn ways_of<W: Weight>(comm: &Comm, seed: u64, add: impl Fn(f64, f64) -> f64) -> Outcome {
    let (mut drawn, messages) = (drawn(seed), messages(seed));
    let shape = Shape { whole_weights: seed % 2 == 1, ..shape(seed) };
    let arcs = drawn.arcs(&shape);
    if seed.is_multiple_of(2) {
        drawn.edges.iter_mut().for_each(|edge| edge.weight /= 7.0);
    }
    let graph = Graph::<Weighted>::build(comm, &drawn, &shape)?;
    if graph.vertices() == 0 {
        return Ok(());
    }
    let delta = [None, Some(0.01), Some(1.0), Some(5.0), Some(1e9)][(seed % 5) as usize];
    let mut search = sssp::Search::<W>::new(comm, &graph, delta, &messages)?;
    for name in [graph.vertices() - 1, graph.vertices() / 3] {
        let root = graph.find(comm, name)?;
        let right = oracle::lengths(&arcs, name, &add);
        search.run(root)?;
        let lengths = search.lengths();
        for (place, length) in lengths.iter().enumerate() {
            let name = graph.layout().name(place) as usize;
            let length = if *length < W::FAR { length.as_f64() } else { f64::INFINITY };
            check_eq!(length, right[name], "length to {name}, seed {seed}, delta {delta:?}");
        }
        sssp::verify(comm, &graph, root, &lengths, &messages)?;
        let found = sssp::count(comm, &graph, &lengths)?;
        let finite = || right.iter().filter(|length| length.is_finite());
        check_eq!(found.reached, finite().count() as u64, "reached, seed {seed}");
        check_eq!(found.max, finite().copied().fold(0.0, f64::max), "the longest, seed {seed}");
        let sum: f64 = finite().sum();
        let is_near = (found.sum - sum).abs() <= 1e-9 * sum;
        check!(is_near, "the sum is {}, not {sum}, seed {seed}", found.sum);
    }
    Ok(())
}

pub(super) fn components(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (drawn, messages) = (Drawn::new(seed, Orientation::Undirected), messages(seed));
        let shape = shape(seed);
        let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
        let right = oracle::components(&drawn.arcs(&shape));
        // The least number inside has not the least name if vertices are spread otherwise.
        let mut numbers = vec![u64::MAX; right.len()];
        for name in 0..right.len() {
            let number = graph.layout().number(name as u64).expect("it is a name");
            numbers[right[name] as usize] = numbers[right[name] as usize].min(number);
        }
        let check = |labels: Vec<u64>, how: &str| -> Outcome {
            for (place, label) in labels.iter().enumerate() {
                let name = graph.layout().name(place) as usize;
                check_eq!(*label, numbers[right[name] as usize], "label of {name} by {how}, seed {seed}, {messages:?}");
            }
            components::verify(comm, &graph, &labels, &messages)?;
            let found = components::count(comm, &graph, &labels)?;
            let sizes = (0..right.len() as u64).map(|root| right.iter().filter(|label| **label == root).count() as u64);
            let sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
            check_eq!(found.components, sizes.len() as u64, "components by {how}, seed {seed}");
            check_eq!(found.largest, sizes.into_iter().max().unwrap_or(0), "the largest by {how}, seed {seed}");
            Ok(())
        };
        check(hooking::run(comm, &graph, &messages)?.labels, "hooking")?;
        check(search::run(comm, &graph, &messages)?.labels, "a search and hooking")?;
        check(sampling::run(comm, &graph, &messages)?.labels, "sampling")?;
    }
    let directed = Drawn::new(5, Orientation::Directed);
    let graph = Graph::<u32>::build(comm, &directed, &Shape::default())?;
    check!(sampling::run(comm, &graph, &Messages::default()).is_err(), "a graph with directions is refused");
    Ok(())
}

pub(super) fn ranking(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (drawn, messages) = (drawn(seed), messages(seed));
        let shape = Shape { backwards: true, ..shape(seed) };
        let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
        if graph.vertices() == 0 {
            continue;
        }
        let arcs = drawn.arcs(&shape);
        let limits = Limits { tolerance: [1e-4, 0.0][(seed % 2) as usize], iterations: 30, ..Limits::default() };
        let check = |ranking: &Ranking, how: &str| -> Outcome {
            let right = oracle::ranking(&arcs, limits.damping, ranking.iterations);
            for (place, score) in ranking.scores.iter().enumerate() {
                let name = graph.layout().name(place) as usize;
                let near = (score - right[name]).abs() <= 1e-5 * right[name];
                check!(near, "the score of {name} is {score}, not {}, by {how}, seed {seed}", right[name]);
            }
            pagerank::verify(comm, &graph, ranking, &limits)?;
            let top = top(comm, &graph, &ranking.scores, 10)?;
            check_eq!(top.len(), right.len().min(10), "the first of them, seed {seed}");
            check!(top.is_sorted_by(|left, right| left.1 >= right.1), "they are in order, seed {seed}");
            Ok(())
        };
        let pulled = Pulling::new(comm, &graph)?.run(&limits)?;
        let pushed = Pushing::new(comm, &graph, &messages)?.run(&limits)?;
        check(&pulled, "pulling")?;
        check(&pushed, "pushing")?;
        if seed % 2 == 1 {
            check_eq!((pulled.iterations, pushed.iterations), (30, 30), "iterations, seed {seed}");
        }
    }
    Ok(())
}
