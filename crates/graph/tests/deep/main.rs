//! Algorithms composed of several patterns, compared with serial ones on small graphs of all kinds: on threads, and in
//! the simulator with random message delays.

mod methods;
mod serial;

use serial::{brandes, tarjan};
use treepie_comm::Comm;
use treepie_graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie_graph::scc::SccSearch;
use treepie_graph::sssp::SsspOptions;
use treepie_graph::{AmConfig, BuildOptions, Edge, EdgeWeight, Error, Graph, Orientation, PropertyMap};

use crate::listed::EdgeList;
use crate::worlds::{launch, simulate};

const GRAPHS: u64 = 60;
const CONFIGS: [&str; 3] = ["style=am", "style=bsp", "coalescing=2,reductions=16,routing=rook"];

fn am_config(text: &str) -> AmConfig {
    AmConfig { config: Some(text.parse().unwrap()), ..AmConfig::default() }
}

/// The values of local vertices, from those of all external ids.
fn local_values<T: Copy>(graph: &Graph<impl EdgeWeight>, all: &[T]) -> Vec<T> {
    graph.local_vertices().map(|vertex| all[graph.external_id(vertex) as usize]).collect()
}

/// Returns the number of rounds.
fn check_components(comm: &Comm, list: &EdgeList, seed: u64) -> u32 {
    let mut rounds = 0;
    let graph = Graph::build_with(comm, list, &list.build_options(seed)).unwrap();
    let correct = tarjan(&list.adjacency());
    let layout = graph.layout();
    let label = |vertex: usize| {
        let same = (0..correct.len()).filter(|other_vertex| correct[*other_vertex] == correct[vertex]);
        same.map(|other_vertex| layout.global_id(other_vertex as u64).unwrap()).min().unwrap()
    };
    let labels: Vec<u64> = (0..correct.len()).map(label).collect();
    let expected = local_values(&graph, &labels);
    for text in CONFIGS {
        let config = am_config(text);
        let mut search = SccSearch::new(&graph, &config).unwrap();
        for _ in 0..2 {
            rounds = search.run().unwrap();
            assert_eq!(search.labels(), expected, "graph {seed}, {text}, rank {} of {}", comm.rank(), comm.size());
        }
        let components = search.into_components().unwrap();
        components.verify().unwrap();
        let found = components.summary().unwrap();
        let size = |label: &u64| labels.iter().filter(|other| *other == label).count() as u64;
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(
            (found.components, found.largest),
            (distinct.len() as u64, distinct.iter().map(size).max().unwrap_or(0))
        );
    }
    rounds
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

/// Scores from every source, or every third, are correct, and the verifier accepts them.
fn check_metric<'g, M: PathMetric<'g>>(adjacency: &[Vec<(usize, u32)>], seed: u64, metric: impl Fn(&AmConfig) -> M) {
    // Both styles; the first one sometimes with routing and reductions.
    for text in [CONFIGS[if seed.is_multiple_of(3) { 2 } else { 0 }], CONFIGS[1]] {
        let config = am_config(text);
        let graph = metric(&config).graph();
        let sources_by_id = (0..adjacency.len()).step_by(if seed.is_multiple_of(2) { 1 } else { 3 });
        let mut correct = brandes(adjacency, sources_by_id.clone());
        if graph.is_symmetric() {
            correct.iter_mut().for_each(|score| *score /= 2.0);
        }
        let sources: Vec<u64> =
            sources_by_id.map(|external_id| graph.layout().global_id(external_id as u64).unwrap()).collect();
        let comm = graph.comm();
        let mut search = Betweenness::new(metric(&config), &config).unwrap();
        sources.iter().for_each(|source| assert!(search.run(*source).unwrap() > 0));
        let (scores, expected) = (search.scores().unwrap(), local_values(graph, &correct));
        let all_near = scores.local().iter().zip(&expected).all(|(score, correct)| near(*score, *correct));
        assert!(all_near, "graph {seed}, {text}, rank {} of {}: {scores:?}, {expected:?}", comm.rank(), comm.size());
        betweenness::verify(&mut metric(&config), sources.iter().copied(), &scores, &config).unwrap();
        assert_eq!(scores.top_k(usize::MAX).unwrap().len(), adjacency.len());
        let top = scores.top_k(10).unwrap();
        assert_eq!(top.len(), adjacency.len().min(10));
        let mut sorted = correct.clone();
        sorted.sort_unstable_by(|left, right| right.total_cmp(left));
        let is_correct = |(external_id, score): &(u64, f64), best| {
            near(*score, best) && near(*score, correct[*external_id as usize])
        };
        assert!(top.iter().zip(sorted).all(|(top, best)| is_correct(top, best)), "graph {seed}: {top:?}");
    }
}

fn check_betweenness(comm: &Comm, list: &EdgeList, seed: u64) {
    let options = list.build_options(seed);
    let plain = Graph::build_with(comm, list, &options).unwrap();
    let adjacency = list.adjacency();
    let mut hops = adjacency.clone();
    hops.iter_mut().flatten().for_each(|(_, weight)| *weight = 1);
    check_metric(&hops, seed, |config| HopMetric::new(&plain, config).unwrap());
    let sssp = |config: &AmConfig| SsspOptions { config: config.clone(), ..SsspOptions::default() };
    if seed % 4 < 2 {
        let weighted = Graph::<u32>::build_weighted_with(comm, list, &options).unwrap();
        check_metric(&adjacency, seed, |config| WeightedMetric::new(&weighted, &sssp(config)).unwrap());
    } else {
        let weighted = Graph::<f32>::build_weighted_with(comm, list, &options).unwrap();
        check_metric(&adjacency, seed, |config| WeightedMetric::new(&weighted, &sssp(config)).unwrap());
    }
}

#[test]
fn components_are_those_of_tarjan() {
    for ranks in 1..=5 {
        let rounds = launch(ranks, |comm| {
            let rounds = (0..GRAPHS).map(|seed| check_components(&comm, &EdgeList::random(seed), seed));
            rounds.collect::<Vec<u32>>()
        });
        // Some graphs need no pivot, some no colors, and some colors in both directions.
        let count = |least: u32, most| rounds[0].iter().filter(|taken| (least..=most).contains(*taken)).count();
        assert!([count(0, 0), count(1, 1), count(2, 2), count(3, 60)].iter().all(|many| *many >= 5), "{:?}", rounds[0]);
    }
}

#[test]
fn scores_are_those_of_brandes() {
    // With `TREEPIE_LONG` also those between.
    let all = [1, 2, 5, 3, 4];
    for ranks in &all[..if std::env::var_os("TREEPIE_LONG").is_some() { 5 } else { 3 }] {
        let ranks = *ranks;
        launch(ranks, |comm| (0..GRAPHS).for_each(|seed| check_betweenness(&comm, &EdgeList::random(seed), seed)));
    }
}

#[test]
fn late_messages_change_nothing() {
    for seed in 0..GRAPHS / 4 {
        let list = EdgeList::random(seed);
        simulate(4, seed, |comm| {
            check_components(&comm, &list, seed);
            check_betweenness(&comm, &list, seed);
        });
    }
}

/// A chain of components with ascending or descending ids does not need a round for each.
#[test]
fn a_chain_of_components_takes_few_rounds() {
    const CYCLES: u64 = 40;
    let forth = (0..CYCLES).flat_map(|cycle| {
        let (one, other) = (2 * cycle, 2 * cycle + 1);
        [(one, other), (other, one), (one, (other + 1).min(2 * CYCLES - 1))]
    });
    let forth: Vec<(u64, u64)> = forth.collect();
    let back = forth.iter().map(|(from, to)| (*to, *from));
    for list in [EdgeList::directed(2 * CYCLES, forth.clone()), EdgeList::directed(2 * CYCLES, back)] {
        for ranks in [1, 3] {
            let rounds = launch(ranks, |comm| {
                let graph = Graph::build_with(&comm, &list, &list.build_options(0)).unwrap();
                let mut search = SccSearch::new(&graph, &AmConfig::default()).unwrap();
                let rounds = search.run().unwrap();
                let components = search.into_components().unwrap();
                components.verify().unwrap();
                assert_eq!(components.summary().unwrap().components, CYCLES);
                rounds
            });
            assert!(rounds.iter().all(|taken| *taken <= 3), "{rounds:?}");
        }
    }
}

/// Trimming is enough if self-loops are the only cycles.
#[test]
fn without_cycles_no_round_is_needed() {
    let arcs = (0..30).flat_map(|from| [(from, from), (from, from / 2), (from, from / 3)]);
    let list = EdgeList::directed(31, arcs);
    launch(3, |comm| {
        let graph = Graph::build_with(&comm, &list, &list.build_options(2)).unwrap();
        assert_eq!(SccSearch::new(&graph, &AmConfig::default()).unwrap().run().unwrap(), 0);
    });
}

#[test]
fn wrong_components_are_found() {
    // Cycles of 0, 1, 2 and of 3, 4, 5, an arc from the first to the second, and 6 behind both.
    let arcs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3), (5, 6), (0, 6)];
    let list = EdgeList::directed(7, arcs);
    let correct = [0, 0, 0, 3, 3, 3, 6];
    let wrong: [([u64; 7], &str); 8] = [
        ([0, 0, 0, 0, 0, 0, 6], "vertex 3 is in component 0, in which no path leads from 3 to 0"),
        ([0, 0, 0, 3, 3, 3, 3], "vertex 6 is in component 3, in which no path leads from 6 to 3"),
        ([0, 0, 0, 3, 3, 3, 0], "vertex 6 is in component 0, in which no path leads from 6 to 0"),
        ([0, 1, 2, 3, 3, 3, 6], "is on a cycle of components"),
        ([0, 0, 0, 3, 4, 5, 6], "is on a cycle of components"),
        ([0, 0, 0, 3, 4, 4, 6], "no path leads from 5 to 4"),
        ([1, 1, 1, 3, 3, 3, 6], "vertex 0 is in component 1, which is not the least global id in it"),
        ([0, 0, 1, 3, 3, 3, 6], "no path leads from 1 to 2"),
    ];
    for ranks in 1..=3 {
        launch(ranks, |comm| {
            let graph = Graph::build_with(&comm, &list, &list.build_options(0)).unwrap();
            let verify = |labels: &[u64]| {
                let mut components = graph.scc().unwrap();
                components.labels = PropertyMap::new(&graph, local_values(&graph, labels)).unwrap();
                components.verify()
            };
            verify(&correct).unwrap();
            for (labels, why) in wrong {
                let error = verify(&labels).unwrap_err().to_string();
                assert!(error.starts_with("wrong result: ") && error.contains(why), "{labels:?}: {error}");
            }
            assert!(PropertyMap::new(&graph, vec![0; 9]).is_err());
        });
    }
}

/// Makes correct scores wrong.
type Change<'a> = &'a dyn Fn(&mut Vec<f64>);

#[test]
fn wrong_scores_are_found() {
    let list = EdgeList { orientation: Orientation::Undirected, ..EdgeList::random(20) };
    let scores = brandes(&list.adjacency(), 0..list.vertices as usize);
    let scores: Vec<f64> = scores.into_iter().map(|score| score / 2.0).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
    let (best, last) = (order[0], order[order.len() - 1]);
    assert!(scores[best] > scores[last] + 1.0);
    for ranks in 1..=3 {
        launch(ranks, |comm| {
            let graph = Graph::<u32>::build_weighted_with(&comm, &list, &list.build_options(0)).unwrap();
            let sources: Vec<u64> = (0..list.vertices).collect();
            let verify = |change: Change<'_>| {
                let mut changed = scores.clone();
                change(&mut changed);
                let mut metric = WeightedMetric::new(&graph, &SsspOptions::default()).unwrap();
                let changed = PropertyMap::new(&graph, local_values(&graph, &changed)).unwrap();
                betweenness::verify(&mut metric, sources.iter().copied(), &changed, &AmConfig::default())
            };
            verify(&|_| ()).unwrap();
            let changes: [Change<'_>; 6] = [
                &|scores| scores[best] *= 1.0 + 1e-6,
                &|scores| scores.swap(best, last),
                &|scores| (scores[best], scores[last]) = (scores[best] - 1.0, scores[last] + 1.0),
                &|scores| scores[last] = f64::NAN,
                &|scores| scores[last] = -1.0,
                &|scores| scores.fill(0.0),
            ];
            for (index, change) in changes.into_iter().enumerate() {
                let error = verify(change).unwrap_err().to_string();
                assert!(error.starts_with("wrong result: "), "change {index}: {error}");
            }
        });
    }
}

/// Weights that do not make paths longer, a graph without in-edges, and sources that do not exist.
#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let weighted = |edges: &[(u64, u64, f64)], orientation| {
        let edges = edges.iter().map(|(from, to, weight)| Edge { from: *from, to: *to, weight: *weight }).collect();
        EdgeList { vertices: 4, first_id: 0, edges, orientation }
    };
    let zero = weighted(&[(0, 1, 1.0), (2, 3, 0.0)], Orientation::Directed);
    let lost = weighted(&[(0, 1, 1e9), (1, 2, 1e-3)], Orientation::Directed);
    let uneven = weighted(&[(0, 1, 1.0), (1, 0, 2.0)], Orientation::Symmetric);
    launch(2, |comm| {
        let config = AmConfig::default();
        let build = |list: &EdgeList| Graph::<f32>::build_weighted_with(&comm, list, &list.build_options(0)).unwrap();
        let refused = |list: &EdgeList| {
            let graph = build(list);
            let ran = WeightedMetric::new(&graph, &SsspOptions::default());
            let ran = ran.and_then(|metric| Betweenness::new(metric, &config)?.run(0));
            match ran {
                Err(Error::Input(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&zero), "betweenness needs weights above zero, and an arc from vertex 2 weighs nothing");
        assert!(refused(&lost).ends_with("and 1 are lost in rounding when they are added"));
        assert!(refused(&uneven).contains("weigh the same in both directions"));

        let graph = build(&weighted(&[(0, 1, 1.0)], Orientation::Directed));
        let metric = WeightedMetric::new(&graph, &SsspOptions::default()).unwrap();
        let error = Betweenness::new(metric, &config).unwrap().run(4).unwrap_err();
        assert_eq!(error.to_string(), "there is no vertex with the global id 4 among the 4 vertices");
        let options = BuildOptions { store_in_edges: false, ..BuildOptions::default() };
        let directed = Graph::build_with(&comm, &EdgeList::directed(2, [(0, 1)]), &options).unwrap();
        assert!(matches!(SccSearch::new(&directed, &config), Err(Error::Input(_))));
        let missing = Error::Input("betweenness needs a graph that was built with in-edges".to_owned());
        assert_eq!(directed.betweenness([0]).map(drop), Err(missing.clone()));
        assert_eq!(HopMetric::new(&directed, &config).map(drop), Err(missing.clone()));
        let directed = Graph::<u32>::build_weighted_with(&comm, &EdgeList::directed(2, [(0, 1)]), &options).unwrap();
        assert_eq!(directed.weighted_betweenness([0]).map(drop), Err(missing));
    });
}

/// Two equally short routes from 0 to 3, one with a parallel arc: two of three shortest paths pass through 1.
#[test]
fn parallel_edges_are_distinct_shortest_paths() {
    let list = EdgeList::directed(4, [(0, 1), (1, 3), (1, 3), (0, 2), (2, 3), (2, 2), (3, 3)]);
    launch(2, |comm| {
        let graph = Graph::build_with(&comm, &list, &list.build_options(0)).unwrap();
        let metric = HopMetric::new(&graph, &AmConfig::default()).unwrap();
        let mut search = Betweenness::new(metric, &AmConfig::default()).unwrap();
        assert_eq!(search.run(0).unwrap(), 4);
        let top = search.scores().unwrap().top_k(3).unwrap();
        assert_eq!(top.iter().map(|(external_id, _)| *external_id).collect::<Vec<_>>(), [1, 2, 0]);
        assert!(near(top[0].1, 2.0 / 3.0) && near(top[1].1, 1.0 / 3.0) && top[2].1 == 0.0);
    });
}
