//! The methods of a graph: with every option, on any number of ranks, they give the values of one rank.

use treepie_am::ActiveMessages;
use treepie_base::Pod;
use treepie_comm::Comm;
use treepie_graph::bfs::{BfsMethod, BfsOptions};
use treepie_graph::components::{ComponentMethod, ComponentOptions};
use treepie_graph::pagerank::{PageRankMethod, PageRankOptions};
use treepie_graph::sssp::SsspOptions;
use treepie_graph::{BuildOptions, EdgeWeight, Graph, Orientation, PropertyMap};

use crate::am_config;
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

fn values(comm: &Comm, list: &EdgeList, options: &BuildOptions, config: &str) -> Values {
    let config = am_config(config);
    let graph = Graph::build(comm, list, options).unwrap();
    let weighted = Graph::<u32>::build_weighted(comm, list, options).unwrap();
    let (mut all, root) = (Values::new(), list.vertices - 1);
    let methods = BfsMethod::ALL.map(Some).into_iter().chain([None]);
    for options in methods.map(|method| BfsOptions { method, config: config.clone(), ..BfsOptions::default() }) {
        let bfs = graph.bfs_with(root, &options).unwrap();
        bfs.verify(&config).unwrap();
        all.push((format!("bfs by {:?}", options.method), all_values(&bfs.levels, f64::from)));
    }
    for delta in [None, Some(0.7), Some(1e6)] {
        let sssp = weighted.sssp_with(root, &SsspOptions { delta, config: config.clone() }).unwrap();
        sssp.verify(&config).unwrap();
        all.push((format!("sssp with {delta:?}"), all_values(&sssp.distances, f64::from)));
    }
    for method in [Some(PageRankMethod::Pull), Some(PageRankMethod::Push), None] {
        let limits = PageRankOptions { damping: 0.7, tolerance: 0.0, max_iterations: 12, ..PageRankOptions::default() };
        let pagerank = graph.pagerank_with(&PageRankOptions { method, config: config.clone(), ..limits }).unwrap();
        assert_eq!(pagerank.iterations, 12);
        all.push((format!("pagerank by {method:?}"), all_values(&pagerank.scores, |score| score)));
    }
    if graph.is_symmetric() {
        for method in ComponentMethod::ALL {
            let options = ComponentOptions { method, config: config.clone() };
            let components = graph.components_with(&options).unwrap();
            components.verify(&config).unwrap();
            let labels = components.external_labels(&config).unwrap();
            all.push((format!("components by {method:?}"), all_values(&labels, |label| label as f64)));
        }
    }
    let labels = graph.scc_with(&config).unwrap().external_labels(&config).unwrap();
    all.push(("scc".to_owned(), all_values(&labels, |label| label as f64)));
    let sources = [0, root];
    let scores = graph.betweenness_with(sources, &config).unwrap();
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

/// An algorithm that knows only neighbours: each vertex sends its id and the weight of the arc to each of them.
#[test]
fn neighbours_get_the_messages_of_an_own_algorithm() {
    for seed in 0..20 {
        let list = EdgeList::random(seed);
        let mut expected = vec![(0, 0); list.vertices as usize];
        for (from, arcs) in (1..).zip(list.adjacency()) {
            arcs.iter().for_each(|(to, weight)| expected[*to] = (expected[*to].0 + from, expected[*to].1 + weight));
        }
        for ranks in [1, 2, 5] {
            launch(ranks, |comm| {
                let graph = Graph::<u32>::build_weighted(&comm, &list, &list.build_options(seed)).unwrap();
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
                    for neighbour in graph.neighbours(vertex) {
                        let (rank, local_index) = neighbour.owner();
                        cx.send(port, rank, [local_index, id, neighbour.weight()]);
                    }
                    assert_eq!(graph.neighbours(vertex).count() as u64, graph.degree(vertex));
                })
                .unwrap();
                for (id, sums) in PropertyMap::new(&graph, sums).unwrap().iter() {
                    assert_eq!(*sums, expected[id as usize], "vertex {id} of graph {seed} on {ranks} ranks");
                }
            });
        }
    }
}

/// Without in-edges, algorithms that can do without them choose another method, and the others refuse the graph.
#[test]
fn methods_are_chosen_by_what_a_graph_has() {
    let list = EdgeList { orientation: Orientation::Directed, ..EdgeList::random(5) };
    launch(3, |comm| {
        let build = |store_in_edges| {
            let options = BuildOptions { store_in_edges, ..BuildOptions::default() };
            Graph::build(&comm, &list, &options).unwrap()
        };
        let (with, without) = (build(true), build(false));
        assert_eq!(
            all_values(&with.bfs(0).unwrap().levels, f64::from),
            all_values(&without.bfs(0).unwrap().levels, f64::from)
        );
        assert_eq!(without.pagerank().unwrap().scores.local().len(), without.num_local());
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
