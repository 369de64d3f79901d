//! Hubs, whose arcs are distributed over ranks: no result depends on it.

use treepie::Comm;
use treepie::graph::betweenness::HopMetric;
use treepie::graph::bfs::{BfsMethod, BfsOptions, UNREACHED};
use treepie::graph::components::{ComponentMethod, ComponentOptions};
use treepie::graph::pagerank::{PageRankOptions, PageRankResult, pull::PullPageRank, push::PushPageRank};
use treepie::graph::scc::SccSearch;
use treepie::graph::sssp::{DeltaStepping, SsspOptions, SsspResult};
use treepie::graph::{
    AmConfig, Bitmap, BuildOptions, CsrEdge, Edge, Error, Graph, Orientation, PropertyMap, Result, Weight, reach,
};

use super::{RandomGraph, am_config, build_options, fewer_seeds, oracle};
use crate::check::{Failure, Outcome, check, check_eq};

/// Degrees from which a vertex is a hub.
const HUB_DEGREES: [Option<u64>; 4] = [None, Some(1), Some(2), Some(5)];

/// A graph of a seed: random, or a star.
fn random_graph(seed: u64) -> RandomGraph {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    if seed % 4 == 1 { star(20 + seed % 50, orientation) } else { RandomGraph::new(seed, orientation) }
}

/// A star around vertex 0, with further edges between some of its leaves.
fn star(vertices: u64, orientation: Orientation) -> RandomGraph {
    let mut edges: Vec<Edge> =
        (1..vertices).map(|leaf| Edge { weight: (1 + leaf % 9) as f64, ..Edge::new(0, leaf) }).collect();
    edges.extend((1..vertices / 2).map(|leaf| Edge::new(leaf, 2 * leaf)));
    RandomGraph { vertices, edges, is_vertex_count_known: true, orientation }
}

pub(super) fn same(comm: &Comm) -> Outcome {
    for seed in fewer_seeds(comm, 24) {
        let input = random_graph(seed);
        for hub_degree in HUB_DEGREES {
            let options = BuildOptions { store_in_edges: true, hub_degree, ..build_options(seed) };
            let graph = Graph::build_with(comm, &input, &options)?;
            let weighted = Graph::<u32>::build_weighted_with(comm, &input, &options)?;
            let arcs = input.arcs(&options);
            // Both styles.
            for config in [am_config(seed), am_config(seed + 1)] {
                let during = |failure: Failure| failure.context(format!("seed {seed}, {options:?}, {config:?}"));
                check_rows(&weighted, &arcs, hub_degree).map_err(during)?;
                if graph.num_vertices() > 0 {
                    searches(&graph, &arcs, &config).map_err(during)?;
                    shortest_paths(&weighted, &arcs, &config, seed).map_err(during)?;
                    pagerank_scores(&graph, &arcs, &config).map_err(during)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks that each arc is stored on the right rank, and only there.
fn check_rows(graph: &Graph<u32>, arcs: &oracle::Arcs, hub_degree: Option<u64>) -> Outcome {
    let (layout, hubs, local_range) = (graph.layout(), graph.hubs(), graph.view().local_range());
    let owner = |id: usize| layout.owner(layout.global_id(id as u64).expect("a vertex id")).0;
    let is_local = |id: &usize| owner(*id) == layout.rank();
    let sorted = |mut row: Vec<(u64, f64)>| {
        row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
        row
    };
    let to_external =
        |arc: &CsrEdge<u32>| (graph.external_id(arc.target as usize - local_range.start), f64::from(arc.weight));
    check_eq!(graph.num_arcs(), arcs.iter().map(|row| row.len() as u64).sum::<u64>(), "arcs");
    let is_hub = |id: &usize| {
        let has_remote = arcs[*id].iter().any(|(to, _)| owner(*to as usize) != owner(*id));
        has_remote && hub_degree.is_some_and(|degree| arcs[*id].len() as u64 >= degree)
    };
    let mut expected: Vec<usize> = (0..arcs.len()).filter(is_hub).collect();
    expected.sort_by_key(|id| layout.global_id(*id as u64));
    check_eq!(hubs.len(), expected.len(), "hubs");
    for (index, id) in (0..).zip(&expected) {
        check_eq!(Some(hubs.global_id(index)), layout.global_id(*id as u64), "a hub's global id");
        let arcs_here = arcs[*id].iter().filter(|(to, _)| is_local(&(*to as usize)) && !is_local(id));
        let delegated = hubs.delegate_edges(index).iter().map(to_external).collect();
        check_eq!(sorted(delegated), sorted(arcs_here.copied().collect()), "the delegate arcs of {id}");
    }
    for local in graph.local_vertices() {
        let id = graph.external_id(local) as usize;
        check_eq!(graph.degree(local), arcs[id].len() as u64, "the degree of {id}");
        let loops = arcs[id].iter().filter(|(to, _)| *to == id as u64).count();
        check_eq!(
            graph.degree_without_self_loops(local),
            (arcs[id].len() - loops) as u64,
            "the degree of {id} without self-loops"
        );
        check_eq!(hubs.get(local).is_some(), expected.contains(&id), "whether {id} is a hub");
        let (row, remote) = graph.out_edges().local_and_remote(local);
        let arcs_here = arcs[id].iter().filter(|(to, _)| is_local(&(*to as usize)));
        let row_arcs = row.iter().map(to_external).collect();
        check_eq!(sorted(row_arcs), sorted(arcs_here.copied().collect()), "local arcs of {id}");
        let num_remote = if hubs.get(local).is_some() { 0 } else { arcs[id].len() - row.len() };
        check_eq!(remote.len(), num_remote, "remote arcs of {id}");
    }
    Ok(())
}

fn searches(graph: &Graph, arcs: &oracle::Arcs, config: &AmConfig) -> Outcome {
    let options = BfsOptions { config: config.clone(), ..BfsOptions::default() };
    for id in [0, graph.num_vertices() - 1] {
        let root = graph.find_vertex(id)?;
        let expected = oracle::levels(arcs, &[id]);
        let messages = BfsOptions { method: Some(BfsMethod::ActiveMessages), ..options.clone() };
        let result = graph.bfs_with(id, &messages)?;
        let mut reachability = reach::Reachability::new(graph, config)?;
        let visited = reachability.run(&[root])?;
        for local in graph.local_vertices() {
            let id = graph.external_id(local) as usize;
            check_eq!(result.levels[local], expected[id].unwrap_or(UNREACHED), "level of {id}");
            check_eq!(visited.contains(local), expected[id].is_some(), "whether {id} is reached");
        }
        result.verify()?;
        reach::verify(graph, &[root], visited, config)?;
        let reached = (0..).zip(arcs).zip(&expected).filter(|(_, level)| level.is_some());
        let others = |(from, row): (u64, &Vec<(u64, f64)>)| row.iter().filter(|arc| arc.0 != from).count() as u64;
        let traversed: u64 = reached.map(|(of, _)| others(of)).sum();
        let count = expected.iter().flatten().count() as u64;
        let summary = result.summary()?;
        check_eq!((summary.reached, summary.num_arcs), (count, traversed), "the summary of a search");
        check_eq!(reach::count_reached(graph, visited)?, (count, traversed), "reached vertices and arcs");
    }
    Ok(())
}

fn shortest_paths(graph: &Graph<u32>, arcs: &oracle::Arcs, config: &AmConfig, seed: u64) -> Outcome {
    let delta = [None, Some(0.01), Some(3.0), Some(1e9)][(seed / 2 % 4) as usize];
    let mut search = DeltaStepping::new(graph, &SsspOptions { delta, config: config.clone() })?;
    for id in [graph.num_vertices() - 1, 0] {
        let root = graph.find_vertex(id)?;
        let expected = oracle::distances(arcs, id, |distance, weight| distance + weight);
        search.run(root)?;
        let result = SsspResult::new(root, search.distances()?, config);
        for (id, distance) in result.distances.iter() {
            let distance = if *distance < u32::MAX { f64::from(*distance) } else { f64::INFINITY };
            check_eq!(distance, expected[id as usize], "distance to {id}, delta {delta:?}");
        }
        result.verify()?;
    }
    Ok(())
}

fn pagerank_scores(graph: &Graph, arcs: &oracle::Arcs, config: &AmConfig) -> Outcome {
    let limits = PageRankOptions { tolerance: 0.0, max_iterations: 8, ..PageRankOptions::default() };
    let expected = oracle::pagerank(arcs, limits.damping, limits.max_iterations);
    let check = |ranking: &PageRankResult<'_>, how: &str| -> Outcome {
        for (id, score) in ranking.scores.iter() {
            let is_near = (score - expected[id as usize]).abs() < 1e-6;
            check!(is_near, "{id} has {score}, not {}, by {how}", expected[id as usize]);
        }
        Ok(ranking.verify()?)
    };
    check(&PushPageRank::new(graph, config)?.run(&limits)?, "pushing")?;
    check(&PullPageRank::new(graph)?.run(&limits)?, "pulling")
}

/// Algorithms that need whole rows refuse hubs on all ranks. Verifiers of the others see delegate arcs too.
pub(super) fn refused(comm: &Comm) -> Outcome {
    if comm.size() == 1 {
        // All arcs are local, so there are no hubs.
        return Ok(());
    }
    let config = AmConfig::default();
    let options = BuildOptions { hub_degree: Some(5), ..BuildOptions::default() };
    let star = star(64, Orientation::Undirected);
    let graph = Graph::build_with(comm, &star, &options)?;
    check!(!graph.hubs().is_empty() && graph.in_edges().is_none(), "the graph has no hubs");
    let refuses = |what: &str, outcome: Result<()>| -> Outcome {
        let named = matches!(&outcome, Err(Error::Input(text))
            if text.contains("unsplit rows") && text.ends_with("without `hub_degree` (`--split`)"));
        check!(named, "{what}: {outcome:?}");
        Ok(())
    };
    for method in [BfsMethod::DirectionOptimizing, BfsMethod::SparseExchange] {
        let options = BfsOptions { method: Some(method), ..BfsOptions::default() };
        refuses(&format!("bfs by {method:?}"), graph.bfs_with(0, &options).map(|_| ()))?;
    }
    for method in ComponentMethod::ALL {
        let options = ComponentOptions { method, ..ComponentOptions::default() };
        refuses(&format!("components by {method:?}"), graph.components_with(&options).map(|_| ()))?;
    }
    let unsplit = Graph::build(comm, &star)?;
    let mut components = unsplit.components()?;
    components.labels = PropertyMap::new(&graph, vec![0; graph.num_local()])?;
    refuses("components", components.verify())?;
    refuses("strong components", SccSearch::new(&graph, &config).map(|_| ()))?;
    let outcome = HopMetric::new(&graph, &config).map(|_| ());
    check!(outcome.as_ref().is_err_and(|error| error.to_string().starts_with("betweenness needs")), "{outcome:?}");
    refuses("betweenness", outcome)?;
    too_long::<u32>(comm, 4e9, &options)?;
    too_long::<f32>(comm, 3e38, &options)?;
    wrong(&graph, &Graph::build_weighted_with(comm, &star, &options)?, &config)
}

/// Distances that overflow; only ranks with delegate arcs of the hub see it.
fn too_long<W: Weight>(comm: &Comm, weight: f64, options: &BuildOptions) -> Outcome {
    let ends = [(1, 0), (0, 59), (0, 60), (0, 61), (0, 62), (0, 63)];
    let edges = ends.map(|(from, to)| Edge { from, to, weight }).to_vec();
    let input = RandomGraph { vertices: 64, edges, is_vertex_count_known: true, orientation: Orientation::Directed };
    let graph = Graph::<W>::build_weighted_with(comm, &input, options)?;
    let outcome = graph.sssp(1).map(|_| ());
    check!(outcome.as_ref().is_err_and(|error| error.to_string().contains("too long")), "{outcome:?}");
    Ok(())
}

/// Verifiers reject a wrong result of the star's last leaf, which another rank owns than the hub.
fn wrong(graph: &Graph, weighted: &Graph<u32>, config: &AmConfig) -> Outcome {
    let finds = |what: &str, outcome: Result<()>| -> Outcome {
        // Ranks that did not see it themselves get the same error.
        check!(matches!(outcome, Err(Error::Verification(_))), "{what}: {outcome:?}");
        Ok(())
    };
    let (root, leaf) = (0, graph.num_vertices() - 1);
    let result = graph.bfs(root)?;
    let cases = [
        ("a leaf that was not reached", u64::MAX, UNREACHED),
        ("a leaf that is too far", root, 2),
        ("a parent that is no neighbor", 2, 1),
    ];
    for (what, parent, level) in cases {
        let mut result = result.clone();
        if let Some(local) = graph.local_index(leaf) {
            (result.parents[local], result.levels[local]) = (parent, level);
        }
        finds(what, result.verify())?;
    }
    let mut visited = Bitmap::new(graph.num_local());
    graph.local_vertices().filter(|local| Some(*local) != graph.local_index(leaf)).for_each(|local| visited.set(local));
    let outcome = reach::verify(graph, &[root], &visited, config);
    let is_seen = outcome.as_ref().is_err_and(|error| error.to_string().ends_with("its neighbor 63 is not"));
    check!(is_seen, "a leaf that was not reached: {outcome:?}");
    let expected = weighted.sssp(root)?;
    // There is a path of length 2 over another leaf, but it is not a shortest one.
    for (what, leaf, distance) in [("too far", leaf, 2), ("too near", leaf, 0), ("not the shortest", 54, 2)] {
        let mut result = expected.clone();
        if let Some(local) = weighted.local_index(leaf) {
            check_eq!(std::mem::replace(&mut result.distances[local], distance), 1, "the distance to {leaf}");
        }
        finds(what, result.verify())?;
    }
    let limits = PageRankOptions::default();
    let mut ranking = PushPageRank::new(graph, config)?.run(&limits)?;
    for (global, by) in [(root, -0.01), (leaf, 0.01)] {
        if let Some(local) = graph.local_index(global) {
            ranking.scores[local] += by;
        }
    }
    finds("scores", ranking.verify())
}
