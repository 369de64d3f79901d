//! Algorithms that are made of several patterns, on small graphs of all kinds against plain serial ones: on threads,
//! and in the simulator, where messages are late by chance.

mod listed;
mod serial;
mod worlds;

use listed::Listed;
use serial::{brandes, tarjan};
use treepie_comm::Comm;
use treepie_graph::betweenness::{self, Betweenness, Hops, Lengths, Measure};
use treepie_graph::{Edge, Error, Graph, Messages, Orientation, Shape, Weighted, components, scc, top};
use worlds::{launch, simulate};

const GRAPHS: u64 = 60;
const CONFIGS: [&str; 3] = ["style=am", "style=bsp", "coalescing=2,reductions=16,routing=rook"];

fn messages(config: &str) -> Messages {
    Messages { config: Some(config.parse().unwrap()), ..Messages::default() }
}

/// Each rank's part of what there is for all names.
fn part<T: Copy>(graph: &Graph<impl treepie_graph::Arc>, all: &[T]) -> Vec<T> {
    (0..graph.own()).map(|place| all[graph.layout().name(place) as usize]).collect()
}

/// Returns how many rounds it took.
fn check_components(comm: &Comm, listed: &Listed, seed: u64) -> u32 {
    let mut rounds = 0;
    let graph = Graph::<u32>::build(comm, listed, &listed.shape(seed)).unwrap();
    let right = tarjan(&listed.arcs());
    let layout = graph.layout();
    let label = |of: usize| {
        let same = (0..right.len()).filter(|name| right[*name] == right[of]);
        same.map(|name| layout.number(name as u64).unwrap()).min().unwrap()
    };
    let labels: Vec<u64> = (0..right.len()).map(label).collect();
    let expected = part(&graph, &labels);
    for config in CONFIGS {
        let messages = messages(config);
        let mut search = scc::Search::new(comm, &graph, &messages).unwrap();
        for _ in 0..2 {
            rounds = search.run().unwrap();
            assert_eq!(search.labels(), expected, "graph {seed}, {config}, rank {} of {}", comm.rank(), comm.size());
        }
        scc::verify(comm, &graph, search.labels(), &messages).unwrap();
        let found = components::count(comm, &graph, search.labels()).unwrap();
        let size = |label: &u64| labels.iter().filter(|other| *other == label).count() as u64;
        let mut names = labels.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!((found.components, found.largest), (names.len() as u64, names.iter().map(size).max().unwrap_or(0)));
    }
    rounds
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

/// From each vertex, or from each third: the right scores, and the verifier says so.
fn check_measure<'g, M: Measure<'g>>(
    comm: &Comm,
    arcs: &[Vec<(usize, u32)>],
    seed: u64,
    measure: impl Fn(&Messages) -> M,
) {
    // Both styles; the first one sometimes with routes and reductions.
    for config in [CONFIGS[if seed.is_multiple_of(3) { 2 } else { 0 }], CONFIGS[1]] {
        let travels = messages(config);
        let graph = measure(&travels).graph();
        let names = (0..arcs.len()).step_by(if seed.is_multiple_of(2) { 1 } else { 3 });
        let mut right = brandes(arcs, names.clone());
        if graph.is_symmetric() {
            right.iter_mut().for_each(|score| *score /= 2.0);
        }
        let sources: Vec<u64> = names.map(|name| graph.layout().number(name as u64).unwrap()).collect();
        let mut search = Betweenness::new(comm, measure(&travels), &travels).unwrap();
        sources.iter().for_each(|source| assert!(search.run(*source).unwrap() > 0));
        let (scores, expected) = (search.scores(), part(graph, &right));
        let all_near = scores.iter().zip(&expected).all(|(score, right)| near(*score, *right));
        assert!(all_near, "graph {seed}, {config}, rank {} of {}: {scores:?}, {expected:?}", comm.rank(), comm.size());
        betweenness::verify(comm, &mut measure(&travels), sources.iter().copied(), &scores, &travels).unwrap();
        let top = top(comm, graph, &scores, 10).unwrap();
        assert_eq!(top.len(), arcs.len().min(10));
        let mut sorted = right.clone();
        sorted.sort_unstable_by(|left, right| right.total_cmp(left));
        let is_right = |(name, score): &(u64, f64), best| near(*score, best) && near(*score, right[*name as usize]);
        assert!(top.iter().zip(sorted).all(|(top, best)| is_right(top, best)), "graph {seed}: {top:?}");
    }
}

fn check_betweenness(comm: &Comm, listed: &Listed, seed: u64) {
    let shape = Shape { whole_weights: seed % 4 < 2, ..listed.shape(seed) };
    let plain = Graph::<u32>::build(comm, listed, &shape).unwrap();
    let weighted = Graph::<Weighted>::build(comm, listed, &shape).unwrap();
    let arcs = listed.arcs();
    let mut hops = arcs.clone();
    hops.iter_mut().flatten().for_each(|(_, weight)| *weight = 1);
    check_measure(comm, &hops, seed, |travels| Hops::new(comm, &plain, travels).unwrap());
    if shape.whole_weights {
        check_measure(comm, &arcs, seed, |travels| Lengths::<u32>::new(comm, &weighted, None, travels).unwrap());
    } else {
        check_measure(comm, &arcs, seed, |travels| Lengths::<f32>::new(comm, &weighted, None, travels).unwrap());
    }
}

#[test]
fn components_are_those_of_tarjan() {
    for ranks in 1..=5 {
        let rounds = launch(ranks, |comm| {
            let rounds = (0..GRAPHS).map(|seed| check_components(&comm, &Listed::draw(seed), seed));
            rounds.collect::<Vec<u32>>()
        });
        // Some need no pivot, some no colours, and some colours in both directions.
        let count = |least: u32, most| rounds[0].iter().filter(|taken| (least..=most).contains(*taken)).count();
        assert!([count(0, 0), count(1, 1), count(2, 2), count(3, 60)].iter().all(|many| *many >= 5), "{:?}", rounds[0]);
    }
}

#[test]
fn scores_are_those_of_brandes() {
    for ranks in 1..=5 {
        launch(ranks, |comm| (0..GRAPHS).for_each(|seed| check_betweenness(&comm, &Listed::draw(seed), seed)));
    }
}

#[test]
fn late_messages_change_nothing() {
    for seed in 0..GRAPHS / 4 {
        let listed = Listed::draw(seed);
        simulate(4, seed, |comm| {
            check_components(&comm, &listed, seed);
            check_betweenness(&comm, &listed, seed);
        });
    }
}

/// Numbers that ascend or descend along a chain of components do not need a round for each.
#[test]
fn a_chain_of_components_takes_few_rounds() {
    const CYCLES: u64 = 40;
    let forth = (0..CYCLES).flat_map(|cycle| {
        let (one, other) = (2 * cycle, 2 * cycle + 1);
        [(one, other), (other, one), (one, (other + 1).min(2 * CYCLES - 1))]
    });
    let forth: Vec<(u64, u64)> = forth.collect();
    let back = forth.iter().map(|(from, to)| (*to, *from));
    for listed in [Listed::directed(2 * CYCLES, forth.clone()), Listed::directed(2 * CYCLES, back)] {
        for ranks in [1, 3] {
            let rounds = launch(ranks, |comm| {
                let graph = Graph::<u32>::build(&comm, &listed, &listed.shape(0)).unwrap();
                let mut search = scc::Search::new(&comm, &graph, &Messages::default()).unwrap();
                let rounds = search.run().unwrap();
                scc::verify(&comm, &graph, search.labels(), &Messages::default()).unwrap();
                assert_eq!(components::count(&comm, &graph, search.labels()).unwrap().components, CYCLES);
                rounds
            });
            assert!(rounds.iter().all(|taken| *taken <= 3), "{rounds:?}");
        }
    }
}

/// Trimming is enough where there are no cycles but those of one arc.
#[test]
fn without_cycles_no_round_is_needed() {
    let arcs = (0..30).flat_map(|from| [(from, from), (from, from / 2), (from, from / 3)]);
    let listed = Listed::directed(31, arcs);
    launch(3, |comm| {
        let graph = Graph::<u32>::build(&comm, &listed, &listed.shape(2)).unwrap();
        assert_eq!(scc::Search::new(&comm, &graph, &Messages::default()).unwrap().run().unwrap(), 0);
    });
}

#[test]
fn wrong_components_are_found() {
    // Cycles of 0, 1, 2 and of 3, 4, 5, an arc from the first to the second, and 6 behind both.
    let arcs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3), (5, 6), (0, 6)];
    let listed = Listed::directed(7, arcs);
    let right = [0, 0, 0, 3, 3, 3, 6];
    let wrong: [([u64; 7], &str); 8] = [
        ([0, 0, 0, 0, 0, 0, 6], "vertex 3 is in component 0, in which no way leads from 3 to 0"),
        ([0, 0, 0, 3, 3, 3, 3], "vertex 6 is in component 3, in which no way leads from 6 to 3"),
        ([0, 0, 0, 3, 3, 3, 0], "vertex 6 is in component 0, in which no way leads from 6 to 0"),
        ([0, 1, 2, 3, 3, 3, 6], "is on a cycle of components"),
        ([0, 0, 0, 3, 4, 5, 6], "is on a cycle of components"),
        ([0, 0, 0, 3, 4, 4, 6], "no way leads from 5 to 4"),
        ([1, 1, 1, 3, 3, 3, 6], "vertex 0 is in component 1, which is not the least number in it"),
        ([0, 0, 1, 3, 3, 3, 6], "no way leads from 1 to 2"),
    ];
    for ranks in 1..=3 {
        launch(ranks, |comm| {
            let graph = Graph::<u32>::build(&comm, &listed, &listed.shape(0)).unwrap();
            let verify = |labels: &[u64]| scc::verify(&comm, &graph, &part(&graph, labels), &Messages::default());
            verify(&right).unwrap();
            for (labels, why) in wrong {
                let error = verify(&labels).unwrap_err().to_string();
                assert!(error.starts_with("wrong result: ") && error.contains(why), "{labels:?}: {error}");
            }
            assert!(scc::verify(&comm, &graph, &[0; 9], &Messages::default()).is_err());
        });
    }
}

/// Makes right scores wrong.
type Change<'a> = &'a dyn Fn(&mut Vec<f64>);

#[test]
fn wrong_scores_are_found() {
    let listed = Listed { orientation: Orientation::Undirected, ..Listed::draw(20) };
    let scores = brandes(&listed.arcs(), 0..listed.vertices as usize);
    let scores: Vec<f64> = scores.into_iter().map(|score| score / 2.0).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
    let (best, last) = (order[0], order[order.len() - 1]);
    assert!(scores[best] > scores[last] + 1.0);
    for ranks in 1..=3 {
        launch(ranks, |comm| {
            let graph = Graph::<Weighted>::build(&comm, &listed, &listed.shape(0)).unwrap();
            let sources: Vec<u64> = (0..listed.vertices).collect();
            let verify = |change: Change<'_>| {
                let mut changed = scores.clone();
                change(&mut changed);
                let mut measure = Lengths::<u32>::new(&comm, &graph, None, &Messages::default()).unwrap();
                betweenness::verify(
                    &comm,
                    &mut measure,
                    sources.iter().copied(),
                    &part(&graph, &changed),
                    &Messages::default(),
                )
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
            for (place, change) in changes.into_iter().enumerate() {
                let error = verify(change).unwrap_err().to_string();
                assert!(error.starts_with("wrong result: "), "change {place}: {error}");
            }
        });
    }
}

/// Weights that do not make ways longer, a graph without arcs backwards, and sources that do not exist.
#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let weighted = |edges: &[(u64, u64, f64)], orientation| {
        let edges = edges.iter().map(|(from, to, weight)| Edge { from: *from, to: *to, weight: *weight }).collect();
        Listed { vertices: 4, edges, orientation }
    };
    let zero = weighted(&[(0, 1, 1.0), (2, 3, 0.0)], Orientation::Directed);
    let lost = weighted(&[(0, 1, 1e9), (1, 2, 1e-3)], Orientation::Directed);
    let uneven = weighted(&[(0, 1, 1.0), (1, 0, 2.0)], Orientation::Symmetric);
    launch(2, |comm| {
        let travels = Messages::default();
        let build = |listed: &Listed| {
            let shape = Shape { whole_weights: false, ..listed.shape(0) };
            Graph::<Weighted>::build(&comm, listed, &shape).unwrap()
        };
        let refused = |listed: &Listed| {
            let graph = build(listed);
            let ran = Lengths::<f32>::new(&comm, &graph, None, &travels);
            let ran = ran.and_then(|measure| Betweenness::new(&comm, measure, &travels)?.run(0));
            match ran {
                Err(Error::Input(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&zero), "betweenness needs weights above zero, and an arc from vertex 2 weighs nothing");
        assert!(refused(&lost).ends_with("and 1 are lost in rounding when they are added"));
        assert!(refused(&uneven).contains("weigh the same in both directions"));

        let graph = build(&weighted(&[(0, 1, 1.0)], Orientation::Directed));
        let measure = Lengths::<f32>::new(&comm, &graph, None, &travels).unwrap();
        let error = Betweenness::new(&comm, measure, &travels).unwrap().run(4).unwrap_err();
        assert_eq!(error.to_string(), "there is no vertex with the number 4 among the 4");
        let forwards = Graph::<u32>::build(&comm, &Listed::directed(2, [(0, 1)]), &Shape::default()).unwrap();
        assert!(matches!(scc::Search::new(&comm, &forwards, &travels), Err(Error::Input(_))));
        assert!(matches!(Hops::new(&comm, &forwards, &travels), Err(Error::Input(_))));
    });
}

/// Two equally short ways from 0 to 3, one of them twice: two of three ways go over 1.
#[test]
fn several_arcs_are_several_ways() {
    let listed = Listed::directed(4, [(0, 1), (1, 3), (1, 3), (0, 2), (2, 3), (2, 2), (3, 3)]);
    launch(2, |comm| {
        let graph = Graph::<u32>::build(&comm, &listed, &listed.shape(0)).unwrap();
        let measure = Hops::new(&comm, &graph, &Messages::default()).unwrap();
        let mut search = Betweenness::new(&comm, measure, &Messages::default()).unwrap();
        assert_eq!(search.run(0).unwrap(), 4);
        let top = top(&comm, &graph, &search.scores(), 3).unwrap();
        assert_eq!(top.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [1, 2, 0]);
        assert!(near(top[0].1, 2.0 / 3.0) && near(top[1].1, 1.0 / 3.0) && top[2].1 == 0.0);
    });
}
