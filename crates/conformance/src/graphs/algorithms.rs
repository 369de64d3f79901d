//! Every algorithm gives the result of a plain serial one, and its verifier accepts it.

use treepie::Comm;
use treepie::graph::bfs::{self, Label, UNREACHED};
use treepie::graph::components::{self, hooking, sampling, search};
use treepie::graph::pagerank::{self, PageRankOptions, PageRankResult, pull::PullPageRank, push::PushPageRank};
use treepie::graph::{AmConfig, BuildOptions, Graph, Orientation, VertexId, Weight, WeightedEdge, reach, sssp, top_k};

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
        let graph = Graph::<u32>::build(comm, &input, &options)?;
        let arcs = input.arcs(&options);
        let during = |failure: Failure| failure.context(format!("seed {seed}, {config:?}"));
        for id in [0, graph.num_vertices() / 2].into_iter().filter(|id| *id < graph.num_vertices()) {
            let root = graph.find_vertex(comm, id)?;
            let expected = oracle::levels(&arcs, &[id]);
            if seed.is_multiple_of(2) {
                check_each_bfs::<u32>(comm, &graph, root, &expected, &config, &arcs).map_err(during)?;
            } else {
                check_each_bfs::<u64>(comm, &graph, root, &expected, &config, &arcs).map_err(during)?;
            }
            let sources = [root, graph.find_vertex(comm, graph.num_vertices() - 1)?];
            let expected = oracle::levels(&arcs, &[id, graph.num_vertices() - 1]);
            let mut search = reach::Reachability::new(comm, &graph, &config)?;
            let visited = search.run(&sources)?;
            for local in 0..graph.num_local() {
                let id = graph.layout().external_id(local) as usize;
                check_eq!(visited.contains(local), expected[id].is_some(), "whether {id} is reached, seed {seed}");
            }
            reach::verify(comm, &graph, &sources, visited, &config).map_err(Failure::from).map_err(during)?;
            check_eq!(
                reach::count_reached(comm, &graph, visited)?.0,
                expected.iter().flatten().count() as u64,
                "reached, seed {seed}"
            );
        }
    }
    Ok(())
}

fn check_each_bfs<I: VertexId>(
    comm: &Comm,
    graph: &Graph,
    root: u64,
    expected: &[Option<u32>],
    config: &AmConfig,
    arcs: &oracle::Arcs,
) -> Outcome {
    let check = |labels: &[Label<I>], how: &str| -> Outcome {
        for (local, label) in labels.iter().enumerate() {
            let id = graph.layout().external_id(local) as usize;
            check_eq!(label.level, expected[id].unwrap_or(UNREACHED), "level of {id} by {how}");
        }
        bfs::verify(comm, graph, root, labels, config)?;
        let summary = bfs::summarize(comm, graph, labels)?;
        check_eq!(summary.reached, expected.iter().flatten().count() as u64, "reached by {how}");
        let of_level = |level: usize| expected.iter().flatten().filter(|at| **at as usize == level).count() as u64;
        let sizes: Vec<u64> = (0..summary.level_sizes.len()).map(of_level).collect();
        check_eq!(summary.level_sizes, sizes, "levels by {how}");
        let reached = (0..).zip(arcs).zip(expected).filter(|(_, level)| level.is_some());
        let others = |(from, row): (u64, &Vec<(u64, f64)>)| row.iter().filter(|arc| arc.0 != from).count() as u64;
        check_eq!(summary.num_arcs, reached.map(|(of, _)| others(of)).sum::<u64>(), "arcs by {how}");
        Ok(())
    };
    let mut search = bfs::direction_optimizing::DirectionOptimizingBfs::<u32, I>::new(comm, graph, config)?;
    check(search.run(root)?, "direction-optimizing")?;
    check(search.run(root)?, "direction-optimizing again")?;
    check(bfs::active_messages::AmBfs::<u32, I>::new(comm, graph, config)?.run(root)?, "active messages")?;
    check(bfs::sparse_exchange::SparseExchangeBfs::<u32, I>::new(comm, graph).run(root)?, "sparse exchanges")
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
    let options = BuildOptions { integer_weights: seed % 2 == 1, ..build_options(seed) };
    let arcs = input.arcs(&options);
    if seed.is_multiple_of(2) {
        input.edges.iter_mut().for_each(|edge| edge.weight /= 7.0);
    }
    let graph = Graph::<WeightedEdge>::build(comm, &input, &options)?;
    if graph.num_vertices() == 0 {
        return Ok(());
    }
    let delta = [None, Some(0.01), Some(1.0), Some(5.0), Some(1e9)][(seed % 5) as usize];
    let mut search = sssp::DeltaStepping::<W>::new(comm, &graph, delta, &config)?;
    for id in [graph.num_vertices() - 1, graph.num_vertices() / 3] {
        let root = graph.find_vertex(comm, id)?;
        let expected = oracle::distances(&arcs, id, &add);
        search.run(root)?;
        let distances = search.distances();
        for (local, distance) in distances.iter().enumerate() {
            let id = graph.layout().external_id(local) as usize;
            let distance = if *distance < W::INFINITY { distance.as_f64() } else { f64::INFINITY };
            check_eq!(distance, expected[id], "distance to {id}, seed {seed}, delta {delta:?}");
        }
        sssp::verify(comm, &graph, root, &distances, &config)?;
        let summary = sssp::summarize(comm, &graph, &distances)?;
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
        let graph = Graph::<u32>::build(comm, &input, &options)?;
        let expected = oracle::components(&input.arcs(&options));
        // Labels are the least global id of a component, which need not be that of its least external id.
        let mut least = vec![u64::MAX; expected.len()];
        for id in 0..expected.len() {
            let global = graph.layout().global_id(id as u64).expect("a vertex id");
            least[expected[id] as usize] = least[expected[id] as usize].min(global);
        }
        let check = |labels: Vec<u64>, how: &str| -> Outcome {
            for (local, label) in labels.iter().enumerate() {
                let id = graph.layout().external_id(local) as usize;
                check_eq!(*label, least[expected[id] as usize], "label of {id} by {how}, seed {seed}, {config:?}");
            }
            components::verify(comm, &graph, &labels, &config)?;
            let summary = components::summarize(comm, &graph, &labels)?;
            let sizes =
                (0..expected.len() as u64).map(|root| expected.iter().filter(|label| **label == root).count() as u64);
            let sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
            check_eq!(summary.components, sizes.len() as u64, "components by {how}, seed {seed}");
            check_eq!(summary.largest, sizes.into_iter().max().unwrap_or(0), "the largest by {how}, seed {seed}");
            Ok(())
        };
        check(hooking::run(comm, &graph, &config)?.labels, "hooking")?;
        check(search::run(comm, &graph, &config)?.labels, "a search and hooking")?;
        check(sampling::run(comm, &graph, &config)?.labels, "sampling")?;
    }
    let directed = RandomGraph::new(5, Orientation::Directed);
    let graph = Graph::<u32>::build(comm, &directed, &BuildOptions::default())?;
    check!(sampling::run(comm, &graph, &AmConfig::default()).is_err(), "a directed graph is refused");
    Ok(())
}

pub(super) fn pagerank_scores(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, config) = (random_graph(seed), am_config(seed));
        let options = BuildOptions { store_in_edges: true, ..build_options(seed) };
        let graph = Graph::<u32>::build(comm, &input, &options)?;
        if graph.num_vertices() == 0 {
            continue;
        }
        let arcs = input.arcs(&options);
        let limits = PageRankOptions {
            tolerance: [1e-4, 0.0][(seed % 2) as usize],
            max_iterations: 30,
            ..PageRankOptions::default()
        };
        let check = |ranking: &PageRankResult, how: &str| -> Outcome {
            let expected = oracle::pagerank(&arcs, limits.damping, ranking.iterations);
            for (local, score) in ranking.scores.iter().enumerate() {
                let id = graph.layout().external_id(local) as usize;
                let near = (score - expected[id]).abs() <= 1e-5 * expected[id];
                check!(near, "the score of {id} is {score}, not {}, by {how}, seed {seed}", expected[id]);
            }
            pagerank::verify(comm, &graph, ranking, &limits)?;
            let top = top_k(comm, &graph, &ranking.scores, 10)?;
            check_eq!(top.len(), expected.len().min(10), "top scores, seed {seed}");
            check!(top.is_sorted_by(|left, right| left.1 >= right.1), "top scores are not sorted, seed {seed}");
            Ok(())
        };
        let pulled = PullPageRank::new(comm, &graph)?.run(&limits)?;
        let pushed = PushPageRank::new(comm, &graph, &config)?.run(&limits)?;
        check(&pulled, "pulling")?;
        check(&pushed, "pushing")?;
        if seed % 2 == 1 {
            check_eq!((pulled.iterations, pushed.iterations), (30, 30), "iterations, seed {seed}");
        }
    }
    Ok(())
}
