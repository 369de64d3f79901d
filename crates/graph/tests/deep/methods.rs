//! The methods of a graph: with every option, on any number of ranks, they give the values of one rank.

use std::panic::{AssertUnwindSafe, catch_unwind};

use treepie_am::ActiveMessages;
use treepie_base::Pod;
use treepie_comm::Comm;
use treepie_graph::betweenness::BetweennessOptions;
use treepie_graph::bfs::{BfsMethod, BfsOptions, UNREACHED};
use treepie_graph::components::{ComponentMethod, ComponentOptions};
use treepie_graph::pagerank::{PageRankMethod, PageRankOptions};
use treepie_graph::reach::ReachOptions;
use treepie_graph::scc::SccOptions;
use treepie_graph::sssp::SsspOptions;
use treepie_graph::{BuildOptions, EdgeWeight, Error, Graph, Orientation, PropertyMap};

use super::am_config;
use crate::listed::EdgeList;
use crate::worlds::launch;

/// The values of all vertices, in the order of external ids, by name.
type Values = Vec<(String, Vec<f64>)>;

/// The values of all vertices, on every rank. The local values must be the same by local index and by external id.
fn all_values<T: Pod, W: EdgeWeight>(map: &PropertyMap<'_, T, W>, as_f64: impl Fn(T) -> f64) -> Vec<f64> {
    let graph = map.graph();
    let all: Vec<f64> = (0..graph.num_vertices()).map(|id| as_f64(map.get(id).unwrap())).collect();
    for (vertex, (id, value)) in graph.local_vertices().zip(map.iter()) {
        assert_eq!((graph.external_id(vertex), as_f64(map[vertex])), (id, as_f64(*value)));
        assert_eq!(all[id as usize], as_f64(*value));
    }
    assert_eq!(map.local().len(), graph.num_local());
    assert!(map.get(graph.num_vertices()).is_err());
    all
}

/// The parent of each reached vertex but the root has an arc to it, and is one level nearer. Others have no parent.
fn check_parents(list: &EdgeList, levels: &[f64], parents: &[f64]) {
    let adjacency = list.adjacency();
    for (vertex, (level, parent)) in levels.iter().zip(parents).enumerate() {
        if *level == f64::from(UNREACHED) {
            assert_eq!(*parent, u64::MAX as f64, "the parent of {vertex}");
        } else if *level == 0.0 {
            assert_eq!(*parent, vertex as f64, "the root is its own parent");
        } else {
            let parent = *parent as usize;
            assert!(adjacency[parent].iter().any(|(to, _)| *to == vertex), "{parent} has no arc to {vertex}");
            assert_eq!(levels[parent], level - 1.0, "the level of {parent}, the parent of {vertex}");
        }
    }
}

fn values(comm: &Comm, list: &EdgeList, options: &BuildOptions, config: &str) -> Values {
    let config = am_config(config);
    let graph = Graph::build_with(comm, list, options).unwrap();
    let weighted = Graph::<u32>::build_weighted_with(comm, list, options).unwrap();
    let (mut all, root) = (Values::new(), list.vertices - 1);
    let methods = BfsMethod::ALL.map(Some).into_iter().chain([None]);
    for options in methods.map(|method| BfsOptions { method, config: config.clone(), ..BfsOptions::default() }) {
        let bfs = graph.bfs_with(root, &options).unwrap();
        bfs.verify().unwrap();
        all.push((format!("bfs by {:?}", options.method), all_values(&bfs.levels, f64::from)));
        check_parents(list, &all[all.len() - 1].1, &all_values(&bfs.external_parents().unwrap(), |id| id as f64));
    }
    let reach = graph.reach_with([root], &ReachOptions { config: config.clone() }).unwrap();
    reach.verify().unwrap();
    all.push(("reach".to_owned(), all_values(&reach.reached, f64::from)));
    assert_eq!(reach.summary().unwrap().reached as f64, all[all.len() - 1].1.iter().sum::<f64>());
    assert!(graph.reach([root, list.vertices]).is_err());
    for delta in [None, Some(0.7), Some(1e6)] {
        let sssp = weighted.sssp_with(root, &SsspOptions { delta, config: config.clone() }).unwrap();
        sssp.verify().unwrap();
        all.push((format!("sssp with {delta:?}"), all_values(&sssp.distances, f64::from)));
    }
    for method in [Some(PageRankMethod::Pull), Some(PageRankMethod::Push), None] {
        let limits = PageRankOptions { damping: 0.7, tolerance: 0.0, max_iterations: 12, ..PageRankOptions::default() };
        let pagerank = graph.pagerank_with(&PageRankOptions { method, config: config.clone(), ..limits }).unwrap();
        assert_eq!(pagerank.iterations, 12);
        pagerank.verify().unwrap();
        all.push((format!("pagerank by {method:?}"), all_values(&pagerank.scores, |score| score)));
    }
    if graph.is_symmetric() {
        for method in ComponentMethod::ALL {
            let options = ComponentOptions { method, config: config.clone() };
            let components = graph.components_with(&options).unwrap();
            components.verify().unwrap();
            let labels = components.external_labels().unwrap();
            all.push((format!("components by {method:?}"), all_values(&labels, |label| label as f64)));
        }
    }
    let labels = graph.scc_with(&SccOptions { config: config.clone() }).unwrap().external_labels().unwrap();
    all.push(("scc".to_owned(), all_values(&labels, |label| label as f64)));
    let sources = [0, root];
    let scores = graph.betweenness_with(sources, &BetweennessOptions { config: config.clone() }).unwrap();
    all.push(("betweenness".to_owned(), all_values(&scores, |score| score)));
    let options = SsspOptions { config, ..SsspOptions::default() };
    let scores = weighted.weighted_betweenness_with(sources, &options).unwrap();
    all.push(("weighted betweenness".to_owned(), all_values(&scores, |score| score)));
    all
}

#[test]
fn any_number_of_ranks_gives_the_values_of_one() {
    for seed in [1, 3, 4, 14] {
        let list = EdgeList::random(seed);
        let expected = launch(1, |comm| values(&comm, &list, &list.build_options(0), "style=am")).remove(0);
        // Most graphs have fewer vertices than the last worlds have ranks, or a few for each.
        for (ranks, config) in [(2, "style=bsp"), (3, "style=am"), (9, "routing=rook,reductions=16")] {
            for found in launch(ranks, |comm| values(&comm, &list, &list.build_options(seed), config)) {
                assert_eq!(found.len(), expected.len());
                for ((name, found), (_, expected)) in found.iter().zip(&expected) {
                    // Contributions to PageRank have 32 bits when they are pulled.
                    let tolerance = if name.starts_with("pagerank") { 1e-5 } else { 1e-9 };
                    let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= tolerance * expected;
                    let is_same = found.len() == expected.len() && found.iter().zip(expected).all(is_near);
                    assert!(is_same, "graph {seed} on {ranks} ranks, {name}: {found:?}, {expected:?}");
                }
            }
        }
    }
}

/// An algorithm that knows only neighbors: each vertex sends its id and the weight of the arc to each of them.
#[test]
fn neighbors_get_the_messages_of_an_own_algorithm() {
    for seed in 0..20 {
        let list = EdgeList::random(seed);
        let mut expected = vec![(0, 0); list.vertices as usize];
        for (from, arcs) in (1..).zip(list.adjacency()) {
            arcs.iter().for_each(|(to, weight)| expected[*to] = (expected[*to].0 + from, expected[*to].1 + weight));
        }
        for ranks in [1, 2, 5] {
            launch(ranks, |comm| {
                let graph = Graph::<u32>::build_weighted_with(&comm, &list, &list.build_options(seed)).unwrap();
                let mut build = ActiveMessages::<Vec<(u64, u32)>>::builder(graph.comm());
                let port = build.port::<[u32; 3]>("arc");
                build.on(port, |sums: &mut Vec<(u64, u32)>, _, [vertex, from, weight]| {
                    sums[vertex as usize].0 += u64::from(from);
                    sums[vertex as usize].1 += weight;
                });
                let mut sums = vec![(0, 0); graph.num_local()];
                let mut am = build.start().unwrap();
                am.epoch_for(&mut sums, graph.local_vertices(), |cx, _, vertex| {
                    let id = graph.external_id(vertex) as u32 + 1;
                    for neighbor in graph.neighbors(vertex) {
                        let (rank, local_index) = neighbor.owner();
                        cx.send(port, rank, [local_index, id, neighbor.weight()]);
                    }
                    assert_eq!(graph.neighbors(vertex).count() as u64, graph.degree(vertex));
                })
                .unwrap();
                for (id, sums) in PropertyMap::new(&graph, sums).unwrap().iter() {
                    assert_eq!(*sums, expected[id as usize], "vertex {id} of graph {seed} on {ranks} ranks");
                }
                // In-neighbors are those that it gets messages from.
                let ids = graph.with_ghosts(graph.local_vertices().map(|vertex| graph.external_id(vertex))).unwrap();
                for vertex in graph.local_vertices() {
                    let arcs =
                        graph.in_neighbors(vertex).map(|neighbor| (ids[neighbor.index()] + 1, neighbor.weight()));
                    let sums = arcs.fold((0, 0), |sums, (id, weight)| (sums.0 + id, sums.1 + weight));
                    assert_eq!(sums, expected[graph.external_id(vertex) as usize], "into vertex {vertex}");
                }
            });
        }
    }
}

/// The arcs of a hub are on several ranks, so none of them has all its neighbors.
#[test]
fn neighbors_of_a_hub_are_refused() {
    let list = EdgeList::directed(8, (1..8).map(|to| (0, to)));
    launch(2, |comm| {
        let options = BuildOptions { hub_degree: Some(4), ..BuildOptions::default() };
        let graph = Graph::build_with(&comm, &list, &options).unwrap();
        assert_eq!(graph.hubs().get(0).is_some(), comm.rank() == 0);
        for vertex in graph.local_vertices() {
            let count = catch_unwind(AssertUnwindSafe(|| graph.neighbors(vertex).count() as u64));
            let expected = graph.hubs().get(vertex).is_none().then(|| graph.degree(vertex));
            assert_eq!(count.ok(), expected);
        }
    });
}

/// Without in-edges, algorithms that can do without them choose another method, and the others refuse the graph.
#[test]
fn methods_are_chosen_by_what_a_graph_has() {
    let list = EdgeList { orientation: Orientation::Directed, ..EdgeList::random(5) };
    launch(3, |comm| {
        let build = |store_in_edges| {
            let options = BuildOptions { store_in_edges, ..BuildOptions::default() };
            Graph::build_with(&comm, &list, &options).unwrap()
        };
        let (with, without) = (build(true), build(false));
        assert_eq!(
            all_values(&with.bfs(0).unwrap().levels, f64::from),
            all_values(&without.bfs(0).unwrap().levels, f64::from)
        );
        let (pulled, pushed) = (with.pagerank().unwrap(), without.pagerank().unwrap());
        let scores = [&pulled, &pushed].map(|ranking| all_values(&ranking.scores, |score| score));
        let mut pairs = scores[0].iter().zip(&scores[1]);
        assert!(pairs.all(|(pulled, pushed)| (pulled - pushed).abs() <= 1e-5 * pulled), "{scores:?}");
        pushed.verify().unwrap();
        let mut wrong = pushed.clone();
        for (id, by) in [(0, 0.002), (list.vertices - 1, -0.002)] {
            if let Some(vertex) = without.local_index(id) {
                wrong.scores[vertex] += by;
            }
        }
        assert!(matches!(wrong.verify(), Err(Error::Verification(_))));
        assert!(with.scc().is_ok() && without.scc().is_err() && without.betweenness([0]).is_err());
        let direction = BfsOptions { method: Some(BfsMethod::DirectionOptimizing), ..BfsOptions::default() };
        assert!(with.bfs_with(0, &direction).is_ok() && without.bfs_with(0, &direction).is_err());
        let unknown = BfsOptions { protocol: Some("exchange/none".to_owned()), ..BfsOptions::default() };
        let exchange = BfsOptions { method: Some(BfsMethod::SparseExchange), ..unknown };
        assert!(with.bfs_with(0, &exchange).is_err());
        let nbx = BfsOptions { protocol: Some("exchange/nbx".to_owned()), ..exchange };
        assert_eq!(with.bfs_with(0, &nbx).unwrap().levels.local(), with.bfs(0).unwrap().levels.local());
    });
}
