//! Every algorithm gives the result of a plain serial one, and its verifier accepts it.

use treepie::Comm;
use treepie::graph::bfs::{BfsMethod, BfsOptions, BfsResult, BfsSearch, UNREACHED};
use treepie::graph::components::{ComponentLabels, ComponentMethod, ComponentOptions};
use treepie::graph::pagerank::{PageRankOptions, PageRankResult, pull::PullPageRank, push::PushPageRank};
use treepie::graph::sssp::{DeltaStepping, SsspOptions, SsspResult};
use treepie::graph::{AmConfig, BuildOptions, Graph, Orientation, VertexId, Weight, reach};

use super::{RandomGraph, am_config, build_options, oracle, seeds};
use crate::check::{Failure, Outcome, check, check_eq};

/// A random graph of a seed, directed or undirected.
fn random_graph(seed: u64) -> RandomGraph {
    RandomGraph::new(seed, [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize])
}

pub(super) fn searches(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, config) = (random_graph(seed), am_config(seed));
        let options = BuildOptions { store_in_edges: true, ..build_options(seed) };
        let graph = Graph::build_with(comm, &input, &options)?;
        let arcs = input.arcs(&options);
        let during = |failure: Failure| failure.context(format!("seed {seed}, {config:?}"));
        for id in [0, graph.num_vertices() / 2].into_iter().filter(|id| *id < graph.num_vertices()) {
            let root = graph.find_vertex(id)?;
            let expected = oracle::levels(&arcs, &[id]);
            if seed.is_multiple_of(2) {
                check_each_bfs::<u32>(&graph, root, &expected, &config, &arcs).map_err(during)?;
            } else {
                check_each_bfs::<u64>(&graph, root, &expected, &config, &arcs).map_err(during)?;
            }
            let sources = [root, graph.find_vertex(graph.num_vertices() - 1)?];
            let expected = oracle::levels(&arcs, &[id, graph.num_vertices() - 1]);
            let mut search = reach::Reachability::new(&graph, &config)?;
            let visited = search.run(&sources)?;
            for local in graph.local_vertices() {
                let id = graph.external_id(local) as usize;
                check_eq!(visited.contains(local), expected[id].is_some(), "whether {id} is reached, seed {seed}");
            }
            reach::verify(&graph, &sources, visited, &config).map_err(Failure::from).map_err(during)?;
            check_eq!(
                reach::count_reached(&graph, visited)?.0,
                expected.iter().flatten().count() as u64,
                "reached, seed {seed}"
            );
        }
    }
    Ok(())
}

fn check_each_bfs<I: VertexId>(
    graph: &Graph,
    root: u64,
    expected: &[Option<u32>],
    config: &AmConfig,
    arcs: &oracle::Arcs,
) -> Outcome {
    let check = |result: BfsResult<'_>, how: &str| -> Outcome {
        for (id, level) in result.levels.iter() {
            check_eq!(*level, expected[id as usize].unwrap_or(UNREACHED), "level of {id} by {how}");
        }
        result.verify()?;
        let summary = result.summary()?;
        check_eq!(summary.reached, expected.iter().flatten().count() as u64, "reached by {how}");
        let of_level = |level: usize| expected.iter().flatten().filter(|at| **at as usize == level).count() as u64;
        let sizes: Vec<u64> = (0..summary.level_sizes.len()).map(of_level).collect();
        check_eq!(summary.level_sizes, sizes, "levels by {how}");
        let reached = (0..).zip(arcs).zip(expected).filter(|(_, level)| level.is_some());
        let others = |(from, row): (u64, &Vec<(u64, f64)>)| row.iter().filter(|arc| arc.0 != from).count() as u64;
        check_eq!(summary.num_arcs, reached.map(|(of, _)| others(of)).sum::<u64>(), "arcs by {how}");
        Ok(())
    };
    for method in BfsMethod::ALL {
        let options = BfsOptions { method: Some(method), config: config.clone(), ..BfsOptions::default() };
        let mut search = BfsSearch::<(), I>::new(graph, &options)?;
        check(BfsResult::new(graph, root, search.run(root)?, config)?, method.name())?;
        check(BfsResult::new(graph, root, search.run(root)?, config)?, &format!("{} again", method.name()))?;
    }
    Ok(())
}

pub(super) fn shortest_paths(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        if seed.is_multiple_of(2) {
            shortest_paths_with_weight::<f32>(comm, seed, |distance, weight| {
                f64::from(distance as f32 + (weight / 7.0) as f32)
            })?;
        } else {
            shortest_paths_with_weight::<u32>(comm, seed, |distance, weight| distance + weight)?;
        }
    }
    Ok(())
}

fn shortest_paths_with_weight<W: Weight>(comm: &Comm, seed: u64, add: impl Fn(f64, f64) -> f64) -> Outcome {
    let (mut input, config) = (random_graph(seed), am_config(seed));
    let options = build_options(seed);
    let arcs = input.arcs(&options);
    if seed.is_multiple_of(2) {
        input.edges.iter_mut().for_each(|edge| edge.weight /= 7.0);
    }
    let graph = Graph::<W>::build_weighted_with(comm, &input, &options)?;
    if graph.num_vertices() == 0 {
        return Ok(());
    }
    let delta = [None, Some(0.01), Some(1.0), Some(5.0), Some(1e9)][(seed % 5) as usize];
    let mut search = DeltaStepping::new(&graph, &SsspOptions { delta, config: config.clone() })?;
    for id in [graph.num_vertices() - 1, graph.num_vertices() / 3] {
        let root = graph.find_vertex(id)?;
        let expected = oracle::distances(&arcs, id, &add);
        search.run(root)?;
        let result = SsspResult::new(root, search.distances()?, &config);
        for (id, distance) in result.distances.iter() {
            let distance = if *distance < W::INFINITY { distance.as_f64() } else { f64::INFINITY };
            check_eq!(distance, expected[id as usize], "distance to {id}, seed {seed}, delta {delta:?}");
        }
        result.verify()?;
        let summary = result.summary()?;
        let finite = || expected.iter().filter(|distance| distance.is_finite());
        check_eq!(summary.reached, finite().count() as u64, "reached, seed {seed}");
        check_eq!(summary.max_distance, finite().copied().fold(0.0, f64::max), "the largest distance, seed {seed}");
        let sum: f64 = finite().sum();
        let is_near = (summary.sum_distances - sum).abs() <= 1e-9 * sum;
        check!(is_near, "the sum is {}, not {sum}, seed {seed}", summary.sum_distances);
    }
    Ok(())
}

pub(super) fn components(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, config) = (RandomGraph::new(seed, Orientation::Undirected), am_config(seed));
        let options = build_options(seed);
        let graph = Graph::build_with(comm, &input, &options)?;
        let expected = oracle::components(&input.arcs(&options));
        // Labels are the least global id of a component, which need not be that of its least external id.
        let mut least = vec![u64::MAX; expected.len()];
        for id in 0..expected.len() {
            let global = graph.layout().global_id(id as u64).expect("a vertex id");
            least[expected[id] as usize] = least[expected[id] as usize].min(global);
        }
        let check = |components: ComponentLabels<'_>, how: ComponentMethod| -> Outcome {
            for (id, label) in components.labels.iter() {
                let expected = least[expected[id as usize] as usize];
                check_eq!(*label, expected, "label of {id} by {how:?}, seed {seed}, {config:?}");
            }
            components.verify()?;
            let summary = components.summary()?;
            let sizes =
                (0..expected.len() as u64).map(|root| expected.iter().filter(|label| **label == root).count() as u64);
            let sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
            check_eq!(summary.components, sizes.len() as u64, "components by {how:?}, seed {seed}");
            check_eq!(summary.largest, sizes.into_iter().max().unwrap_or(0), "the largest by {how:?}, seed {seed}");
            Ok(())
        };
        for method in ComponentMethod::ALL {
            check(graph.components_with(&ComponentOptions { method, config: config.clone() })?, method)?;
        }
    }
    let directed = RandomGraph::new(5, Orientation::Directed);
    let graph = Graph::build(comm, &directed)?;
    check!(graph.components().is_err(), "a directed graph is refused");
    Ok(())
}

pub(super) fn pagerank_scores(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, config) = (random_graph(seed), am_config(seed));
        let options = BuildOptions { store_in_edges: true, ..build_options(seed) };
        let graph = Graph::build_with(comm, &input, &options)?;
        if graph.num_vertices() == 0 {
            continue;
        }
        let arcs = input.arcs(&options);
        let limits = PageRankOptions {
            tolerance: [1e-4, 0.0][(seed % 2) as usize],
            max_iterations: 30,
            ..PageRankOptions::default()
        };
        let check = |ranking: &PageRankResult<'_>, how: &str| -> Outcome {
            let expected = oracle::pagerank(&arcs, limits.damping, ranking.iterations);
            for (id, score) in ranking.scores.iter() {
                let expected = expected[id as usize];
                let near = (score - expected).abs() <= 1e-5 * expected;
                check!(near, "the score of {id} is {score}, not {expected}, by {how}, seed {seed}");
            }
            ranking.verify()?;
            let top = ranking.scores.top_k(10)?;
            check_eq!(top.len(), expected.len().min(10), "top scores, seed {seed}");
            check!(top.is_sorted_by(|left, right| left.1 >= right.1), "top scores are not sorted, seed {seed}");
            Ok(())
        };
        let pulled = PullPageRank::new(&graph)?.run(&limits)?;
        let pushed = PushPageRank::new(&graph, &config)?.run(&limits)?;
        check(&pulled, "pulling")?;
        check(&pushed, "pushing")?;
        if seed % 2 == 1 {
            check_eq!((pulled.iterations, pushed.iterations), (30, 30), "iterations, seed {seed}");
        }
    }
    Ok(())
}
